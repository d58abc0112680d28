"""The key of a session's fences."""

from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.record import Owner
from ebbtide.memory.view import fences_of


def test_every_session_has_a_key_of_its_own(archive: Archive) -> None:
    """Whoever knows that of one session knows none of another's; it is long enough."""
    owners = [Owner("ann", "t1"), Owner("ann", "t2"), Owner("bob", "t1"), Owner("ann", "t1", "sub")]

    keys = {fences_of(archive, owner, len).key for owner in owners}

    assert len(keys) == 4
    assert {len(key) for key in keys} == {9}


def test_the_key_is_always_the_same(archive: Archive) -> None:
    """So the same state gives the same bytes, in another process too."""
    owner = Owner("ann", "t1")

    assert fences_of(archive, owner, len) == fences_of(archive, Owner("ann", "t1"), len)
