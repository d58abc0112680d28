"""Sessions by the names that people see and type."""

from ..memory.archive.protocol import Archive
from ..memory.errors import ArchiveError
from ..memory.record import Owner
from .home import Home
from .printable import in_line


def shown(owner: Owner) -> str:
    """Return the name of a session: its thread, and its namespace if there is one.

    >>> shown(Owner("ann", "t1")), shown(Owner("ann", "t1", "agent"))
    ('t1', 't1 (agent)')
    """
    return f"{owner.thread} ({owner.namespace})" if owner.namespace else owner.thread


def none_of(home: Home) -> str:
    """Say that a user has no sessions."""
    return in_line(f"No sessions of {home.user} in {home.shown}")


def called(archive: Archive, user: str, name: str | None) -> list[Owner]:
    """Return the sessions of a user, all or those whose name or thread is `name`.

    If none of that name is listed it is taken for a thread: one that is unknown, or so damaged
    that its folder does not tell its name.
    """
    owners = [one for one in archive.sessions(user) if name in {None, one.thread, shown(one)}]
    return owners if owners or name is None else [Owner(user, name)]


def one_called(archive: Archive, user: str, name: str) -> Owner:
    """Return the only session of that name; raises `ArchiveError` if there are several."""
    owners = called(archive, user, name)
    exact = [owner for owner in owners if shown(owner) == name] or owners
    if len(exact) > 1:
        names = ", ".join(repr(shown(owner)) for owner in exact)
        raise ArchiveError(f"{name!r} is the thread of several sessions: name one of {names}")
    return exact[0]
