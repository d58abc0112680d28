"""The database of an archive: its connections, reading, writing and sweeping it, and its errors."""

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from json import JSONDecodeError
from pathlib import Path
from threading import Lock, local
from typing import Any, TypeVar
from weakref import WeakSet, finalize

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from ..errors import ArchiveError, ArchiveFormatError, ArchiveUnavailableError
from . import index, schema
from .failures import archive_error

T = TypeVar("T")

FILE = "ebbtide.sqlite"
_IN_MEMORY = ":memory:"

_log = logging.getLogger("ebbtide.archive")

_UNNAMEABLE = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")
"""No file name has these; the surrogates left out stand for bytes that are no UTF-8."""


LOCK_TIMEOUT = 10.0
"""Seconds to wait for other writers; 95 % of commits take under 3 ms at 100,000 turns."""

POOL_SIZE = 5
"""Connections of a process to PostgreSQL, as in SQLAlchemy; a server has 100 by default."""

_OVERFLOW = 10
"""Further connections to a SQLite file, as in SQLAlchemy; a PostgreSQL server has few to spare."""

_CONNECT_TIMEOUT = 10
"""Seconds in which PostgreSQL must take a new connection; psycopg itself would wait for 130."""


def _engine(url: URL, *, durable: bool, timeout: float, pool_size: int) -> sa.Engine:
    """Return an engine, which opens nothing yet.

    In memory each connection would have a database of its own, so there is one.
    """
    sqlite = url.get_backend_name() == "sqlite"
    options: dict[str, Any] = {"connect_args": {"timeout": timeout}}
    if not sqlite:
        options = {"pool_pre_ping": True, "connect_args": {"connect_timeout": _CONNECT_TIMEOUT}}
    elif url.database == _IN_MEMORY:
        pool_size, options["poolclass"] = 1, sa.QueuePool
        options["connect_args"]["check_same_thread"] = False
    engine = sa.create_engine(
        url,
        pool_size=pool_size,
        max_overflow=_OVERFLOW if sqlite and url.database != _IN_MEMORY else 0,
        pool_timeout=timeout,
        **options,
    )
    engine.dialect.create_connect_args(url)
    if sqlite:
        sa.event.listen(engine, "connect", partial(_prepare, durable=durable))
        sa.event.listen(engine, "begin", _begin)
    else:
        sa.event.listen(engine, "connect", partial(_limit, timeout=timeout))
    return engine


def _limit(connection: Any, _record: Any, *, timeout: float) -> None:
    """Let PostgreSQL wait for locks as long as SQLite does, not for ever."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET lock_timeout = {int(timeout * 1_000)}")
    connection.commit()


def _prepare(connection: Any, _record: Any, *, durable: bool) -> None:
    """Set up a new connection to SQLite; `_begin` begins the transactions, not the driver."""
    connection.isolation_level = None
    for pragma in (
        "journal_mode=WAL",
        # One fsync a commit; FULL, since with NORMAL a power cut takes the last commits.
        f"synchronous={'FULL' if durable else 'OFF'}",
        "secure_delete=ON",  # what is erased must not stay in free pages
        "journal_size_limit=4194304",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _close(engine: sa.Engine) -> None:
    """Close the connections of an engine, those in use as soon as they are given back."""
    pool = engine.pool
    engine.dispose(close=False)
    sa.event.listen(pool, "checkin", lambda _, record: record.invalidate())
    pool.dispose()


def _begin(connection: sa.Connection) -> None:
    options = connection.get_execution_options()
    if not options.get("ebbtide_apart"):
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("ebbtide_writes") else "BEGIN")


class _ThreadState(local):
    """The connection that a thread of a process reads with."""

    reader: sa.Connection | None = None


class Database:
    """One database, opened when it is first used, once in each process."""

    def __init__(
        self,
        place: str | os.PathLike[str] | URL,
        *,
        durable: bool,
        timeout: float,
        pool_size: int,
        extensions: bool,
    ) -> None:
        """Take a URL, or a folder for a SQLite file; raises `ArchiveError` if it cannot be used."""
        self.url = place if isinstance(place, URL) else _url(place)
        self.sqlite = self.url.get_backend_name() == "sqlite"
        self._timeout = timeout
        # Locked, so that of the first threads only one sets up the tables and opens the file.
        self._ready, self._lock = False, Lock()
        self._thread = _ThreadState()
        self._file: tuple[int, int] | None = None
        self._key = b""
        self.opened = 0  # times; part of cache keys, since rows may be of another file then
        self._in_memory = self.sqlite and self.url.database == _IN_MEMORY
        self._records = records = WeakSet[Any]()  # of the pool, one for each connection
        self._inherited: list[Any] = []
        self._engine = self._made_engine(durable=durable, timeout=timeout, pool_size=pool_size)
        sa.event.listen(self._engine, "connect", lambda _, one: records.add(one), insert=True)
        self._engine.update_execution_options(ebbtide_extensions=extensions)
        finalize(self, _close, self._engine)  # also at the end of the program
        if not self._in_memory:
            _DATABASES.add(self)

    @property
    def name(self) -> str:
        """The database as errors name it, without a password."""
        if self.sqlite:
            return str(self.url.database)
        return self.url.difference_update_query(["password"]).render_as_string()

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Yield a connection that reads the committed rows of one moment.

        It is the one that the thread reads with already: threads that hold one while they wait for
        another would leave none in the pool, and wait for each other.
        """
        with self.using():
            reader = self._thread.reader
            if reader is not None and not (reader.closed or reader.invalidated):
                try:
                    yield reader
                except DBAPIError:
                    _give_back(reader)  # PostgreSQL takes nothing more in a failed transaction
                    raise
                return
            connection, process = self._open().connect(), os.getpid()
            try:
                if not self.sqlite:  # transactions of SQLite see one moment anyway
                    connection.execution_options(isolation_level="REPEATABLE READ")
                self._thread.reader = connection
                yield connection
            finally:
                if self._thread.reader is connection:
                    self._thread.reader = None
                if process == os.getpid():
                    _give_back(connection)
                else:  # a fork ends what the other threads had begun
                    self._inherited.append(connection)

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Yield a connection in a transaction; SQLite takes its write lock before it reads."""
        self.end_moment()
        with self.using(), self._open().connect() as connection:
            connection.execution_options(ebbtide_writes=True)
            with connection.begin():
                yield connection

    def end_moment(self) -> None:
        """End the moment that the thread reads: its next reading sees the present."""
        if self._thread.reader is not None:
            _give_back(self._thread.reader)

    def sweep(self) -> tuple[str, ...]:
        """Remove erased text from the files; return descriptions of what may still hold it.

        After a failure a sweep stays due, until a SQLite file is opened or the next erasure.
        """
        with self.writing() as connection:
            due = connection.execute(sa.select(schema.version.c.sweep)).scalar()
            if due:
                index.rewrite(connection, schema.said, schema.headed)
        if not due:
            return ()
        unswept = self._vacuum()
        if not unswept:
            with self.writing() as connection:
                # If another process erased meanwhile, the count differs and a sweep stays due.
                swept = sa.update(schema.version).where(schema.version.c.sweep == due)
                connection.execute(swept.values(sweep=0))
        return unswept if self.sqlite else (*unswept, kept_by_postgresql(f"archive {self.name!r}"))

    def _vacuum(self) -> tuple[str, ...]:
        """Run `VACUUM`, and truncate SQLite's write-ahead log, which has earlier pages.

        PostgreSQL only marks the space of deleted rows as free, if no older transaction is open:
        what it keeps says `kept_by_postgresql`.
        """
        options = {"ebbtide_apart": True} if self.sqlite else {"isolation_level": "AUTOCOMMIT"}
        try:
            with self.using(), self._open().connect() as connection:
                connection.execution_options(**options)  # VACUUM runs in no transaction
                if not self.sqlite:
                    tables = {*sa.inspect(connection).get_table_names()} & {*schema.METADATA.tables}
                    connection.execute(sa.text(f"VACUUM {', '.join(sorted(tables))}"))
                    return ()
                connection.execute(sa.text("VACUUM"))
                busy = connection.execute(sa.text("PRAGMA wal_checkpoint(TRUNCATE)")).one()[0]
        except ArchiveError as error:
            return (f"free pages of {self.name!r}: they could not be reclaimed ({error})",)
        return (f"the WAL of {self.name!r}: another connection is reading it",) if busy else ()

    def id(self) -> str:
        """Return the id of the database, drawn with its tables."""
        with self.using():
            self._open()
            return str(self._id)

    def key(self) -> bytes:
        """Return the secret of the database, created with its tables."""
        with self.using():
            self._open()
            return self._key

    def take_key(self, key: bytes) -> None:
        """Take over the secret of another database, unless there are sessions made with ours."""
        with self.writing() as connection:
            if connection.execute(sa.select(schema.sessions.c.id).limit(1)).first() is None:
                connection.execute(sa.update(schema.version).values(key=key.decode()))
        self._ready = False  # so that the secret is read again

    def exists(self) -> bool:
        """Tell whether the database exists; the first write creates a SQLite file."""
        if not self.sqlite or self._in_memory:
            return True
        if os.path.exists(str(self.url.database)):  # noqa: PTH110 (asked often)
            return True
        with self.using():
            return self._identity() is not None

    def close(self) -> None:
        """Close all connections, those in use when given back; a later use opens others.

        One to a database in memory stays open: the database would be gone with it.
        """
        if not self._in_memory:
            _close(self._engine)

    def enter_child(self) -> None:
        """Use nothing of the parent's after a fork; nothing at all if a connection was open.

        Who inherits an open connection to SQLite takes the parent's locks for its own: the parent
        then deletes the write-ahead log, and what the child commits to it is lost.
        """
        self._lock = Lock()  # another thread may have had it
        self._inherited += [one for one in self._records if one.dbapi_connection is not None]
        self._engine.dispose(close=False)

    def _made_engine(self, **options: Any) -> sa.Engine:
        try:
            return _engine(self.url, **options)
        except ImportError as error:
            install = "pip install 'ebbtide[postgres]', and use postgresql+psycopg://"
            advice = "use sqlite:///FILE" if self.sqlite else install
            raise ArchiveError(
                f"the driver of {self.name!r} is not installed ({error}): {advice}"
            ) from error
        except ValueError as error:
            raise ArchiveError(f"{self.name!r}: an option after ? is wrong: {error}") from error

    def _open(self) -> sa.Engine:
        """Return the engine, with the tables set up and sweeps done that were due."""
        with self._lock:
            if self._ready and self.sqlite and self._file != self._identity():
                self.close()  # else turns would be written to a file that was deleted
                self._ready = False
            due = 0
            if not self._ready:
                if self.sqlite:
                    Path(self.name).parent.mkdir(parents=True, exist_ok=True)
                version = schema.prepare(self._engine, self.name)
                self._id, self._key, due = version.id, version.key.encode(), version.sweep
                self._file = self._identity()
                self._ready, self.opened = True, self.opened + 1
        if due and self.sqlite:
            try:
                unswept = self.sweep()
            except ArchiveError as error:
                unswept = (str(error),)
            for place in unswept:
                _log.warning("something that was erased may still be there: %s", place)
        return self._engine

    def _identity(self) -> tuple[int, int] | None:
        """Return device and inode of the SQLite file, None if there is none."""
        if not self.sqlite or self._in_memory:
            return None
        try:
            status = os.stat(self.name)  # noqa: PTH116 (asked at each reading)
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino

    @contextmanager
    def using(self) -> Iterator[None]:
        """Raise errors of the database as `ArchiveError`s that say what to do."""
        if self._inherited:
            raise ArchiveError(
                f"{self.name!r} was in use when this process was forked: start processes with "
                "`spawn` or `forkserver`, or when no run is going on"
            )
        try:
            yield
        except (DBAPIError, PoolTimeoutError) as error:
            found = archive_error(error, self.name, self._timeout)
            if isinstance(found, ArchiveUnavailableError | ArchiveFormatError) and self.sqlite:
                self.close()  # a connection may have kept a page that was read wrongly
            raise found from error
        except SQLAlchemyError as error:
            raise ArchiveError(f"{self.name!r}: {error}") from error
        except JSONDecodeError as error:
            raise ArchiveFormatError(
                f"{self.name!r} is damaged ({error}): `ebbtide archive verify` says where; restore "
                "it from a backup"
            ) from error
        except ArchiveError:
            raise
        except OSError as error:
            raise ArchiveUnavailableError(self.name, str(error)) from error


_DATABASES = WeakSet[Database]()


def _before_fork() -> None:
    for database in [*_DATABASES]:
        database.close()


def _in_child() -> None:
    for database in [*_DATABASES]:
        database.enter_child()


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(before=_before_fork, after_in_child=_in_child)


def kept_by_postgresql(what: str) -> str:
    """Return what PostgreSQL keeps of deleted rows of a database, as a report says it."""
    return (
        f"deleted rows of the {what}: PostgreSQL keeps them in its files until `VACUUM FULL`, and "
        "in its write-ahead log, its replicas and backups longer"
    )


def again_if_lost(read: Callable[[], T]) -> T:
    """Return what is read, from a new connection if the old one broke: nothing was written."""
    try:
        return read()
    except ArchiveUnavailableError as error:
        if not error.lost:
            raise
        return read()


def upsert(connection: sa.Connection, table: sa.Table) -> Any:
    """Return an insert of the connection's dialect, which has `on_conflict_do_...`."""
    dialect = sqlite if schema.is_sqlite(connection) else postgresql
    return dialect.insert(table)


def added(connection: sa.Connection, table: sa.Table, key: Mapping[str, Any], **values: Any) -> int:
    """Return the id of the row with a unique key, inserted with `values` if it does not exist."""
    query = sa.select(table.c.id).where(*(table.c[name] == value for name, value in key.items()))
    number = connection.execute(query).scalar()
    if number is None:
        row = upsert(connection, table).values(**key, **values)
        connection.execute(row.on_conflict_do_nothing(index_elements=[*key]))
        number = connection.execute(query).scalar_one()
    return int(number)


def _url(place: str | os.PathLike[str]) -> URL:
    """Return the URL of a folder's SQLite file, or the checked one that is the place."""
    name: Any = os.fspath(place) if isinstance(place, os.PathLike) else place
    if not isinstance(name, str) or not name or _UNNAMEABLE.search(name):
        raise ArchiveError(
            f"{name!r} names no place: pass the path of a folder, or the URL of a database"
        )
    if "://" not in name:
        return URL.create("sqlite", database=str(Path(name).absolute() / FILE))
    try:
        url = sa.make_url(name)
        if url.drivername == "postgresql":
            url = url.set(drivername="postgresql+psycopg")  # the driver that the extra installs
        dialect = url.get_dialect()
    except (ArgumentError, NoSuchModuleError) as error:
        raise _unusable(name) from error
    except ValueError as error:  # it may quote a part of the password
        raise _unusable(name, "its port is no number") from error
    if dialect.name not in {"sqlite", "postgresql"} or dialect.is_async:
        raise _unusable(name)
    path = url.database or ""
    if dialect.name == "sqlite" and (path in {"", ":memory:"} or path.startswith("file:")):
        raise ArchiveError(f"{name!r} keeps nothing: name a folder, or sqlite:///FILE")
    return url


def _unusable(url: str, reason: str = "names no database that can be used") -> ArchiveError:
    return ArchiveError(
        f"{url.partition('://')[0]!r}: {reason}: use a folder, sqlite:///FILE or "
        "postgresql+psycopg://USER@HOST:PORT/NAME"
    )


def _give_back(reader: sa.Connection) -> None:
    """Close a connection that was read with; if it broke since then, nothing is lost."""
    with suppress(DBAPIError):
        reader.close()
