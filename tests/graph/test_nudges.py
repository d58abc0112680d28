"""Nudges in the real graph: once, the same in each call, and nothing that anyone has said."""

from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import Settings, restore
from ebbtide.memory.messages import text
from tests.agents import THREAD, talk
from tests.doubles import call
from tests.graph.journeys import EXACT, PAGES, After, Turn, begin, play, using

LEFT = [
    Turn(PAGES[1], using("open_effort", name="css")),
    *[Turn(f"# {said}") for said in ("What is the time?", "Who wrote Dune?", "How old is Rome?")],
]
ASKED = Turn("# And the train to platform 9?", using("effort_status"))
RUN = [*LEFT, ASKED, Turn("# Name a river?"), Turn("# A lake?")]
NUDGE = '[Memory: the effort "css" is still open'


def nudges(after: After) -> list[str]:
    """Return the nudges in what the model was sent last in a turn."""
    return [message.text for message in after.sent if message.text.startswith(NUDGE)]


def test_a_nudge_stands_right_before_the_message(tmp_path: Path) -> None:
    """It is the same in both calls of its turn, the last thing before what the user says."""
    chat = begin(tmp_path, [*LEFT, ASKED])
    chat.say_all(turn.said for turn in [*LEFT, ASKED])
    first, second = (call.messages for call in chat.model.sent[-2:])

    assert first[-1].text == ASKED.said
    assert first[-2].text.startswith(NUDGE)
    assert second[: len(first)] == first


def test_a_nudge_is_in_no_record(tmp_path: Path) -> None:
    """The archive has what was said, and nobody said the nudge."""
    chat = begin(tmp_path, RUN)
    states = [chat.say(turn.said) for turn in RUN]
    messages = [message for record in chat.records(states[-1]) for message in record.messages]

    assert chat.said(states[-1]) == [turn.said for turn in RUN]
    assert [text(one) for one in messages if "[Memory:" in text(one)] == []
    assert [m.text for m in states[-1]["messages"] if "[Memory:" in m.text] == []


def test_an_effort_that_is_left_open_is_nudged(tmp_path: Path) -> None:
    """After three turns without a reference the line stands once, and is no reference itself."""
    *before, there, river, after = play(tmp_path, RUN, settings=EXACT)

    assert [nudges(one) for one in (*before, river, after)] == [[]] * 6
    assert nudges(there)[0].startswith(NUDGE)
    assert after.state["memory"]["open_efforts"]["css"]["last_referenced_turn"] == 1


def test_nudges_can_be_switched_off(tmp_path: Path) -> None:
    """With `nudges=False` there is none."""
    afters = play(tmp_path, RUN, settings=Settings(nudges=False))

    assert [nudges(after) for after in afters] == [[]] * 7


@pytest.mark.parametrize("set_up", [LEFT, [*LEFT, Turn("# thanks")]])
def test_a_restored_thread_is_nudged_as_it_would_have_been(
    tmp_path: Path, set_up: list[Turn]
) -> None:
    """Without any checkpoint the same line stands in the same turn."""
    question = Turn("And which train leaves platform 9?")
    *_, expected = play(tmp_path / "one", [*set_up, question])
    play(tmp_path / "two", set_up)
    chat = talk(tmp_path / "two", ["Done."], checkpointer=InMemorySaver())
    restore(chat.agent, THREAD)

    found = After(chat.say(question.said), [chat.last])

    assert nudges(found) == nudges(expected) != []


def test_a_resumed_turn_has_its_nudge(tmp_path: Path) -> None:
    """Invoked with None after a provider's error, the model is sent the same."""
    opening = [call("open_effort", name="css"), *["Done."] * 4]
    chat = talk(tmp_path, [*opening, ConnectionError("gone"), "Done."])
    chat.say_all(turn.said for turn in LEFT)
    with pytest.raises(ConnectionError):
        chat.say(ASKED.said)
    before = chat.last

    chat.agent.invoke(None, THREAD)

    assert chat.last == before
    assert before[-2].text.startswith(NUDGE)


def test_a_branch_is_nudged_by_its_own_past(tmp_path: Path) -> None:
    """Of two branches the one that did not mention the effort has the line."""
    *quiet, css = (*LEFT, Turn("Why does the CSS overlap it?"))
    chat = begin(tmp_path, [*quiet, css, *[Turn("# Who wrote Emma?")] * 2])
    chat.say_all(turn.said for turn in (*quiet, css))
    older = next(
        state.config
        for state in chat.agent.get_state_history(THREAD)
        if state.values["memory"].get("turn") == len(quiet) and not state.next
    )

    main = After(chat.say("# Who wrote Emma?"), [chat.last])
    fork = After(chat.say("# Who wrote Emma?", older), [chat.last])

    assert [len(nudges(after)) for after in (main, fork)] == [0, 1]


def test_a_nudge_stays_where_it_stood(tmp_path: Path) -> None:
    """After `switch_effort` the next call begins with the same bytes, nudge included."""
    turns = [*LEFT, Turn(ASKED.said, (call("switch_effort"), "."))]
    chat = begin(tmp_path, turns)
    chat.say_all(turn.said for turn in turns)
    first, second = (call.messages for call in chat.model.sent[-2:])

    assert first[-2].text.startswith(NUDGE)
    assert second[: len(first)] == first
    assert len(nudges(After({}, [second]))) == 1
