"""One open session: its lock, and its index, opened when it is needed and again when it is gone."""

import errno
import itertools
import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import TypeVar

from ..record import Owner
from .damage import IndexDamagedError, noticed
from .erasures import finish
from .folder import Folder
from .index import Index
from .lock import SessionLock
from .migrations import migrate
from .recovery import behind, current, repaired
from .schema import delete

_log = logging.getLogger("ebbtide.archive")

T = TypeVar("T")

_generations = itertools.count()


@dataclass(frozen=True, slots=True)
class Opened:
    """An open index: its connection, the file it opened, and a number of its own.

    `anew`: it was built from the logs alone, so that what it lacks is not there.
    """

    connection: sqlite3.Connection
    file: tuple[int, int]
    generation: int
    anew: bool

    @property
    def index(self) -> Index:
        """The index to ask."""
        return Index(self.connection)


class Session:
    """A session of one owner; any thread may read and write it."""

    def __init__(self, folder: Folder, owner: Owner, lock_timeout: float) -> None:
        """Open nothing yet; `lock_timeout` is in seconds."""
        self.folder, self.owner = folder, owner
        self._lock = SessionLock(folder.lock, lock_timeout)
        # Taken after the lock, never before it.
        self._using = RLock()
        self._opened: Opened | None = None

    @property
    def exists(self) -> bool:
        """Whether there is such a session."""
        return self.folder.path.is_dir()

    def read(self, ask: Callable[[Opened], T], nothing: T) -> T:
        """Ask the index; `nothing` is the answer of a session that does not exist.

        A damaged index is built anew, once, and asked again. What else fails in SQLite is raised
        as `OSError`, here and when writing.
        """
        with self._as_os_error():
            try:
                with noticed():
                    return self._ask(ask, nothing)
            except IndexDamagedError as error:
                self._warn(error)
            with self.locked(), self._using:
                self._discard()
            with noticed():
                return self._ask(ask, nothing)

    def write(self, names: tuple[str, ...], do: Callable[[Opened], T]) -> T:
        """Extend these logs under the lock, with everything that went before in the index.

        If the index is damaged, it is built anew, and `do` called again: it must find in the new
        index what it has written already.
        """
        self.folder.make()
        with self._as_os_error(), self._lock.held(), self._using:
            try:
                with noticed():
                    return do(self._prepared(names))
            except IndexDamagedError as error:
                self._warn(error)
            self._discard()
            with noticed():
                return do(self._prepared(names))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock, with the files in the present format, but open and repair nothing."""
        with self._lock.held():
            migrate(self.folder, self.owner)
            yield

    def close(self) -> None:
        """Close the index; the next use opens it again."""
        with self._using:
            if self._opened is not None:
                self._opened.connection.close()
            self._opened = None

    @contextmanager
    def _as_os_error(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise OSError(errno.EIO, f"{self.folder.index}: {error}") from error

    def _prepared(self, names: tuple[str, ...]) -> Opened:
        opened = self._ready()
        if opened is None or behind(self.folder, opened.connection, names):
            return self._repaired()
        return opened

    def _ask(self, ask: Callable[[Opened], T], nothing: T) -> T:
        while True:
            with self._using:
                opened = self._ready()
                if opened is not None:
                    return ask(opened)
            if not self.exists:
                return nothing
            self._open()

    def _open(self) -> None:
        file = self._file()
        connection = current(self.folder)
        if connection is not None and file is not None:
            with self._using:
                self._install(connection, file, anew=False)
            return
        with self._lock.held(), self._using:
            self._repaired()

    def _repaired(self) -> Opened:
        self.close()
        migrate(self.folder, self.owner)
        finish(self.folder)
        anew = self._file() is None
        connection = repaired(self.folder)
        return self._install(connection, self._file() or (0, 0), anew=anew)

    def _install(
        self, connection: sqlite3.Connection, file: tuple[int, int], *, anew: bool
    ) -> Opened:
        self.close()
        self._opened = Opened(connection, file, next(_generations), anew)
        return self._opened

    def _ready(self) -> Opened | None:
        """Return the open index, if its file is still the one in the folder."""
        if self._opened is not None and self._opened.file != self._file():
            self.close()
        return self._opened

    def _file(self) -> tuple[int, int] | None:
        try:
            stat = self.folder.index.stat()
        except FileNotFoundError:
            return None
        return stat.st_dev, stat.st_ino

    def _warn(self, error: IndexDamagedError) -> None:
        _log.warning("%s is built anew: %s", self.folder.index, error)

    def _discard(self) -> None:
        self.close()
        delete(self.folder.index)
