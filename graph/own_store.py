"""The store beside an archive on disk, for attention in a graph that runs with no other store."""

import os
import sqlite3
import weakref
from collections.abc import Iterable
from pathlib import Path
from threading import Lock

from filelock import FileLock
from langgraph.store.base import BaseStore, Op, Result
from langgraph.store.sqlite import SqliteStore

from ..memory.errors import AttentionError

FOLDER = ".ebbtide"
"""No folder of the archive: `safe_name` lets no name begin with a dot."""

_FILE = "attention.sqlite"
_WAIT_SECONDS = 10.0


class _Store(SqliteStore):
    """A store that leaves no transaction open that it could not commit, as LangGraph's does.

    It could never begin another one, and it would lock out all other processes.
    """

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do what is asked; if that fails, let go of the file."""
        try:
            return super().batch(ops)
        except BaseException:
            with self.lock:
                self.conn.rollback()
            raise


class OwnStore:
    """An embedded SQLite store that is opened when it is first asked for, once in each process."""

    def __init__(self, root: Path, *, wait: float = _WAIT_SECONDS) -> None:
        """Keep it below the root of an archive; `wait` for other processes so many seconds."""
        self.path = root / FOLDER / _FILE
        self._wait = wait
        self._lock = Lock()
        # By process: one that was forked off must not close the connection of its parent.
        self._opened: dict[int, BaseStore] = {}

    def __call__(self) -> BaseStore:
        """Return the store; raises `AttentionError` if it cannot be opened."""
        with self._lock:
            process = os.getpid()
            if process not in self._opened:
                try:
                    self._opened[process] = self._open()
                except Exception as error:  # not only sqlite3.Error if the file is damaged
                    raise AttentionError(f"{str(self.path)!r} cannot be opened: {error}") from error
            return self._opened[process]

    def _open(self) -> BaseStore:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            self.path, timeout=self._wait, isolation_level=None, check_same_thread=False
        )
        store = _Store(connection)
        weakref.finalize(store, connection.close)
        # What is erased must not stay in the free pages of the file.
        connection.execute("PRAGMA secure_delete=ON")
        # Two processes that made the tables of a new file at once would get in each other's way.
        with FileLock(f"{self.path}.lock", timeout=self._wait):
            store.setup()
        return store
