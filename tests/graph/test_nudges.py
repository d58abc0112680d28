"""Nudges in the real graph: once, the same in each call, and nothing that anyone has said."""

from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import Settings, restore
from ebbtide.memory.messages import text
from tests.agents import THREAD, talk
from tests.doubles import call
from tests.graph.journeys import PAGES, After, Turn, begin, play, trains, using

RUN = [*trains(4), Turn("And the train to platform 9?", using("effort_status")), *trains(6, 10)]
LEFT = [
    Turn(PAGES[1], using("open_effort", name="css")),
    *[Turn(f"# {said}") for said in ("What is the time?", "Who wrote Dune?", "How old is Rome?")],
]
NUDGE = "[Memory: the last 4 turns keep to one topic"
STILL_OPEN = '[Memory: the effort "css" is still open'


def nudges(after: After) -> list[str]:
    """Return the nudges in what the model was sent last in a turn."""
    said = [message.text for message in after.sent]
    return [one for one in said if one.startswith((NUDGE, STILL_OPEN))]


def test_one_topic_is_nudged_in_one_turn(tmp_path: Path) -> None:
    """The line stands in the fifth turn about trains, and in no other."""
    afters = play(tmp_path, RUN)

    assert [len(nudges(after)) for after in afters] == [int(at == 4) for at in range(11)]


def test_a_nudge_stands_right_before_the_message(tmp_path: Path) -> None:
    """It is the same in both calls of its turn, the last thing before what the user says."""
    here = begin(tmp_path, RUN[:5])
    for turn in RUN[:5]:
        here.say(turn.said)
    first, second = (call.messages for call in here.model.sent[-2:])

    assert first[-1].text == RUN[4].said
    assert first[-2].text.startswith(NUDGE)
    assert second[: len(first)] == first


def test_a_nudge_is_in_no_record(tmp_path: Path) -> None:
    """The archive has what was said, and nobody said the nudge."""
    here = begin(tmp_path, RUN)
    states = [here.say(turn.said) for turn in RUN]
    messages = [message for record in here.records(states[-1]) for message in record.messages]

    assert here.said(states[-1]) == [turn.said for turn in RUN]
    assert [text(one) for one in messages if "[Memory:" in text(one)] == []
    assert [m.text for m in states[-1]["messages"] if "[Memory:" in m.text] == []


def test_an_effort_that_is_left_open_is_nudged(tmp_path: Path) -> None:
    """After three turns without a reference the line stands once, and is no reference itself."""
    *_, before, there, after = play(tmp_path, [*LEFT, Turn("# Name a river?"), Turn("# A lake?")])

    assert nudges(before) == nudges(after) == []
    assert nudges(there)[0].startswith(STILL_OPEN)
    assert after.state["memory"]["open_efforts"]["css"]["last_referenced_turn"] == 1


def test_nudges_can_be_switched_off(tmp_path: Path) -> None:
    """With `nudges=False` there is none."""
    afters = play(tmp_path, [*RUN[:5], *LEFT, *trains(1)], settings=Settings(nudges=False))

    assert [nudges(after) for after in afters] == [[]] * 10


@pytest.mark.parametrize("set_up", [RUN[:4], LEFT, [*LEFT, Turn("# thanks")]])
def test_a_restored_thread_is_nudged_as_it_would_have_been(
    tmp_path: Path, set_up: list[Turn]
) -> None:
    """Without any checkpoint the same line stands in the same turn."""
    question = Turn("And which train leaves platform 9?")
    *_, expected = play(tmp_path / "one", [*set_up, question])
    play(tmp_path / "two", set_up)
    here = talk(tmp_path / "two", ["Done."], checkpointer=InMemorySaver())
    restore(here.agent, THREAD)

    found = After(here.say(question.said), [here.last])

    assert nudges(found) == nudges(expected) != []


def test_a_resumed_turn_has_its_nudge(tmp_path: Path) -> None:
    """Invoked with None after a provider's error, the model is sent the same."""
    set_up = RUN[:4]
    answers = [*["Done."] * 4, ConnectionError("gone"), "Done."]
    here = talk(tmp_path, answers)
    for turn in set_up:
        here.say(turn.said)
    with pytest.raises(ConnectionError):
        here.say("And the train to platform 9?")
    before = here.last

    here.agent.invoke(None, THREAD)

    assert here.last == before
    assert before[-2].text.startswith(NUDGE)


def test_a_branch_is_nudged_by_its_own_past(tmp_path: Path) -> None:
    """Of two branches the one that kept to its topic has the line."""
    other = Turn("# Who wrote Dune?")
    here = begin(tmp_path, [*trains(3), other, *trains(3, first=20)])
    for turn in (*trains(3), other):
        here.say(turn.said)
    older = next(
        state.config
        for state in here.agent.get_state_history(THREAD)
        if state.values["memory"].get("turn") == 3 and not state.next
    )

    main = After(here.say(trains(1)[0].said), [here.last])
    fork = After(here.say(trains(1)[0].said, older), [here.last])
    again = After(here.say(trains(1)[0].said), [here.last])

    assert [len(nudges(after)) for after in (main, fork, again)] == [0, 0, 1]


def test_a_nudge_that_is_followed_is_gone(tmp_path: Path) -> None:
    """After `open_effort` the next call of the turn has no nudge."""
    turns = [*trains(4), Turn("And the train to platform 9?", (call("open_effort", name="a"), "."))]
    here = begin(tmp_path, turns)
    for turn in turns:
        here.say(turn.said)
    first, second = (After({}, [call.messages]) for call in here.model.sent[-2:])

    assert nudges(first)[0].startswith(NUDGE)
    assert nudges(second) == []
