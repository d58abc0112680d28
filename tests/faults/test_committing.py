"""A process that dies in the commit of a turn leaves it whole or not begun; done again it is once.

It dies at statements, in the soak at each, those that open the database and the COMMIT included,
and right after; on PostgreSQL before a statement is sent, and when it was sent and nobody heard
the answer.
"""

import os
import signal

import pytest

from ebbtide.memory.archive.branches import Branches
from ebbtide.memory.archive.search import find
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.turn import StoredTurn, Tip
from tests.faults.places import Countdown, Place
from tests.memory.turns import SESSION, commit_all, concluded, opened, turn, visible

EVENTS = (concluded("a", "The zebra is found.", keywords=["zebra"]), opened("b"))
SECOND = turn(2, "where is the zebra?", ("a", "b"), EVENTS)


def commit(place: Place, tip: Tip, countdown: Countdown) -> None:
    """Commit the second turn, counting each operation, and one right after it."""
    with place.archive(countdown) as archive:
        archive.commit(SESSION, tip, SECOND)
        countdown.counted()


def killed(place: Place, tip: Tip, number: int) -> None:
    """Commit it in a child that is killed at an operation."""
    child = os.fork()
    if child == 0:
        try:
            commit(place, tip, Countdown(number))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def kept(archive: SqlArchive, tip: Tip) -> tuple[object, ...]:
    """Return what the second turn leaves, in what is read, listed, searched and attended."""
    newest = archive.load(SESSION).tip or tip
    found = find(Branches(archive.load(SESSION, newest)), "zebra", 9)
    return (
        visible(archive, newest),
        archive.load(SESSION, newest).efforts(9),
        found,
        archive.attention()._stored(SESSION.user),
        [one for one in archive.verify(SESSION) if one.fatal],
    )


def numbers(total: int, step: int) -> list[int]:
    """Return at which operations it is killed: each so many, and all about the COMMIT."""
    every = [*range(1, total + 1)]
    return sorted({*every[::step], *every[-8:]})


@pytest.mark.thorough
@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.soak)])
def test_killed_in_the_commit_of_a_turn(place: Place, step: int) -> None:
    """All of the turn is there or nothing, and the same turn committed again stands once."""
    first: StoredTurn = turn(1, "hello", ["a"], [opened("a")])
    with place.archive() as archive:
        tip = commit_all(archive, [first])
        before = kept(archive, tip)
    whole = place.copy()
    counted = Countdown(1_000_000)
    commit(whole, tip, counted)
    with whole.archive() as archive:
        after = kept(archive, tip)

    states = []
    for number in numbers(1_000_000 - counted.left, step):
        one = place.copy()
        killed(one, tip, number)
        with one.archive() as archive:
            left = kept(archive, tip)
            states.append((left == before, left == after))
            archive.commit(SESSION, tip, SECOND)
            assert len(archive.tips(SESSION)) == 1
            assert kept(archive, tip) == after
        one.drop()

    assert {*states} == {(True, False), (False, True)}
    assert states == sorted(states, reverse=True)
    assert states[-1] == (False, True)
