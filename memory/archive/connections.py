"""The connections to a database: opened, prepared, and closed, also when the process forks."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, local
from typing import Any
from urllib.parse import quote
from weakref import WeakSet

import sqlalchemy as sa
from sqlalchemy.engine import URL
from sqlalchemy.pool import Pool

LOCK_TIMEOUT = 10.0
"""Seconds to wait for other writers; 95 % of commits take under 3 ms at 100,000 turns."""

POOL_SIZE = 5
"""Connections of a process to PostgreSQL, as in SQLAlchemy; a server has 100 by default."""

_OVERFLOW = 10
"""Further connections to a SQLite file, as in SQLAlchemy; a PostgreSQL server has few to spare."""

_CONNECT_TIMEOUT = 10
"""Seconds in which PostgreSQL must take a new connection; psycopg itself would wait for 130."""


class _Uses(local):
    """How often a thread is inside of `Forks.delayed`."""

    depth = 0


class _Forks:
    """Delays forks of the process while a connection is in use, and closes those that are not.

    Who inherits an open connection to SQLite takes the parent's locks for its own: the parent then
    deletes the write-ahead log, and what the child commits to it is lost. A lock that another
    thread has is never released in the child.
    """

    def __init__(self) -> None:
        self.closed = WeakSet[Connections]()  # before each fork
        self.inherited: list[Pool | sa.Connection] = []  # the parent's, which it closes itself
        self._condition, self._uses, self._thread = Condition(), 0, _Uses()
        self._forking = False
        if hasattr(os, "register_at_fork"):  # Windows has no forks
            hooks = {"after_in_parent": self._after, "after_in_child": self._in_child}
            os.register_at_fork(before=self._before, **hooks)

    @contextmanager
    def delayed(self) -> Iterator[None]:
        """Let forks by other threads wait until the end of this, which may stand inside itself."""
        with self._condition:
            if not self._thread.depth:
                self._condition.wait_for(lambda: not self._forking)
            self._uses, self._thread.depth = self._uses + 1, self._thread.depth + 1
        try:
            yield
        finally:
            with self._condition:
                self._uses, self._thread.depth = self._uses - 1, self._thread.depth - 1
                self._condition.notify_all()

    def _before(self) -> None:
        self._condition.acquire()
        self._forking = True
        # Not for ever: another thread may wait for the one that forks.
        self._condition.wait_for(lambda: self._uses == self._thread.depth, LOCK_TIMEOUT)
        for connections in [*self.closed]:
            connections.close()

    def _after(self) -> None:
        self._forking = False
        self._condition.notify_all()
        self._condition.release()

    def _in_child(self) -> None:
        self._uses = self._thread.depth  # the other threads are not there
        self.inherited += [connections.abandon() for connections in self.closed]
        self._after()


class Connections:
    """The connections of this process to one database.

    They do not know the `Database` that uses them, so that it is dropped when nobody needs it, and
    they are closed then. In memory each connection would have a database of its own, so there is
    one, which stays open until then.
    """

    def __init__(self, url: URL, *, durable: bool, timeout: float, pool_size: int) -> None:
        """Take the database's URL; opens nothing yet."""
        self.mode = ""
        """How a SQLite file without write access is opened."""
        self._url, self._durable, self._timeout = url, durable, timeout
        self._age = 0  # counts closings
        sqlite = url.get_backend_name() == "sqlite"
        options: dict[str, Any] = {"connect_args": {"timeout": timeout}}
        if not sqlite:
            options = {"pool_pre_ping": True, "connect_args": {"connect_timeout": _CONNECT_TIMEOUT}}
        self.in_memory = sqlite and url.database == ":memory:"
        if self.in_memory:
            pool_size, options["poolclass"] = 1, sa.QueuePool
            options["connect_args"]["check_same_thread"] = False
        self.engine = sa.create_engine(
            url,
            pool_size=pool_size,
            max_overflow=_OVERFLOW if sqlite and not self.in_memory else 0,
            pool_timeout=timeout,
            **options,
        )
        self.engine.dialect.create_connect_args(url)
        sa.event.listen(self.engine, "connect", self._prepare if sqlite else self._limit)
        sa.event.listen(self.engine, "connect", self._mark)
        sa.event.listen(self.engine, "checkin", self._close_old)
        if sqlite:
            sa.event.listen(self.engine, "do_connect", self._connect)
            sa.event.listen(self.engine, "begin", _begin)
        if not self.in_memory:
            FORKS.closed.add(self)

    def close(self) -> None:
        """Close all connections but one in memory, those in use as soon as they are given back."""
        if not self.in_memory:
            self.drop()

    def drop(self) -> None:
        """Close all connections, with which a database in memory is gone."""
        self._age += 1
        self.engine.dispose()

    def abandon(self) -> Pool:
        """Give up the connections without closing them; return them."""
        pool = self.engine.pool
        self.engine.dispose(close=False)
        return pool

    def _mark(self, _connection: Any, record: Any) -> None:
        record.info["opened"] = os.getpid(), self._age

    def _close_old(self, _connection: Any, record: Any) -> None:
        process, age = record.info.get("opened", (0, 0))
        if process == os.getpid() and age != self._age:  # its pool is gone, nobody else closes it
            record.invalidate()

    def _limit(self, connection: Any, _record: Any) -> None:
        """Let PostgreSQL wait for locks as long as SQLite does, not for ever."""
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {int(self._timeout * 1_000)}")
        connection.commit()

    def _prepare(self, connection: Any, _record: Any) -> None:
        """Set up a new connection to SQLite; `_begin` begins the transactions, not the driver."""
        connection.isolation_level = None
        if self.mode:
            return
        for pragma in (
            "journal_mode=WAL",
            # One fsync a commit; FULL, since with NORMAL a power cut takes the last commits.
            f"synchronous={'FULL' if self._durable else 'OFF'}",
            "secure_delete=ON",  # what is erased must not stay in free pages
            "journal_size_limit=4194304",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()

    def _connect(self, _dialect: Any, _record: Any, args: list[Any], options: Any) -> None:
        """Open a SQLite file without write access in a read-only mode."""
        if self.mode:
            args[0] = f"file:{quote(str(self._url.database))}?{self.mode}"
            options["uri"] = True


FORKS = _Forks()


def _begin(connection: sa.Connection) -> None:
    options = connection.get_execution_options()
    if not options.get("ebbtide_apart"):
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("ebbtide_writes") else "BEGIN")
