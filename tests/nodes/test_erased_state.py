"""The state of a thread after a turn was erased."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from ebbtide.memory.disk.archive import DiskArchive
from ebbtide.memory.erasing import Erased
from ebbtide.memory.record import Group, Tip
from ebbtide.memory.view import View, past
from ebbtide.nodes.erased_state import doubtful, without_turn
from ebbtide.nodes.plain import plain
from tests.memory.turns import OWNER, START

SAID = "Use port 8080 of db-7.local, and tell nobody."


def turn(number: int, said: str) -> list[BaseMessage]:
    """Return the messages of a turn."""
    return [HumanMessage(said, id=f"h{number}"), AIMessage("Well.", id=f"a{number}")]


TURNS = [turn(1, "Hello there."), turn(2, SAID), turn(3, "And what else?")]


@pytest.fixture
def view(tmp_path: Path) -> Iterator[View]:
    """Yield an archive in which the three turns are committed."""
    with DiskArchive(tmp_path, durable=False) as archive:
        tip = START
        for number, messages in enumerate(TURNS, start=1):
            tip = archive.commit(OWNER, tip, Group(number, plain(messages), "")).tip
        yield past(archive, OWNER, tip)


def values(tip: Tip, **more: Any) -> dict[str, Any]:
    """Return the state after the three turns."""
    return {
        "messages": [message for messages in TURNS for message in messages],
        "turn_starts": ["h1", "h2", "h3"],
        "archived": "a3",
        "accepted": "h3",
        "turn": 3,
        "persisted": 3,
        "tip": tip.digest,
        **more,
    }


def ids(state: dict[str, Any]) -> list[str]:
    """Return the ids of the messages in a state."""
    return [message.id for message in state["messages"]]


def test_messages_of_the_turn_are_gone(view: View) -> None:
    """Its messages go, the others stay, and the last turn is still known as the last."""
    erased = view.archive.erase(OWNER, view.tip, 2)

    state = without_turn(values(view.tip), erased, view)

    assert ids(state) == ["h1", "a1", "h3", "a3"]
    assert (state["turn_starts"], state["archived"], state["accepted"]) == (
        ["h1", "h3"],
        "a3",
        "h3",
    )


def test_last_turn_leaves_a_mark(view: View) -> None:
    """If the last turn goes, no other is taken for the last one."""
    erased = view.archive.erase(OWNER, view.tip, 3)

    state = without_turn(values(view.tip, banners=["b"], events=[{"x": 1}]), erased, view)

    assert ids(state) == ["h1", "a1", "h2", "a2"]
    assert (state["turn_starts"], state["archived"]) == (["h1", "h2", ""], "a2")
    assert (state["banners"], state["events"]) == ([], [])


@pytest.mark.parametrize(("number", "left"), [(3, ["h1", "h2"]), (2, ["h1"]), (1, ["h2"])])
def test_mark_of_the_last_turn_stays(view: View, number: int, left: list[str]) -> None:
    """Erased again, or another turn after it, the last turn is still known to be gone."""
    first = without_turn(values(view.tip), view.archive.erase(OWNER, view.tip, 3), view)
    state = {**values(view.tip), **first}

    again = without_turn(state, view.archive.erase(OWNER, view.tip, number), view)

    assert ids(again)[::2] == left
    assert again["turn_starts"] == [*left, ""]


def test_texts_that_quote_it_are_emptied(view: View) -> None:
    """What else of the state is text loses what says a sentence of the turn."""
    erased = view.archive.erase(OWNER, view.tip, 2)
    events = [{"type": "opened", "effort": "a", "goal": SAID}]
    more = {"banners": [f"Done: {SAID}", "Opened."], "raw_answers": {"a": SAID}, "events": events}

    state = without_turn(values(view.tip, **more), erased, view)

    assert (state["banners"], state["raw_answers"]) == (["", "Opened."], {"a": ""})
    assert state["events"] == [{"type": "opened", "effort": "a", "goal": ""}]


def test_names_stay_though_the_turn_says_them(tmp_path: Path) -> None:
    """A turn that says a thread's id, an effort's and a branch's leaves them where they are."""
    names = ("thread-of-the-north-gate", "keys-of-the-north-gate", "branch-of-the-north-gate")
    thread, effort, branch = names
    more = {
        "session": {"user": "ann", "thread": thread, "namespace": ""},
        "active_effort": effort,
        "open_efforts": {effort: {"last_referenced_turn": 1}},
        "cuts": {"key": effort, "memory": [effort]},
        "events": [{"type": "switched", "effort": effort}],
        "branch": branch,
        "sent": thread,
    }
    with DiskArchive(tmp_path, durable=False) as archive:
        spoken = Group(1, plain(turn(1, "\n".join(names))), "")
        tip = archive.commit(OWNER, START, spoken).tip
        erased = archive.erase(OWNER, tip, 1)

        state = without_turn({"turn": 2, "persisted": 1, **more}, erased, past(archive, OWNER, tip))

    assert {key: state[key] for key in more} == more


def test_anchor_loses_fields_that_tell(view: View) -> None:
    """A field of the anchor goes if it says a sentence of the turn or one of its figures."""
    erased = view.archive.erase(OWNER, view.tip, 2)
    telling = {"Context": f"note: {SAID}", "Resolved": "and tell nobody.", "Ports": "port 8080"}
    anchor = {"Goal": "tidy up", **telling}

    state = without_turn(values(view.tip, anchor=anchor), erased, view)

    assert state["anchor"] == {"Goal": "tidy up"}


def test_answers_shown_otherwise_than_archived(view: View) -> None:
    """Turns are told apart by ids, so that answers may be shown without what the archive has."""
    erased = view.archive.erase(OWNER, view.tip, 2)
    shown = values(view.tip)
    shown["messages"][3] = AIMessage("Well", id="a2")
    shown["messages"][5] = AIMessage("Well", id="a3")

    state = without_turn(shown, erased, view)

    assert ids(state) == ["h1", "a1", "h3", "a3"]
    assert state["messages"][-1].text == "Well"


def test_anchor_of_a_turn_erased_before(view: View) -> None:
    """What the turn said is read from the state's messages, or else the anchor stays as it is."""
    view.archive.erase(OWNER, view.tip, 2)
    again = view.archive.erase(OWNER, view.tip, 2)
    anchor = {"Goal": "tidy up", "Technical Anchors": "port 8080"}
    first = without_turn(values(view.tip, anchor=anchor), again, view)

    second = without_turn(first, again, view)

    assert again.sought == ()
    assert first["anchor"] == second["anchor"] == {"Goal": "tidy up"}


def test_what_may_tell_of_a_turn_erased_before(view: View) -> None:
    """Nothing is in doubt while the turn's text is there, then what no turn wrote in its anchor."""
    anchor = {"Technical Anchors": "port 8080"}
    state = values(view.tip, anchor=anchor)
    erased = view.archive.erase(OWNER, view.tip, 2)
    again = view.archive.erase(OWNER, view.tip, 2)
    cut_off = {**without_turn(state, again, view), "anchor": anchor}

    found = [doubtful(state, one, view) for one in (erased, again)]

    assert found == [(), ()]
    assert doubtful(cut_off, again, view) == ("Technical Anchors",)


def test_short_fields_of_a_turn_erased_before_may_tell(view: View) -> None:
    """Its messages do not say what it wrote into the anchor: fields that no turn has are named."""
    state = values(view.tip, anchor={"Technical Anchors": "port 8080", "Password": "mat"})
    view.archive.erase(OWNER, view.tip, 2)
    again = view.archive.erase(OWNER, view.tip, 2)

    named = doubtful(state, again, view)

    assert without_turn(state, again, view)["anchor"] == {"Password": "mat"}
    assert named == ("Password",)


def test_what_the_turn_wrote_is_not_in_doubt(view: View) -> None:
    """A turn of which nothing else can be looked for takes what it wrote out of the anchor."""
    wrote = frozenset({("Password", "mat")})
    erased = Erased(2, "no digest", (), wrote=wrote)
    state = values(view.tip, anchor={"Password": "mat"})

    assert without_turn(state, erased, view)["anchor"] == {}
    assert doubtful(state, erased, view) == ()


def test_anchor_of_an_event_loses_the_same_fields(view: View) -> None:
    """What is not committed yet loses of the anchor what the anchor itself loses."""
    erased = view.archive.erase(OWNER, view.tip, 2)
    anchor = {"Goal": "tidy up", "Ports": "port 8080", "summary": "and tell nobody."}
    event = {"type": "anchored", "anchor": anchor}

    state = without_turn(values(view.tip, anchor=anchor, events=[event]), erased, view)

    assert state["anchor"] == {"Goal": "tidy up"}
    assert state["events"] == [{"type": "anchored", "anchor": {"Goal": "tidy up"}}]


@pytest.mark.parametrize("again", [[], [69, 70], [*range(60, 68)]])
def test_messages_of_all_other_turns_stay(tmp_path: Path, again: list[int]) -> None:
    """However many turns the state holds, and however many were erased, it keeps the others."""
    turns = [turn(number, f"This is question {number}.") for number in range(1, 71)]
    tip = START
    with DiskArchive(tmp_path, durable=False) as archive:
        for number, messages in enumerate(turns, start=1):
            tip = archive.commit(OWNER, tip, Group(number, plain(messages), "")).tip
        state = {
            "messages": [message for messages in turns for message in messages],
            "turn_starts": [messages[0].id for messages in turns],
            "persisted": 70,
        }
        for number in (68, *again):
            erased = archive.erase(OWNER, tip, number)
            state = {**state, **without_turn(state, erased, past(archive, OWNER, tip))}

    left = [number for number in range(1, 71) if number not in (68, *again)]
    assert ids(state)[::2] == [f"h{number}" for number in left]


def test_state_without_messages_is_left_alone(view: View) -> None:
    """A state whose messages an application removed has none afterwards either."""
    state = without_turn({"turn": 3, "persisted": 3}, Erased(9, "no digest", ()), view)

    assert (state["messages"], state["archived"], state["turn"]) == ([], "", 3)
