"""The key of a session's fences."""

from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.turn import Session
from ebbtide.memory.view import fences_of


def test_every_session_has_a_key_of_its_own(archive: Archive) -> None:
    """Whoever knows that of one session knows none of another's; it is long enough."""
    sessions = [
        Session("ann", "t1"),
        Session("ann", "t2"),
        Session("bob", "t1"),
        Session("ann", "t1", "sub"),
    ]

    keys = {fences_of(archive, session, len).key for session in sessions}

    assert len(keys) == 4
    assert {len(key) for key in keys} == {9}


def test_the_key_is_always_the_same(archive: Archive) -> None:
    """So the same state gives the same bytes, in another process too."""
    session = Session("ann", "t1")

    assert fences_of(archive, session, len) == fences_of(archive, Session("ann", "t1"), len)
