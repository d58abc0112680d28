"""Owners: what is another's does not exist."""

import pytest

from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.errors import SessionNotFoundError
from ebbtide.memory.record import Owner
from tests.memory.turns import START, commit_all, opened, turn, visible

STRANGERS = [
    Owner("bob", "t1"),
    Owner("ann", "t2"),
    Owner("ann", "T1"),
    Owner("Ann", "t1"),
    Owner("ann", "t1", "child"),
    Owner("", "t1"),
    Owner("ann/t1", ""),
    Owner("../ann", "t1"),
]


@pytest.mark.parametrize("stranger", STRANGERS, ids=str)
def test_stranger_sees_nothing(archive: Archive, stranger: Owner) -> None:
    """Another owner reads nothing of a session, by no operation."""
    tip = commit_all(archive, [turn(1, efforts=["a"], events=[opened("a")]), turn(2)])

    assert archive.turns(stranger, tip, [1, 2]) == ()
    assert archive.ambient(stranger, tip, 9) == ()
    assert archive.ambient_count(stranger, tip) == 0
    assert archive.effort(stranger, tip, "a") is None
    assert archive.effort_turns(stranger, tip, "a") == ()
    assert archive.efforts(stranger, tip, 9).total == 0
    assert archive.newest(stranger) is None
    assert archive.tips(stranger) == ()


@pytest.mark.parametrize("stranger", STRANGERS, ids=str)
def test_verify_does_not_find_it_for_a_stranger(archive: Archive, stranger: Owner) -> None:
    """Verifying another owner's session says "not found", as for one that never was."""
    commit_all(archive, [turn(1)])

    with pytest.raises(SessionNotFoundError, match="not found"):
        archive.verify(stranger)


@pytest.mark.parametrize("stranger", STRANGERS, ids=str)
def test_sessions_share_nothing(archive: Archive, stranger: Owner) -> None:
    """Two owners write their own session each, from the first turn."""
    tip = commit_all(archive, [turn(1)])
    record = archive.commit(stranger, START, turn(1, "mine"))

    assert record.branch == "main"
    assert visible(archive, record.tip, stranger) == ["mine"]
    assert visible(archive, tip) == ["question 1"]


def test_sessions_of_a_user(archive: Archive) -> None:
    """A user's sessions are listed by name, and nobody else's."""
    owners = [Owner("ann", "t2"), Owner("ann", "T/1", "a|b"), Owner("ann", "t2", "n")]
    for owner in [*owners, Owner("bob", "t9")]:
        archive.commit(owner, START, turn(1))

    assert archive.sessions("ann") == (owners[1], owners[0], owners[2])
    assert archive.sessions("cid") == ()


@pytest.mark.parametrize(
    "thread", ["", ".", "..", "con", "a/b", "a\0b", "A", "🌊", "x" * 1000, "\ud800", "a@b", "%41"]
)
def test_any_thread_name_is_a_session(archive: Archive, thread: str) -> None:
    """Whatever a thread is called, its session is kept and listed under that name."""
    owner = Owner("ann", thread, thread)
    record = archive.commit(owner, START, turn(1))

    assert archive.turns(owner, record.tip, [1]) == (record,)
    assert archive.sessions("ann") == (owner,)
