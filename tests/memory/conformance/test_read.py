"""Reading turns: those asked for, those that are ambient."""

from ebbtide.memory.archive.protocol import Archive
from tests.memory.turns import SESSION, START, commit_all, texts, turn


def test_turns_come_ascending(archive: Archive) -> None:
    """Turns come in the order of their numbers, whatever the order asked for."""
    tip = commit_all(archive, [turn(1), turn(2), turn(3)])

    assert texts(archive.load(SESSION, tip).turns([3, 1])) == ["question 1", "question 3"]


def test_turn_asked_twice_comes_once(archive: Archive) -> None:
    """A number given twice gives one record."""
    tip = commit_all(archive, [turn(1)])

    assert texts(archive.load(SESSION, tip).turns([1, 1])) == ["question 1"]


def test_missing_turns_are_left_out(archive: Archive) -> None:
    """Numbers that no visible turn has are left out."""
    tip = commit_all(archive, [turn(1)])

    assert texts(archive.load(SESSION, tip).turns([-1, 0, 1, 2, 10**12])) == ["question 1"]


def test_no_numbers_no_turns(archive: Archive) -> None:
    """Asking for nothing gives nothing."""
    tip = commit_all(archive, [turn(1)])

    assert archive.load(SESSION, tip).turns([]) == ()


def test_start_sees_nothing(archive: Archive) -> None:
    """A state that has committed nothing sees no turn."""
    commit_all(archive, [turn(1)])

    assert archive.load(SESSION, START).turns([0, 1]) == ()
    assert archive.load(SESSION, START).ambient(5) == ()


def test_many_turns_at_once(archive: Archive) -> None:
    """A whole session is read in one go."""
    tip = commit_all(archive, [turn(number) for number in range(1, 101)])

    assert len(archive.load(SESSION, tip).turns(range(1, 101))) == 100


def test_ambient_are_the_newest_without_effort(archive: Archive) -> None:
    """The newest ambient turns are listed, ascending, those of efforts left out."""
    turns = [turn(1), turn(2), turn(3, efforts=["a"]), turn(4), turn(5, efforts=["a"])]
    tip = commit_all(archive, turns)

    assert archive.load(SESSION, tip).ambient(2) == (2, 4)


def test_ambient_of_none(archive: Archive) -> None:
    """Asking for the last zero ambient turns gives none."""
    tip = commit_all(archive, [turn(1)])

    assert archive.load(SESSION, tip).ambient(0) == ()
