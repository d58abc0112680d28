"""Where the archived, the unfinished and the new part of the messages begin."""

import pytest
from langchain_core.messages import BaseMessage

from ebbtide.nodes.turn.arrivals import Boundaries, boundaries
from ebbtide.nodes.turn.state import TurnState

KINDS = {"h": "human", "a": "ai", "t": "tool", "s": "system"}


def messages(written: str) -> list[BaseMessage]:
    """Return the messages of ids such as `h1 a2`, whose first letter says of what kind they are."""
    return [BaseMessage("", type=KINDS[name[0]], id=name) for name in written.split()]


FRESH = TurnState()


@pytest.mark.parametrize(
    ("written", "new"),
    [
        ("h1", 0),
        ("h1 h2", 0),
        ("h1 a1 h2", 2),
        ("s1 h1 a1 h2 h3", 3),
        ("h1 a1 t1 a2 h2", 4),
        ("s1 h1", 0),
        ("h1 a1 s1 h2", 2),
        ("h1 a1", 0),
        ("h1 a1 h2 s1", 2),
        ("a1", 0),
        ("s1", 0),
        ("", 0),
    ],
)
def test_the_first_turn_is_the_last_question(written: str, new: int) -> None:
    """Of a history, the last run of user messages and what surrounds it is new."""
    parts = boundaries(messages(written), FRESH)

    assert parts == Boundaries(unfinished=new, new=new)


SETTLED = TurnState(archived="a2", asked={"h1": 1, "h2": 2}, turn=2, persisted=2)


@pytest.mark.parametrize(
    ("written", "new"),
    [
        ("h1 a1 h2 a2 h3", 4),
        ("h1 a1 h2 a2 h3 h4", 4),
        ("h1 a1 h2 a2 s3 h3", 4),
        ("h1 a1 h2 a2 a3 h3", 4),
        ("h2 a2 h3", 2),
        ("a2 h3", 1),
        ("h1 a1 h2 a2", 4),
    ],
)
def test_after_a_settled_turn_all_that_follows_is_new(written: str, new: int) -> None:
    """The new turn begins after the last archived message, whatever comes first in it."""
    parts = boundaries(messages(written), SETTLED)

    assert parts == Boundaries(unfinished=new, new=new)


@pytest.mark.parametrize(
    ("written", "new"), [("h3", 0), ("h7 a7 h3", 2), ("h1 a1 h3", 2), ("h7 a7 h3 h4", 2)]
)
def test_a_history_of_others_is_told_by_its_last_question(written: str, new: int) -> None:
    """If the last archived message is not there, the turn begins at the last user messages."""
    parts = boundaries(messages(written), SETTLED)

    assert parts == Boundaries(unfinished=new, new=new)


def test_an_answer_that_was_taken_away_leaves_its_turn() -> None:
    """If only the question of the last turn is there, that is the turn and the rest is new."""
    parts = boundaries(messages("h1 a1 h2 h3"), SETTLED)

    assert parts == Boundaries(unfinished=3, new=3)


BROKEN = TurnState(archived="a1", asked={"h1": 1, "h2": 2}, turn=2, persisted=1)


@pytest.mark.parametrize(
    ("written", "left", "new"),
    [
        ("h1 a1 h2 h3", 2, 3),
        ("h1 a1 h2 a2 h3", 2, 4),
        ("h1 a1 h2 a2 t2 t3 h3", 2, 6),
        ("h1 a1 h2 a2 t2 a3 h3 h4", 2, 6),
        ("h1 a1 h2 a2 s3 h3", 2, 4),
        ("h1 a1 h2 a2", 2, 4),
        ("h1 a1 h2", 2, 3),
        ("h1 a1 h0 h2 a2 h3", 2, 5),
        ("a1 h2 a2 h3", 1, 3),
        ("h2 a2 h3", 0, 2),
        ("h9 a9 h2 a2 h3", 2, 4),
    ],
)
def test_an_unfinished_turn_is_left_before_the_new_one(written: str, left: int, new: int) -> None:
    """What the broken turn accepted and made is left; new is what the graph cannot have made."""
    parts = boundaries(messages(written), BROKEN)

    assert parts == Boundaries(unfinished=left, new=new)


@pytest.mark.parametrize(
    ("written", "left", "new"), [("h1 h2", 0, 1), ("h1 a1 t1 h2", 0, 3), ("h7 a7 h1 a1 h2", 2, 4)]
)
def test_the_first_turn_may_break_too(written: str, left: int, new: int) -> None:
    """Without an archived message, the broken turn begins at its own first message."""
    state = TurnState(asked={"h1": 1}, turn=1, persisted=0)

    parts = boundaries(messages(written), state)

    assert parts == Boundaries(unfinished=left, new=new)


def test_a_turn_may_accept_several_messages() -> None:
    """What a broken turn had accepted is not new, although the graph has not made it."""
    state = TurnState(
        archived="a1", asked={"h1": 1, "h2": 2, "h3": 2, "h4": 2}, turn=2, persisted=1
    )

    parts = boundaries(messages("h1 a1 h2 h3 h4 a2 h5"), state)

    assert parts == Boundaries(unfinished=2, new=6)


def test_an_accepted_message_that_was_removed_ends_the_broken_turn() -> None:
    """If a client took the question away, all after the archived turn is new."""
    parts = boundaries(messages("h1 a1 h3"), BROKEN)

    assert parts == Boundaries(unfinished=2, new=2)
