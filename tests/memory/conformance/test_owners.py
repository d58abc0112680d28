"""Owners: what is another's does not exist."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime

import pytest
from sqlalchemy import select, update

from ebbtide.memory.archive.commit import session_row
from ebbtide.memory.archive.memories import lock
from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.archive.schema import memories, users
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.attention.law import Memory
from ebbtide.memory.errors import SessionNotFoundError, UserDeletedError
from ebbtide.memory.turn import Session
from ebbtide.memory.view import fences_of
from tests.memory.turns import SESSION, START, commit_all, effort_in, opened, turn, visible

STRANGERS = [
    Session("bob", "t1"),
    Session("ann", "t2"),
    Session("ann", "T1"),
    Session("Ann", "t1"),
    Session("ann", "t1", "child"),
    Session("", "t1"),
    Session("ann/t1", ""),
    Session("../ann", "t1"),
]


@pytest.mark.parametrize("stranger", [one for one in STRANGERS if one.user != "ann"], ids=str)
def test_stranger_sees_nothing(archive: Archive, stranger: Session) -> None:
    """Another user reads nothing of a session, by no operation."""
    tip = commit_all(archive, [turn(1, efforts=["a"], events=[opened("a")]), turn(2)])

    past = archive.load(stranger, tip)
    assert (past.turns([1, 2]), past.ambient(9), past.turns_of("a")) == ((), (), ())
    assert (effort_in(archive, stranger, tip, "a"), past.efforts(9).total) == (None, 0)
    assert (archive.load(stranger).tip, archive.tips(stranger)) == (None, ())


@pytest.mark.parametrize("stranger", STRANGERS, ids=str)
def test_sessions_share_nothing(archive: Archive, stranger: Session) -> None:
    """Another's session is not found, and two owners write their own each, from the first turn."""
    tip = commit_all(archive, [turn(1)])
    with pytest.raises(SessionNotFoundError, match="not found"):
        archive.verify(stranger)

    stored = archive.commit(stranger, START, turn(1, "mine"))

    assert visible(archive, stored.tip, stranger) == ["mine"]
    assert visible(archive, tip) == ["question 1"]


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("deleting", ["session", "user"])
def test_a_thread_has_one_user(archive: Archive, deleting: str, *, committed: bool) -> None:
    """Whoever claims it first; it is free again when the user's sessions in it are deleted."""
    bob, inner = Session("bob", SESSION.thread), Session(SESSION.user, SESSION.thread, "inner")
    assert [archive.load(one).owner for one in (SESSION, bob)] == ["nobody"] * 2

    claimed = [archive.claim(one) for one in (SESSION, bob, inner, SESSION)]
    if committed:
        commit_all(archive, [turn(1)])
    read = [archive.load(one).owner for one in (bob, SESSION, inner, Session("bob", "t2"))]

    assert (claimed, read) == ([True, False, True, True], ["other", "own", "own", "nobody"])
    archive.commit(inner, START, turn(1))
    if deleting == "session":
        archive.delete_session(SESSION)
        assert archive.load(bob).owner == "other"
        archive.delete_session(inner)
    else:
        archive.delete_user(SESSION.user)
    assert archive.claim(bob)
    assert not archive.claim(SESSION)


def test_each_text_has_a_digest_of_its_own(archive: Archive) -> None:
    """It is the same each time, and no other text's."""
    digest = archive.keyed_digest("ann")

    assert (len(digest), archive.keyed_digest("ann")) == (32, digest)
    assert archive.keyed_digest("bob") != digest


def test_sessions_of_a_user(archive: Archive) -> None:
    """A user's sessions are listed by name, and nobody else's."""
    sessions = [Session("ann", "t2"), Session("ann", "T/1", "a|b"), Session("ann", "t2", "n")]
    for session in [*sessions, Session("bob", "t9")]:
        archive.commit(session, START, turn(1))

    assert archive.sessions("ann") == (sessions[1], sessions[0], sessions[2])
    assert archive.sessions("cid") == ()


@pytest.mark.parametrize(
    "thread", ["", ".", "..", "con", "a/b", "A", "🌊", "x" * 1000, "\ud800", "a@b", "%41"]
)
def test_any_thread_name_is_a_session(archive: Archive, thread: str) -> None:
    """Whatever a thread is called, its session is kept and listed under that name."""
    session = Session("ann", thread, thread)
    stored = archive.commit(session, START, turn(1))

    assert archive.load(session, stored.tip).turns([1]) == (stored,)
    assert archive.sessions("ann") == (session,)


def test_a_user_is_deleted_session_by_session(archive: Archive) -> None:
    """Copies first; what raises leaves the rest, and no session begins until all is deleted."""
    sessions = [Session("ann", "t1"), Session("ann", "copy"), Session("bob", "t1")]
    told, elses = (archive.commit(session, START, turn(1)).tip for session in sessions[::2])
    copied = archive.commit(sessions[1], told, turn(2)).tip

    def fails(gone: Sequence[Session]) -> None:
        if [*gone] == sessions[:1]:
            raise KeyError

    with pytest.raises(KeyError):
        archive.delete_user("ann", fails)
    left = archive.sessions("ann"), visible(archive, told), visible(archive, copied, sessions[1])
    new = Session("ann", "new")
    for begin in (lambda: archive.claim(new), lambda: archive.commit(new, START, turn(1))):
        with pytest.raises(UserDeletedError, match="'ann' is being deleted"):
            begin()
    went_on = archive.commit(sessions[0], told, turn(2)).number
    deleted = archive.delete_user("ann")

    assert left == (tuple(sessions[:1]), ["question 1"], [])
    assert (went_on, deleted.sessions) == (2, tuple(sessions[:1]))
    assert visible(archive, elses, sessions[2]) == ["question 1"]
    assert archive.delete_user("ann").sessions == ()
    assert archive.claim(new)
    assert archive.commit(new, START, turn(1)).number == 1


@pytest.mark.parametrize("archive", ["sqlite", "postgresql"], indirect=True)
def test_a_session_begun_anew_is_locked(archive: SqlArchive) -> None:
    """Who knew a deleted session writes to the new one of its name, and others wait."""
    tip = commit_all(archive, [turn(1)])
    with SqlArchive(archive.database.url.render_as_string(hide_password=False)) as other:
        other.delete_session(SESSION)
        commit_all(other, [turn(1)])
        with ThreadPoolExecutor(1) as pool:
            with archive._writing(SESSION):
                waiting = pool.submit(other.commit, SESSION, tip, turn(2))
                assert wait([waiting], 0.3).done == set()

            assert waiting.result().number == 2


def test_erasing_waits_for_who_writes_to_a_copy(archive: SqlArchive) -> None:
    """It has no lock then that the other still needs, so that neither waits for ever."""
    tip, copy = commit_all(archive, [turn(1)]), Session(SESSION.user, "copy")
    archive.commit(copy, tip, turn(2))
    with ThreadPoolExecutor(1) as pool:
        with archive.database.writing() as connection:
            session = session_row(connection, copy)
            erasing = pool.submit(archive.erase, SESSION, tip, 1)
            assert wait([erasing], 0.3).done == set()
            lock(connection, session.user)

        assert erasing.result().id == tip.id


def test_a_user_is_deleted_after_who_writes_to_its_attention(archive: SqlArchive) -> None:
    """Both lock the user before its memories, so that neither waits for the other for ever."""
    memory = Memory("t1/a", 60, datetime(2026, 3, 1, tzinfo=UTC), ())
    archive.attention().add("ann", memory, now=memory.created)
    with ThreadPoolExecutor(1) as pool:
        with archive.database.writing() as connection:
            connection.execute(select(users).with_for_update())
            deleting = pool.submit(archive.delete_user, "ann")
            assert wait([deleting], 0.3).done == set()
            connection.execute(update(memories).values(accesses=1))

        assert deleting.result().sessions == ()
    assert archive.attention()._stored("ann") == ()


def test_every_session_has_a_key_of_its_own(archive: Archive) -> None:
    """Whoever knows that of one session knows none of another's; it stays, and is long enough."""
    sessions = [
        Session("ann", "t1"),
        Session("ann", "t2"),
        Session("bob", "t1"),
        Session("ann", "t1", "sub"),
    ]

    keys = [fences_of(archive, session, len).key for session in sessions]

    assert len({*keys}) == 4
    assert {len(key) for key in keys} == {9}
    assert [fences_of(archive, session, len).key for session in sessions] == keys
