"""The earlier sessions of a user, by their names, each as its newest branch has it."""

import logging
from threading import Lock

from .archive.protocol import Archive
from .errors import ArchiveError
from .qualified import is_hashed, owner_called, session_name
from .record import Owner, Tip

_MOST = 10_000

_log = logging.getLogger("ebbtide.archive")
_hashed: dict[tuple[str, str], Owner] = {}
"""The sessions with hashed names that were looked for, by user and name; at most `_MOST`."""

_lock = Lock()


def other_session(archive: Archive, owner: Owner, name: str) -> tuple[Owner, Tip] | None:
    """Return another session of the owner's user with the tip of its newest branch, else None.

    The user is the owner's in any case, so that nobody's name leads to somebody else's session. Who
    is anonymous has no other sessions. One that cannot be read is as if it were not there, with a
    warning: a turn does not fail for it.
    """
    if owner.anonymous:
        return None
    try:
        found = owner_of_session(archive, owner.user, name)
        tip = None if found in (None, owner) else archive.newest(found)
    except (ArchiveError, OSError) as error:
        _log.warning("session %r of the user cannot be read and is left out: %s", name, error)
        return None
    return None if found is None or tip is None else (found, tip)


def owner_of_session(archive: Archive, user: str, name: str) -> Owner | None:
    """Return the user's session of this name, None if no session can have it.

    A name that is hashed does not tell, so that the user's sessions are looked through, once.
    """
    if not is_hashed(name):
        return owner_called(name, user)
    return _hashed.get((user, name)) or _looked_for(archive, user).get((user, name))


def _looked_for(archive: Archive, user: str) -> dict[tuple[str, str], Owner]:
    named = ((session_name(one), one) for one in archive.sessions(user))
    found = {(user, name): one for name, one in named if is_hashed(name)}
    with _lock:
        _hashed.update(found)
        for oldest in [*_hashed][:-_MOST]:
            del _hashed[oldest]
    return found
