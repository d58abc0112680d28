"""Reading turns: those asked for, those that are ambient."""

from collections.abc import Sequence

import pytest

from ebbtide.memory.archive.protocol import Archive
from tests.memory.turns import SESSION, START, commit_all, turn


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ([3, 1], [1, 3]),
        ([1, 1], [1]),
        ([-1, 0, 1, 4, 10**12], [1]),
        ([], []),
        (range(9), [1, 2, 3]),
    ],
)
def test_turns_with_these_numbers(archive: Archive, asked: Sequence[int], found: list[int]) -> None:
    """They come in the order of their numbers, each once; what no turn has is left out."""
    tip = commit_all(archive, [turn(1), turn(2), turn(3)])

    assert [one.number for one in archive.load(SESSION, tip).turns(asked)] == found


def test_start_sees_nothing(archive: Archive) -> None:
    """A state that has committed nothing sees no turn."""
    commit_all(archive, [turn(1)])

    assert archive.load(SESSION, START).turns([0, 1]) == ()
    assert archive.load(SESSION, START).ambient(5) == ()


def test_many_turns_at_once(archive: Archive) -> None:
    """A whole session is read in one go."""
    tip = commit_all(archive, [turn(number) for number in range(1, 101)])

    assert len([*archive.load(SESSION, tip).every_turn()]) == 100
    assert archive.load(SESSION, tip).turns_read.keys() <= {100}, "it would fill the memory"
    assert len(archive.load(SESSION, tip).turns(range(1, 101))) == 100


@pytest.mark.parametrize(("newest", "found"), [(2, (2, 4)), (0, ())])
def test_ambient_are_the_newest_without_effort(
    archive: Archive, newest: int, found: tuple[int, ...]
) -> None:
    """The newest ambient turns are listed, ascending, those of efforts left out."""
    turns = [turn(1), turn(2), turn(3, efforts=["a"]), turn(4), turn(5, efforts=["a"])]
    tip = commit_all(archive, turns)

    assert archive.load(SESSION, tip).ambient(newest) == found
