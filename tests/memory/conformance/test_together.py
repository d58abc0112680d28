"""Reading together: of one moment, and never what others have erased."""

from collections.abc import Iterator

import pytest

from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.record import Tip
from tests.memory.turns import OWNER, commit_all, concluded, opened, turn, visible


@pytest.fixture
def other(archive: SqlArchive) -> Iterator[SqlArchive]:
    """Yield the archive as another process has it."""
    with SqlArchive(archive.database.url.render_as_string(hide_password=False)) as kept:
        yield kept


def test_what_another_erased_is_not_read_again(archive: SqlArchive, other: SqlArchive) -> None:
    """A record that was read before is read as it is now, together or not."""
    tip = commit_all(archive, [turn(1), turn(2)])
    assert visible(archive, tip) == ["question 1", "question 2"]

    other.erase(OWNER, tip, 1)

    with archive.together():
        assert [one.status for one in archive.turns(OWNER, tip, [1, 2])] == ["erased", "done"]
    assert archive.turns(OWNER, tip, [1])[0].messages == ()


def test_summary_that_another_wrote_again_is_read(archive: SqlArchive, other: SqlArchive) -> None:
    """What is known of an effort is read as its summary is now."""
    events = [opened("a"), concluded("a", "First.")]
    tip = commit_all(archive, [turn(1, efforts=["a"], events=events), turn(2)])
    assert [one.stale for one in archive.efforts_named(OWNER, tip, ["a"])] == [False]

    other.erase(OWNER, tip, 1)

    assert archive.efforts_named(OWNER, tip, ["a"]) == other.efforts_named(OWNER, tip, ["a"])


def test_what_is_read_together_is_of_one_moment(archive: SqlArchive, other: SqlArchive) -> None:
    """What another commits meanwhile is seen after it."""
    tip = commit_all(archive, [turn(1)])
    with archive.together(), archive.together():
        assert archive.newest(OWNER) == tip
        after = commit_all(other, [turn(2)], tip)
        assert archive.newest(OWNER) == tip

    assert archive.newest(OWNER) == after


def test_own_commit_is_seen_at_once(archive: SqlArchive) -> None:
    """Whoever writes ends the moment."""
    tip = commit_all(archive, [turn(1)])
    with archive.together():
        assert archive.newest(OWNER) == tip
        after = commit_all(archive, [turn(2)], tip)

        assert archive.newest(OWNER) == after
        assert visible(archive, after) == ["question 1", "question 2"]


def test_tip_that_comes_to_be_is_seen(archive: SqlArchive) -> None:
    """Asking for turns that are not there yet does not hide them when they are."""
    later = commit_all(archive, [turn(1), turn(2)])
    ahead = Tip(later.branch, 3)
    assert (archive.ambient_count(OWNER, ahead), len(archive.turns(OWNER, ahead, [3]))) == (2, 0)

    commit_all(archive, [turn(3)], later)

    assert (archive.ambient_count(OWNER, ahead), len(archive.turns(OWNER, ahead, [3]))) == (3, 1)


@pytest.mark.parametrize("number", [1, 100])
def test_efforts_are_found_among_many_names(archive: SqlArchive, number: int) -> None:
    """However many names are asked for, and however many efforts there are."""
    events = [opened(f"effort-{one}") for one in range(number)]
    tip = commit_all(archive, [turn(1, events=events)])
    names = [f"effort-{one}" for one in range(90, -1, -1)]

    found = [one.id for one in archive.efforts_named(OWNER, tip, names)]

    assert found == names[-min(number, 91) :]
