"""Reading together: of one moment, and never what others have erased."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from ebbtide.memory.archive.protocol import EffortList
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.compressions import Compression
from ebbtide.memory.turn import Session, StoredTurn, Tip
from tests.memory.turns import SESSION, START, commit_all, concluded, opened, turn, visible

# An archive in memory has one connection, so that nobody writes while another thread reads.
pytestmark = pytest.mark.parametrize("archive", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def other(archive: SqlArchive) -> Iterator[SqlArchive]:
    """Yield the archive as another process has it."""
    with SqlArchive(archive.database.url.render_as_string(hide_password=False)) as kept:
        yield kept


def test_what_another_erased_is_not_read_again(archive: SqlArchive, other: SqlArchive) -> None:
    """A record that was read before is read as it is now, together or not."""
    tip = commit_all(archive, [turn(1), turn(2)])
    assert visible(archive, tip) == ["question 1", "question 2"]

    other.erase(SESSION, tip, 1)

    with archive.together():
        assert [one.status for one in archive.at(SESSION, tip).turns([1, 2])] == ["erased", "done"]
    assert archive.at(SESSION, tip).turns([1])[0].messages == ()


def test_session_that_was_just_read_need_not_be_read_again(
    archive: SqlArchive, other: SqlArchive
) -> None:
    """Who says so takes a session to be as it was a while ago, and nobody else does."""
    tip = commit_all(archive, [turn(1), turn(2)])
    with archive.together():
        archive.at(SESSION, tip).turns([1])
    other.erase(SESSION, tip, 1)

    with archive.together(60):
        assert [one.status for one in archive.at(SESSION, tip).turns([1])] == ["done"]

    with archive.together(0):
        assert [one.status for one in archive.at(SESSION, tip).turns([1])] == ["erased"]


@pytest.mark.parametrize("steady", [0.0, 60.0])
@pytest.mark.parametrize("known", [False, True])
def test_who_reads_the_moment_before_an_erasure_shows_it_to_nobody_else(
    archive: SqlArchive, steady: float, *, known: bool
) -> None:
    """A thread that began to read before may see the text; no other of the process does."""
    elsewhere, url = (
        Session("ann", "t2"),
        archive.database.url.render_as_string(hide_password=False),
    )
    began = archive.commit(elsewhere, START, turn(1)).tip
    tip = commit_all(archive, [turn(1), turn(2)])
    with (
        SqlArchive(url, lock_timeout=0.1) as here,
        ThreadPoolExecutor(1) as thread,
        ExitStack() as moment,
    ):
        thread.submit(moment.enter_context, here.together()).result()
        thread.submit(here.at(elsewhere, began).turns, [1]).result()
        here.erase(SESSION, tip, 1)

        with here.together(steady):
            if known:
                here.at(SESSION, tip).turns([2])
            thread.submit(here.at(SESSION, tip).turns, [1]).result()
            (stored,) = here.at(SESSION, tip).turns([1])

        thread.submit(moment.close).result()
    assert stored.status == "erased"


def test_own_compression_is_seen_beside_who_reads_the_moment_before(archive: SqlArchive) -> None:
    """What another thread reads of that moment hides it from nobody else."""
    elsewhere = Session("ann", "t2")
    began = archive.commit(elsewhere, START, turn(1)).tip
    tip = commit_all(archive, [turn(1, efforts=["a"], events=[opened("a")]), turn(2)])
    with archive.together():
        assert archive.at(SESSION, tip).compression("a") is None
    with ThreadPoolExecutor(1) as thread, ExitStack() as moment:
        thread.submit(moment.enter_context, archive.together()).result()
        thread.submit(archive.at(elsewhere, began).turns, [1]).result()
        made = archive.commit_compression(SESSION, tip, Compression("a", 2, 1))
        thread.submit(archive.at(SESSION, tip).turns, [1]).result()

        with archive.together(60):
            assert archive.at(SESSION, tip).compression("a") == made

        thread.submit(moment.close).result()


def test_summary_that_another_wrote_again_is_read(archive: SqlArchive, other: SqlArchive) -> None:
    """What is known of an effort is read as its summary is now."""
    events = [opened("a"), concluded("a", "First.")]
    tip = commit_all(archive, [turn(1, efforts=["a"], events=events), turn(2)])
    assert [one.stale for one in archive.at(SESSION, tip).efforts_named(["a"])] == [False]

    other.erase(SESSION, tip, 1)

    assert archive.at(SESSION, tip).efforts_named(["a"]) == other.at(SESSION, tip).efforts_named(
        ["a"]
    )


def test_what_is_read_together_is_of_one_moment(archive: SqlArchive, other: SqlArchive) -> None:
    """What another commits meanwhile is seen after it."""
    tip = commit_all(archive, [turn(1)])
    with archive.together(), archive.together():
        assert archive.newest(SESSION) == tip
        after = commit_all(other, [turn(2)], tip)
        assert archive.newest(SESSION) == tip

    assert archive.newest(SESSION) == after


def test_own_commit_is_seen_at_once(archive: SqlArchive) -> None:
    """Whoever writes ends the moment."""
    tip = commit_all(archive, [turn(1)])
    with archive.together():
        assert archive.newest(SESSION) == tip
        after = commit_all(archive, [turn(2)], tip)

        assert archive.newest(SESSION) == after
        assert visible(archive, after) == ["question 1", "question 2"]


@pytest.mark.parametrize("number", [1, 100])
def test_efforts_are_found_among_many_names(archive: SqlArchive, number: int) -> None:
    """However many names are asked for, and however many efforts there are."""
    events = [opened(f"effort-{one}") for one in range(number)]
    tip = commit_all(archive, [turn(1, events=events)])
    names = [f"effort-{one}" for one in range(90, -1, -1)]

    branch = archive.at(SESSION, tip)
    found = [one.id for one in branch.efforts_named(names)]

    assert found == names[-min(number, 91) :]
    assert branch.effort_names() == frozenset(f"effort-{one}" for one in range(number))


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
        archive.at(SESSION, tip).turns(range(1, 6)),
        archive.at(SESSION, tip).efforts_named([*"ebcda"]),
        archive.at(SESSION, tip).efforts_named(names),
        [archive.at(SESSION, tip).turns_of(name) for name in names[:5]],
        [archive.at(SESSION, tip).efforts(number) for number in (0, 2, 9)],
        [archive.at(SESSION, tip).turns_of(None, number) for number in (0, 1, 9)],
        [archive.at(SESSION, tip).compression(name) for name in names[:5]],
        archive.at(SESSION, tip).tip(),
    ]


def test_commit_while_another_thread_reads_its_tip(
    archive: SqlArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What that one finds out of the tip meanwhile is no error, and the turn is stored."""
    tip = commit_all(archive, [turn(1, efforts=["a"], events=[opened("a")])])
    archive.at(SESSION, tip).efforts(20)

    def interrupted(*fields: Any) -> Any:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(archive.at(SESSION, tip).turns_of, "a").result()
        return EffortList(*fields)

    monkeypatch.setattr("ebbtide.memory.archive.lineage.EffortList", interrupted)

    assert archive.commit(SESSION, tip, turn(2)).number == 2


def test_compression_of_another_is_seen(archive: SqlArchive, other: SqlArchive) -> None:
    """That nothing stood for older turns is not what is known of them afterwards."""
    tip = commit_all(archive, [turn(1, efforts=["a"], events=[opened("a")]), turn(2)])
    assert archive.at(SESSION, tip).compression("a") is None

    made = other.commit_compression(SESSION, tip, Compression("a", 2, 1))

    assert archive.at(SESSION, tip).compression("a") == made
    assert archive.at(SESSION, commit_all(archive, [turn(3)], tip)).compression("a") == made
