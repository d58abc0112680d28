"""Holding: the state of a thread is kept as it is, until it is replaced or let go."""

import pytest

from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.errors import SessionNotFoundError
from ebbtide.memory.record import Owner
from tests.memory.turns import OWNER, commit_all, turn

STATE = {"turn": 3, "branch": "main", "window": None, "messages": [{"type": "human", "data": {}}]}
SAID = "The safe opens with seven left, nine right."


def test_nothing_is_held_at_first(archive: Archive) -> None:
    """A session has no held state, and one that does not exist neither."""
    commit_all(archive, [turn(1)])

    assert archive.held(OWNER) is None
    assert archive.held(Owner("nobody", "t1")) is None


def test_held_state_is_given_back(archive: Archive) -> None:
    """What is held comes back as it was, as often as it is asked for, to its owner alone."""
    commit_all(archive, [turn(1)])

    archive.hold(OWNER, STATE)

    assert archive.held(OWNER) == archive.held(OWNER) == STATE
    assert archive.held(Owner("nobody", OWNER.thread)) is None


def test_held_state_is_replaced_and_let_go(archive: Archive) -> None:
    """The last state is the one that is held; let go, twice if need be, there is none."""
    commit_all(archive, [turn(1)])
    archive.hold(OWNER, STATE)
    archive.hold(OWNER, {"turn": 4})

    assert archive.held(OWNER) == {"turn": 4}
    for _ in range(2):
        archive.hold(OWNER, None)
        assert archive.held(OWNER) is None


def test_unknown_session_holds_nothing(archive: Archive) -> None:
    """Without a session there is nothing that could have lost its state."""
    with pytest.raises(SessionNotFoundError):
        archive.hold(OWNER, STATE)


def test_erasing_leaves_what_is_held(archive: Archive) -> None:
    """The held state is its holder's to replace: erasing neither changes nor reports it."""
    tip = commit_all(archive, [turn(1), turn(2, SAID)])
    archive.hold(OWNER, {"said": SAID})

    erased = archive.erase(OWNER, tip, 2)

    assert erased.left == ()
    assert archive.held(OWNER) == {"said": SAID}


def test_held_state_is_told_by_verify(archive: Archive) -> None:
    """A thread that waits to go on from a held state is named, and is no damage."""
    commit_all(archive, [turn(1)])
    archive.hold(OWNER, STATE)

    found = archive.verify(OWNER)

    assert [(one.fatal, "without a state" in one.what) for one in found] == [(False, True)]
