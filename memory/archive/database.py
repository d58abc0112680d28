"""The database of an archive: how it is opened, read and written, and what can go wrong there."""

import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from json import JSONDecodeError
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from ..errors import ArchiveError, ArchiveFormatError, ArchiveLockedError, ArchiveUnavailableError
from . import index, migrations, schema

FILE = "ebbtide.sqlite"

LOCK_TIMEOUT = 10.0
"""Seconds that one waits for others who write; of commits 95 % take under 3 ms at 100,000 turns."""

POOL_SIZE = 5
"""Connections of a process to PostgreSQL, as in SQLAlchemy; a server has 100 by default."""

_OVERFLOW = 10
"""Further connections to a SQLite file, as in SQLAlchemy; a PostgreSQL server has few to spare."""

_CONNECT_TIMEOUT = 10
"""Seconds in which PostgreSQL must take a new connection; psycopg itself would wait for 130."""

_log = logging.getLogger("ebbtide.archive")

# Drivers tell these errors apart by their words alone; each asks something else of the user.
_BUSY = ("database is locked", "database table is locked", "lock timeout", "deadlock detected")
_STRANGE = ("file is not a database", "database disk image is malformed", "malformed database")
_LACKING = ("no such table", "no such column", "has no column named")
_LACKING_STATES = ("42P01", "42703")
"""What SQLite says, and PostgreSQL's codes, if a table or a column is not there."""

_UNNAMEABLE = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")
"""No file is called so; the surrogates between stand for bytes of a name that are no UTF-8."""


class Database:
    """One database, opened when it is first used, once in each process."""

    def __init__(
        self, place: str | os.PathLike[str], *, durable: bool, timeout: float, pool_size: int
    ) -> None:
        """Take the URL of a database, or a folder in which a SQLite file is made.

        Raises `ArchiveError` if the URL is none, or its driver is not installed.
        """
        self.url = _url(place)
        self.sqlite = self.url.get_backend_name() == "sqlite"
        self._durable, self._timeout = durable, timeout
        # Without it each of the threads that come first would set up, and drop what another opened.
        self._ready, self._process, self._lock = False, os.getpid(), Lock()
        self._file: tuple[int, int, str, int] | None = None
        self._key = b""
        self.opened = 0  # times; what is known of a file's rows holds of no other file
        self._engine = self._made(pool_size)

    @property
    def name(self) -> str:
        """The database as errors name it, without a password."""
        if self.sqlite:
            return str(self.url.database)
        return self.url.difference_update_query(["password"]).render_as_string()

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Read what is committed, all as of one moment; nothing is there yet in a new database."""
        with self.translating_errors(), self._open().connect() as connection:
            # SQLite's transactions see one moment anyway, PostgreSQL's if they are told to.
            yield (
                connection
                if self.sqlite
                else connection.execution_options(isolation_level="REPEATABLE READ")
            )

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Write all of it or nothing; SQLite takes its write lock at once, before it reads."""
        with self.translating_errors(), self._open().connect() as connection:
            begun = connection.execution_options(ebbtide_writes=True)
            with begun.begin():
                yield begun

    def sweep(self) -> tuple[str, ...]:
        """Leave nothing in the files of what was erased; say what may still hold it.

        Wherever it is cut off, it is due until it was done: whoever opens a SQLite file next does
        it, or whoever erases next.
        """
        with self.writing() as connection:
            due = connection.execute(sa.select(schema.version.c.sweep)).scalar()
            if due:
                index.rewrite(connection, schema.said, schema.headed)
        if not due:
            return ()
        left = self._reclaimed()
        if not left:
            with self.writing() as connection:
                # What somebody else erased meanwhile is still due.
                swept = sa.update(schema.version).where(schema.version.c.sweep == due)
                connection.execute(swept.values(sweep=0))
        return left

    def _reclaimed(self) -> tuple[str, ...]:
        """`VACUUM` the file and truncate SQLite's write-ahead log, which has earlier pages.

        PostgreSQL only frees what was deleted from the archive's tables, if no older transaction
        is open: the bytes stay in its files until `VACUUM FULL`, in its log and replicas longer.
        """
        options = {"ebbtide_apart": True} if self.sqlite else {"isolation_level": "AUTOCOMMIT"}
        try:
            with self.translating_errors(), self._open().connect() as bare:
                connection = bare.execution_options(**options)  # VACUUM runs in no transaction
                if not self.sqlite:
                    tables = {*sa.inspect(connection).get_table_names()} & {*schema.METADATA.tables}
                    connection.execute(sa.text(f"VACUUM {', '.join(sorted(tables))}"))
                    return ()
                connection.execute(sa.text("VACUUM"))
                busy = connection.execute(sa.text("PRAGMA wal_checkpoint(TRUNCATE)")).one()[0]
        except ArchiveError as error:
            return (f"free pages of {self.name!r}: they could not be reclaimed ({error})",)
        return (f"the WAL of {self.name!r}: another connection is reading it",) if busy else ()

    def key(self) -> bytes:
        """Return the secret of the database, which was made with its tables."""
        with self.translating_errors():
            self._open()
            return self._key

    def take_key(self, key: bytes) -> None:
        """Take over the secret of another database, unless ours has sealed a session."""
        with self.writing() as connection:
            if connection.execute(sa.select(schema.sessions.c.id).limit(1)).first() is None:
                connection.execute(sa.update(schema.version).values(key=key.decode()))
        self._ready = False  # so that the secret is read again

    def exists(self) -> bool:
        """Tell whether anything was ever written; a SQLite file is made by the first write."""
        if not self.sqlite or os.path.exists(str(self.url.database)):  # noqa: PTH110 (asked often)
            return True
        with self.translating_errors():
            return self._identity() is not None

    def close(self) -> None:
        """Close all connections; a later use opens them again."""
        self._engine.dispose()

    def _made(self, pool_size: int) -> sa.Engine:
        options: dict[str, Any] = {"connect_args": {"timeout": self._timeout}}
        if not self.sqlite:
            options = {"pool_pre_ping": True, "connect_args": {"connect_timeout": _CONNECT_TIMEOUT}}
        try:
            engine = sa.create_engine(
                self.url,
                pool_size=pool_size,
                max_overflow=_OVERFLOW if self.sqlite else 0,
                pool_timeout=self._timeout,
                **options,
            )
            engine.dialect.create_connect_args(self.url)
        except ImportError as error:
            install = "pip install 'ebbtide[postgres]', and use postgresql+psycopg://"
            advice = "use sqlite:///FILE" if self.sqlite else install
            raise ArchiveError(
                f"the driver of {self.name!r} is not installed ({error}): {advice}"
            ) from error
        except ValueError as error:
            raise ArchiveError(f"{self.name!r}: an option after ? is wrong: {error}") from error
        sa.event.listen(engine, "connect", self._prepare if self.sqlite else self._limit)
        if self.sqlite:
            sa.event.listen(engine, "do_connect", self._connect)
            sa.event.listen(engine, "begin", _begin)
        return engine

    def _limit(self, connection: Any, _record: Any) -> None:
        """Let PostgreSQL wait for others as long as SQLite does, not for ever."""
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {int(self._timeout * 1_000)}")
        connection.commit()

    def _prepare(self, connection: Any, _record: Any) -> None:
        """Set up a new connection to SQLite: we say ourselves where transactions begin."""
        connection.isolation_level = None
        if self._how:
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
        """Open a file of SQLite's that cannot be written as one that is only read."""
        if self._how:
            args[0] = f"file:{quote(self.name)}?{self._how}"
            options["uri"] = True

    @property
    def _how(self) -> str:
        return self._file[2] if self._file else ""

    def _open(self) -> sa.Engine:
        with self._lock:
            if self._process != os.getpid():  # connections of a parent process are the parent's
                self._engine.dispose(close=False)
                self._process = os.getpid()
            if self._ready and self.sqlite and self._file != self._identity():
                self._engine.dispose()  # else turns would go to a file that was deleted
                self._ready = False
            due = 0
            if not self._ready:
                self._file = self._identity()
                due = self._set_up()
                self._ready, self._file, self.opened = True, self._identity(), self.opened + 1
        if due and self.sqlite and not self._how:  # else the next one who opens the file sweeps
            try:
                left = self.sweep()
            except ArchiveError as error:
                left = (str(error),)
            for what in left:
                _log.warning("something that was erased may still be there: %s", what)
        return self._engine

    def _identity(self) -> tuple[int, int, str, int] | None:
        """Return which file lies at SQLite's place and how it is opened, None for none.

        SQLite makes its log beside a file even to read it, unless it may take it for one that
        nobody changes; where it was changed after all, it is opened anew.
        """
        if not self.sqlite:
            return None
        path = self.name
        try:
            status = os.stat(path)  # noqa: PTH116 (asked at each reading)
        except FileNotFoundError:
            return None
        if os.access(path, os.W_OK) and os.access(os.path.dirname(path), os.W_OK):  # noqa: PTH120
            return status.st_dev, status.st_ino, "", 0
        log = Path(f"{path}-wal")
        if log.exists() and log.stat().st_size:
            return status.st_dev, status.st_ino, "mode=ro", 0
        return status.st_dev, status.st_ino, "immutable=1", status.st_mtime_ns

    def _set_up(self) -> int:
        """Make or change the tables if need be; return how many erasures were not swept after."""
        if self.sqlite:
            Path(self.name).parent.mkdir(parents=True, exist_ok=True)
        with self._engine.connect() as connection:
            found = migrations.noted(connection)
        if found is None or found.version != schema.VERSION:
            with self._engine.connect() as connection:
                begun = connection.execution_options(ebbtide_writes=True)
                with begun.begin():
                    found = migrations.prepare(begun, self.name)
        self._key = found.key.encode()
        return int(found.sweep)

    @contextmanager
    def translating_errors(self) -> Iterator[None]:
        """Raise what a database raises as an error that says what to do."""
        try:
            yield
        except (DBAPIError, PoolTimeoutError) as error:
            raise self._error(error) from error
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

    def _error(self, error: DBAPIError | PoolTimeoutError) -> ArchiveError:
        cause = error.orig if isinstance(error, DBAPIError) else error
        why = str(cause).partition("\nLINE ")[0].strip()  # what follows is of our statement
        if any(busy in why.lower() for busy in _BUSY):
            return ArchiveLockedError(self.name, self._timeout)
        if any(strange in why for strange in _STRANGE):
            return ArchiveFormatError(
                f"{self.name!r} is damaged, or no database of Ebbtide ({why}): restore it from a "
                "backup, or name another place"
            )
        if why.startswith(_LACKING) or getattr(cause, "sqlstate", "") in _LACKING_STATES:
            return ArchiveFormatError(
                f"{self.name!r} lacks a part of Ebbtide's tables ({why}): restore it from a backup"
            )
        lost = getattr(error, "connection_invalidated", False)
        return ArchiveUnavailableError(self.name, why, lost=lost)


def upsert(connection: sa.Connection, table: sa.Table) -> Any:
    """Return an insert that may say what to do if the row is there."""
    dialect = sqlite if index.is_sqlite(connection) else postgresql
    return dialect.insert(table)


def added(connection: sa.Connection, table: sa.Table, key: Mapping[str, Any], **rest: Any) -> int:
    """Return the number of the row with a unique key, which is added if it is not there."""
    query = sa.select(table.c.id).where(*(table.c[name] == value for name, value in key.items()))
    number = connection.execute(query).scalar()
    if number is None:
        row = upsert(connection, table).values(**key, **rest)
        connection.execute(row.on_conflict_do_nothing(index_elements=[*key]))
        number = connection.execute(query).scalar_one()
    return int(number)


def _url(place: str | os.PathLike[str]) -> URL:
    given: Any = os.fspath(place)
    if not isinstance(given, str) or not given or _UNNAMEABLE.search(given):
        raise ArchiveError(f"{given!r} names no place: use a folder, or the URL of a database")
    if "://" not in given:
        return URL.create("sqlite", database=str(Path(given).absolute() / FILE))
    try:
        url = sa.make_url(given)
        if url.drivername == "postgresql":
            url = url.set(drivername="postgresql+psycopg")  # the driver that the extra installs
        dialect = url.get_dialect()
    except (ArgumentError, NoSuchModuleError) as error:
        raise _unusable(given) from error
    except ValueError as error:  # it may quote a part of the password
        raise _unusable(given, "its port is no number") from error
    if dialect.name not in {"sqlite", "postgresql"} or dialect.is_async:
        raise _unusable(given)
    path = url.database or ""
    if dialect.name == "sqlite" and (path in {"", ":memory:"} or path.startswith("file:")):
        raise ArchiveError(f"{given!r} keeps nothing: name a folder, or sqlite:///FILE")
    return url


def _unusable(url: str, why: str = "names no database that can be used") -> ArchiveError:
    return ArchiveError(
        f"{url.partition('://')[0]!r}: {why}: use a folder, sqlite:///FILE or "
        "postgresql+psycopg://USER@HOST:PORT/NAME"
    )


def _begin(connection: sa.Connection) -> None:
    options = connection.get_execution_options()
    if not options.get("ebbtide_apart"):
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("ebbtide_writes") else "BEGIN")
