"""The sessions of an archive: which there are, and those that are open."""

import logging
import os
from collections import OrderedDict
from pathlib import Path
from threading import Lock

from ..errors import ArchiveFormatError
from ..record import Owner
from .folder import Folder, owner_in, owner_named, session_folder, user_folder
from .session import Session

_log = logging.getLogger("ebbtide.archive")


class Sessions:
    """The sessions used last, each with at most one open index."""

    def __init__(self, root: Path, limit: int, *, durable: bool, lock_timeout: float) -> None:
        """Keep up to `limit` sessions open."""
        self.root, self._limit = root, limit
        self.durable, self._lock_timeout = durable, lock_timeout
        self._lock = Lock()
        self._open: OrderedDict[Owner, Session] = OrderedDict()
        self._process = os.getpid()
        self._inherited: list[OrderedDict[Owner, Session]] = []

    def get(self, owner: Owner) -> Session:
        """Return the session of an owner, which need not exist."""
        with self._lock:
            self._leave_to_parent()
            if owner not in self._open:
                folder = Folder(session_folder(self.root, owner), self.durable)
                self._open[owner] = Session(folder, owner, self._lock_timeout)
            self._open.move_to_end(owner)
            surplus = self._open.popitem(last=False)[1] if len(self._open) > self._limit else None
            session = self._open[owner]
        if surplus is not None:
            surplus.close()
        return session

    def listed(self, user: str) -> tuple[Owner, ...]:
        """Return the sessions of a user that exist, by name."""
        folder = user_folder(self.root, user)
        paths = folder.iterdir() if folder.is_dir() else ()
        found = [owner for path in paths if (owner := self.owner_of(path, user))]
        return tuple(sorted(found, key=lambda owner: (owner.thread, owner.namespace)))

    def owner_of(self, path: Path, user: str) -> Owner | None:
        """Return whose session a folder of a user holds, None if it is no session's."""
        owner = _owner(path, user)
        return owner if owner and session_folder(self.root, owner) == path else None

    def close(self) -> None:
        """Close what is open; a later use opens it again."""
        with self._lock:
            sessions = tuple(self._open.values())
            self._open.clear()
        for session in sessions:
            session.close()

    def _leave_to_parent(self) -> None:
        # SQLite's connections must not be used, nor closed, in a process that was forked off.
        if self._process != os.getpid():
            self._process = os.getpid()
            self._inherited.append(self._open)
            self._open = OrderedDict()


def _owner(path: Path, user: str) -> Owner | None:
    """Return whose session a folder holds, by its name if the folder itself cannot say."""
    if not path.is_dir():
        return None
    folder = Folder(path)
    try:
        owner = owner_in(folder)
    except ArchiveFormatError as error:
        _log.warning("%s", error)
        return owner_named(path.name, user)
    if owner is None:
        return owner_named(path.name, user) if any(folder.sizes().values()) else None
    return owner if owner.user == user else None
