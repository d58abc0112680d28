"""What is kept of what was read: as it is stored, and never what others have erased."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from ebbtide.memory.archive.load import EffortList
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.compressions import Compression
from ebbtide.memory.turn import Session, StoredTurn, Tip
from tests.memory.turns import (
    SESSION,
    commit_all,
    concluded,
    opened,
    put_compression,
    turn,
    visible,
)

# An archive in memory has one connection, and no other process has it.
pytestmark = pytest.mark.parametrize("archive", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def other(archive: SqlArchive) -> Iterator[SqlArchive]:
    """Yield the archive as another process has it."""
    with SqlArchive(archive.database.url.render_as_string(hide_password=False)) as kept:
        yield kept


def test_what_another_erased_is_not_read_again(archive: SqlArchive, other: SqlArchive) -> None:
    """A turn that was read before is read as it is now."""
    tip = commit_all(archive, [turn(1), turn(2)])
    assert visible(archive, tip) == ["question 1", "question 2"]

    other.erase(SESSION, tip, 1)

    assert [one.status for one in archive.load(SESSION, tip).turns([1, 2])] == ["erased", "done"]
    assert archive.load(SESSION, tip).turns([1])[0].messages == ()


def test_turns_of_another_thread_are_gone_once_another_erased_them(
    archive: SqlArchive, other: SqlArchive
) -> None:
    """Also for a thread with turns of its own that has a state of that one."""
    tip, copy = commit_all(archive, [turn(1), turn(2)]), Session(SESSION.user, "copy")
    archive.commit(copy, Tip(), turn(1, "of the copy"))
    assert len(archive.load(copy, tip).turns([1, 2])) == 2

    other.erase(SESSION, tip, 1)

    assert archive.load(copy, tip).turns([1])[0].messages == ()
    other.delete_session(SESSION)
    assert archive.load(copy, tip).tip is None


def test_thread_that_another_deleted_is_nobodys(archive: SqlArchive, other: SqlArchive) -> None:
    """Whoever claims it then owns it, also for a process in which it was somebody else's."""
    bob = Session("bob", SESSION.thread)
    archive.claim(SESSION)
    commit_all(archive, [turn(1)])
    assert [archive.load(one).owner for one in (SESSION, bob)] == ["own", "other"]

    other.delete_session(SESSION)
    other.claim(bob)

    assert [archive.load(one).owner for one in (SESSION, bob)] == ["other", "own"]


def test_who_read_before_an_erasure_shows_it_to_nobody_else(archive: SqlArchive) -> None:
    """Whoever holds what was read may read on; nobody else sees what that finds."""
    tip = commit_all(archive, [turn(1), turn(2)])
    with SqlArchive(archive.database.url.render_as_string(hide_password=False)) as here:
        before = here.load(SESSION, tip)
        archive.erase(SESSION, tip, 1)
        before.turns([1, 2])

        assert [one.status for one in here.load(SESSION, tip).turns([1])] == ["erased"]


def test_summary_that_another_wrote_again_is_read(archive: SqlArchive, other: SqlArchive) -> None:
    """What is known of an effort is read as its summary is now."""
    events = [opened("a"), concluded("a", "First.")]
    tip = commit_all(archive, [turn(1, efforts=["a"], events=events), turn(2)])
    assert [one.stale for one in archive.load(SESSION, tip).efforts_named(["a"])] == [False]

    other.erase(SESSION, tip, 1)

    assert archive.load(SESSION, tip).efforts_named(["a"]) == other.load(
        SESSION, tip
    ).efforts_named(["a"])


def test_summary_that_another_wrote_again_is_read_in_a_copy(
    archive: SqlArchive, other: SqlArchive
) -> None:
    """A thread that was copied has the effort from the same turn."""
    events = [opened("a"), concluded("a", "First.")]
    tip = commit_all(archive, [turn(1, efforts=["a"]), turn(2, efforts=["a"], events=events)])
    copy = Session(SESSION.user, "copy")
    end = archive.commit(copy, tip, turn(3)).tip
    other.erase(SESSION, tip, 1)
    (emptied,) = archive.load(copy, end).efforts_named(["a"])

    other.resummarised(SESSION, tip, replace(emptied, summary="Again."))

    assert [one.summary for one in archive.load(copy, end).efforts_named(["a"])] == ["Again."]


@pytest.mark.parametrize("number", [1, 100])
def test_efforts_are_found_among_many_names(archive: SqlArchive, number: int) -> None:
    """However many names are asked for, and however many efforts there are."""
    events = [opened(f"effort-{one}") for one in range(number)]
    tip = commit_all(archive, [turn(1, events=events)])
    names = [f"effort-{one}" for one in range(90, -1, -1)]

    branch = archive.load(SESSION, tip)
    found = [one.id for one in branch.efforts_named(names)]

    assert found == names[-min(number, 91) :]
    assert branch.effort_names() == frozenset(f"effort-{one}" for one in range(number))


@pytest.mark.thorough
def test_what_is_known_after_a_commit_is_what_is_stored(
    archive: SqlArchive, other: SqlArchive
) -> None:
    """Whoever committed the turns answers as one who reads them, on each branch."""
    turns = [
        turn(1),
        turn(2, efforts=["a"], events=[opened("a"), opened("b")]),
        turn(3, efforts=["b", "a"], events=[concluded("a", "Done."), opened("c")]),
        turn(4, efforts=["b"], events=[opened("a"), concluded("b", "All."), opened("d")]),
        turn(5),
    ]
    fork = [turn(4, "other", ["c"], [concluded("c", "No."), opened("e")]), turn(5, "more", ["c"])]

    trunk = [
        (tip, asked(archive, tip), asked(other, tip)) for tip in growing(archive, Tip(), turns)
    ]
    third, newest = trunk[2][0], trunk[-1][0]
    branch = [
        (asked(archive, tip, newest), asked(other, tip, newest))
        for tip in growing(archive, third, fork)
    ]

    assert [written for _, written, _ in trunk] == [stored for _, _, stored in trunk]
    assert [written for written, _ in branch] == [stored for _, stored in branch]


def growing(archive: SqlArchive, tip: Tip, turns: list[StoredTurn]) -> Iterator[Tip]:
    """Commit one turn after the other, and yield the tip of each before the next."""
    for new in turns:
        tip = archive.commit(SESSION, tip, new).tip
        yield tip


def asked(archive: SqlArchive, *tips: Tip) -> list[object]:
    """Return what an archive answers of some tips, one after the other."""
    return [answer for tip in tips for answer in answers(archive, tip)]


def answers(archive: SqlArchive, tip: Tip) -> list[object]:
    """Return what an archive answers of a tip."""
    names = [*"abcde", *map(str, range(100))]
    return [
        archive.load(SESSION, tip).turns(range(1, 6)),
        archive.load(SESSION, tip).efforts_named([*"ebcda"]),
        archive.load(SESSION, tip).efforts_named(names),
        [archive.load(SESSION, tip).turns_of(name) for name in names[:5]],
        [archive.load(SESSION, tip).efforts(number) for number in (0, 2, 9)],
        [archive.load(SESSION, tip).ambient(number) for number in (0, 1, 9)],
        [archive.load(SESSION, tip).compression(name) for name in names[:5]],
        archive.load(SESSION, tip).tip,
    ]


def test_commit_while_another_thread_reads_its_tip(
    archive: SqlArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What that one finds out of the tip meanwhile is no error, and the turn is stored."""
    tip = commit_all(archive, [turn(1, efforts=["a"], events=[opened("a")])])
    archive.load(SESSION, tip).efforts(20)

    def interrupted(*fields: Any) -> Any:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(archive.load(SESSION, tip).turns_of, "a").result()
        return EffortList(*fields)

    monkeypatch.setattr("ebbtide.memory.archive.load.EffortList", interrupted)

    assert archive.commit(SESSION, tip, turn(2)).number == 2


def test_compression_of_another_is_seen(archive: SqlArchive, other: SqlArchive) -> None:
    """That nothing stood for older turns is not what is known of them afterwards."""
    tip = commit_all(archive, [turn(1, efforts=["a"], events=[opened("a")]), turn(2)])
    assert archive.load(SESSION, tip).compression("a") is None

    made = put_compression(other, tip, Compression("a", 2, 1))

    assert archive.load(SESSION, tip).compression("a") == made
    assert archive.load(SESSION, commit_all(archive, [turn(3)], tip)).compression("a") == made
