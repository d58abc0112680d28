"""Forks: whoever goes back starts a branch, and sees its own past only."""

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace

import pytest

from ebbtide.memory.archive.deletions import delete_session
from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.errors import TipNotFoundError
from ebbtide.memory.turn import Session, Tip
from tests.memory.turns import SESSION, best_of_each, commit_all, elsewhere, opened, turn, visible


def test_equal_turns_are_told_apart_by_their_nonce(archive: Archive) -> None:
    """A question that is repeated after going back is a turn of its own, a retry is not."""
    before = commit_all(archive, [turn(1)])
    first = archive.commit(SESSION, before, replace(turn(2), nonce="aa"))

    again = archive.commit(SESSION, before, replace(turn(2), nonce="aa"))
    repeated = archive.commit(SESSION, before, replace(turn(2), nonce="bb"))

    assert again == first
    assert repeated.id != first.id
    assert archive.tips(SESSION) == (first.tip, repeated.tip)


def test_copied_thread_goes_on_from_the_original(archive: Archive) -> None:
    """A turn after one of another session of the user sees that one's past, and only that."""
    copy = Session(SESSION.user, "copy")
    before = commit_all(archive, [turn(1, efforts=["a"], events=[opened("a")])])
    commit_all(archive, [turn(2, "in the original")], before)

    tip = archive.commit(copy, before, turn(2, "in the copy")).tip

    assert visible(archive, tip, copy) == ["question 1", "in the copy"]
    assert [effort.id for effort in archive.load(copy, tip).efforts(9).efforts] == ["a"]
    assert [hit.turn for hit in best_of_each(archive.load(copy, tip), "copy", 9)] == [2]
    assert archive.verify(copy) == ()


def test_copied_thread_is_read_before_its_first_turn(archive: Archive) -> None:
    """A session that has no turn yet sees the turns of the tip that it was copied from."""
    tip = commit_all(archive, [turn(1), turn(2)])

    assert visible(archive, tip, Session(SESSION.user, "copy")) == ["question 1", "question 2"]


COPY = Session(SESSION.user, "copy")


def copied(archive: Archive) -> tuple[Tip, Tip]:
    """Return the tip of a session of three turns, and that of a copy that follows the second."""
    before = commit_all(archive, [turn(1, "first", ["a"], [opened("a")]), turn(2, "second")])
    own = commit_all(archive, [turn(3, "third", ["b"], [opened("b")])], before)
    return own, archive.commit(COPY, before, turn(3, "in the copy")).tip


def test_deleted_original_keeps_what_its_copy_sees(archive: Archive) -> None:
    """The copy goes on, and is named; nothing else is left, and the thread begins anew."""
    own, tip = copied(archive)

    deleted = archive.delete_session(SESSION)

    assert visible(archive, tip, COPY) == ["first", "second", "in the copy"]
    assert [found.turn for found in best_of_each(archive.load(COPY, tip), "second", 9)] == [2]
    assert (archive.load(SESSION, own).tip, archive.load(SESSION).tip) == (None, None)
    assert archive.sessions(SESSION.user) == (COPY,)
    assert "thread 'copy' was copied from it" in deleted.not_erased[0]
    assert [hit.turn for hit in elsewhere(archive, Session(SESSION.user, "x"), "second", 9)] == []
    anew = commit_all(archive, [turn(1, "anew")])
    assert (visible(archive, anew), archive.load(SESSION).tip) == (["anew"], anew)
    assert archive.verify(COPY) == archive.verify(SESSION) == ()


def test_last_copy_takes_the_rest_with_it(archive: Archive) -> None:
    """Copies of copies keep what they see, until the last of them is deleted."""
    own, tip = copied(archive)
    second = Session(SESSION.user, "second copy")
    last = archive.commit(second, tip, turn(4, "in the second copy")).tip
    for session in (SESSION, COPY):
        archive.delete_session(session)
    seen = visible(archive, last, second)

    deleted = archive.delete_session(second)

    assert seen == ["first", "second", "in the copy", "in the second copy"]
    assert [archive.load(SESSION, one).tip for one in (own, tip, last)] == [None] * 3
    assert (archive.sessions(SESSION.user), deleted.sessions) == ((), (second,))


def test_deleted_user_leaves_no_turn_of_a_copy(archive: Archive) -> None:
    """All sessions go, those too that copies kept; the report has those that people know."""
    _, tip = copied(archive)
    archive.delete_session(SESSION)

    deleted = archive.delete_user(SESSION.user)

    assert (deleted.sessions, archive.load(COPY, tip).tip) == ((COPY,), None)
    assert archive.sessions(SESSION.user) == ()


def test_original_that_is_deleted_before_its_copy_goes_on(archive: SqlArchive) -> None:
    """A thread that was copied into one that exists waits for who deletes, and follows no turn."""
    before = commit_all(archive, [turn(1)])
    archive.commit(COPY, Tip(), turn(1, "in the copy"))
    assert visible(archive, before, COPY) == ["question 1"]
    with ThreadPoolExecutor(1) as pool:
        with archive._writing(SESSION) as scope:
            following = pool.submit(archive.commit, COPY, before, turn(2))
            assert wait([following], 0.3).done == set()
            delete_session(scope)

        with pytest.raises(TipNotFoundError):
            following.result()
    assert archive.verify(COPY) == ()


def test_turn_erased_in_a_copy_is_erased_in_the_original(archive: Archive) -> None:
    """It is one turn, whoever erases it; so for a copy of an original that was deleted."""
    own, tip = copied(archive)

    archive.erase(COPY, tip, 2)
    archive.delete_session(SESSION)
    archive.erase(COPY, tip, 1)

    assert [r.status for r in archive.load(COPY, tip).turns([1, 2, 3])] == [
        "erased",
        "erased",
        "done",
    ]
    assert archive.load(SESSION, own).turns([2]) == ()


def test_number_of_a_turn_follows_its_parents(archive: Archive) -> None:
    """Whatever a state says, turns are numbered without gaps."""
    before = commit_all(archive, [turn(1)])

    stored = archive.commit(SESSION, Tip(8, before.id), turn(9))

    assert (stored.number, visible(archive, stored.tip)) == (2, ["question 1", "question 9"])


def test_turn_of_another_user_is_no_parent(archive: Archive) -> None:
    """Who names another user's turn sees nothing of it and commits nothing after it."""
    eve = Session("eve", SESSION.thread)
    tip = commit_all(archive, [turn(1)])

    with pytest.raises(TipNotFoundError):
        archive.commit(eve, tip, turn(2))

    assert archive.load(eve, tip).turns([1]) == ()
    assert archive.load(eve, tip).tip is None
