"""Where a thread is kept for a test of faults: in files below a folder, or in PostgreSQL.

Redis may cache what is in attention there. A place can be copied, so that each death begins from
the same rows, and it can count what is done there, so that a process dies at an operation of a
given number.
"""

import json
import os
import shutil
import signal
import sqlite3
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import psycopg
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from psycopg.rows import dict_row
from redis import ConnectionPool, Redis, UnixDomainSocketConnection
from sqlalchemy import event, make_url

from ebbtide.memory.archive.database import FILE
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.attention.redis import RedisAttention
from tests.databases import Database
from tests.zipped import revealed

OPTIONS: Any = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
TERMS = "SELECT term FROM temp.{0}_terms WHERE term LIKE '%' || ?"


_copies = count()


class Countdown:
    """Kills the process at an operation of a given number."""

    def __init__(self, left: int) -> None:
        """Count from here."""
        self.left = left

    def counted(self, _statement: str = "") -> None:
        """Count one operation, before it is done."""
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class Counted(psycopg.Connection[Any]):
    """A connection that counts what it sends: before, and when it was sent and is not answered."""

    countdown: Countdown | None = None

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        """Wait for an operation."""
        return super().wait(counting(gen, self.countdown), *args, **kwargs)


class AsyncCounted(psycopg.AsyncConnection[Any]):
    """A connection that counts what it sends."""

    countdown: Countdown | None = None

    async def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        """Wait for an operation."""
        return await super().wait(counting(gen, self.countdown), *args, **kwargs)


class RedisCounted(UnixDomainSocketConnection):
    """A connection to Redis that counts what it sends."""

    countdown: Countdown | None = None

    def __init__(self, *, countdown: Countdown | None = None, **options: Any) -> None:
        """Count nothing before the connection stands."""
        super().__init__(**options)  # type: ignore[no-untyped-call]  # redis has no types for it
        self.connect()  # type: ignore[no-untyped-call]  # as above
        self.countdown = countdown

    def send_packed_command(self, *args: Any, **options: Any) -> None:
        """Send a command."""
        if self.countdown is not None:
            self.countdown.counted()
        super().send_packed_command(*args, **options)  # type: ignore[no-untyped-call]  # as above
        if self.countdown is not None:
            self.countdown.counted()


def counting(operation: Any, countdown: Countdown | None) -> Generator[Any, Any, Any]:
    """Run an operation; count before it is sent, and when the answer is waited for."""
    if countdown is None:
        return (yield from operation)
    countdown.counted()
    try:
        wanted = next(operation)
        countdown.counted()
        while True:
            ready = yield wanted
            wanted = operation.send(ready)
    except StopIteration as end:
        return end.value


@dataclass(frozen=True)
class Place:
    """Where a thread is: its folder, and the URI of its database, empty for SQLite's files.

    `socket` is that of Redis, whose keys begin with the name of the folder, if attention is cached.
    """

    root: Path
    uri: str = ""
    socket: str = ""

    @property
    def database(self) -> Database:
        """The database."""
        return Database(self.uri)

    @property
    def address(self) -> str | Path:
        """What an archive is given to be here."""
        return self.database.url if self.uri else self.root / "archive"

    def begun(self) -> "Place":
        """Return the place with a folder, and with tables for checkpoints in PostgreSQL.

        Of those the planner keeps no samples, or it would do so now and then: what it knows of
        LangGraph's tables is not for us to change, and an erasure says so.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        if self.uri:
            with PostgresSaver.from_conn_string(self.uri) as saver:
                saver.setup()
            tables = self.tables("checkpoint%")
            self.database.run(*map("ALTER TABLE {} SET (autovacuum_enabled=off)".format, tables))
        return self

    def archive(self, countdown: Countdown | None = None) -> SqlArchive:
        """Return the archive, whose operations are counted."""
        archive = SqlArchive(self.address)
        if countdown is not None:
            engine = archive.database._engine
            name = "do_connect" if self.uri else "connect"
            event.listen(engine, name, _counted_by(countdown) if self.uri else _traced(countdown))
        return archive

    @contextmanager
    def attention(
        self, archive: SqlArchive, countdown: Countdown | None = None
    ) -> Iterator[RedisAttention | None]:
        """Open the cache of attention, whose operations are counted, if there is one."""
        if not self.socket:
            yield None
            return
        options: Any = {"path": self.socket, "countdown": countdown}
        pool = ConnectionPool(connection_class=RedisCounted, **options)
        with closing(Redis(connection_pool=pool)) as client:
            yield RedisAttention(client, archive.attention(), prefix=self.root.name)

    @property
    def cached(self) -> dict[bytes, bytes]:
        """What Redis has for this place, by its keys, as it stores it."""
        if not self.socket:
            return {}
        with closing(Redis(unix_socket_path=self.socket)) as client:
            keys = [*client.scan_iter(f"{self.root.name}:*")]
            return {key: dumped for key in keys if (dumped := client.dump(key))}

    @contextmanager
    def saver(self, countdown: Countdown | None = None) -> Iterator[BaseCheckpointSaver[Any]]:
        """Open the checkpoints, whose operations are counted."""
        if self.uri:
            with Counted.connect(self.uri, **OPTIONS) as connection:
                saver = PostgresSaver(connection)
                connection.countdown = countdown
                yield saver
            return
        path = self.root / "checkpoints.sqlite"
        with closing(sqlite3.connect(path, check_same_thread=False, timeout=30)) as local:
            if countdown is not None:
                local.set_trace_callback(countdown.counted)
            yield SqliteSaver(local)

    @asynccontextmanager
    async def asaver(self, countdown: Countdown) -> AsyncIterator[AsyncPostgresSaver]:
        """Open the checkpoints in PostgreSQL for an event loop."""
        async with await AsyncCounted.connect(self.uri, **OPTIONS) as connection:
            saver = AsyncPostgresSaver(cast("Any", connection))
            connection.countdown = countdown
            yield saver

    def copy(self) -> "Place":
        """Return a copy of all, made when the last operation that was begun is over."""
        number = next(_copies)
        root = self.root.with_name(f"{self.root.name}-{number}")
        shutil.copytree(self.root, root)
        with closing(Redis(unix_socket_path=self.socket)) as client:
            for key, value in self.cached.items():
                client.restore(f"{root.name}:{key.decode().partition(':')[2]}", 0, value)
        if not self.uri:
            return Place(root, socket=self.socket)
        url = make_url(self.uri)
        name = url.database
        there = f"{name}_{number}"
        with psycopg.connect(self.uri, dbname="postgres", autocommit=True) as connection:
            asked = "SELECT FROM pg_stat_activity WHERE datname = %s"
            while connection.execute(asked, [name]).fetchall():
                continue
            connection.execute(f'CREATE DATABASE "{there}" TEMPLATE "{name}"'.encode())
        return Place(root, url.set(database=there).render_as_string(hide_password=False))

    def drop(self) -> None:
        """Delete the files and the database."""
        shutil.rmtree(self.root)
        if self.cached:
            with closing(Redis(unix_socket_path=self.socket)) as client:
                client.delete(*self.cached)
        if self.uri:
            name = make_url(self.uri).database
            with psycopg.connect(self.uri, dbname="postgres", autocommit=True) as connection:
                connection.execute(f'DROP DATABASE "{name}" (FORCE)'.encode())

    def holding(self, texts: Iterable[str], stems: Iterable[str] = ()) -> list[str]:
        """Return where one of the texts stands, and where stems are among what is searched.

        In PostgreSQL the tables are analysed before, so that its planner has had every occasion to
        keep samples of them.
        """
        if self.uri:
            self.database.run(*map("ANALYZE {}".format, self.tables("ebbtide%")))
            return [*self.database.holding([*texts, *stems]), *self._numbers(stems)]
        return [*self._files_holding([*texts, *stems]), *self._terms(stems), *self._keys(stems)]

    def tables(self, like: str) -> list[str]:
        """Return the names of tables in PostgreSQL that are like this."""
        asked = "SELECT tablename FROM pg_tables WHERE tablename LIKE %s ORDER BY 1"
        with psycopg.connect(self.uri) as connection:
            return [name for (name,) in connection.execute(asked, [like])]

    def _files_holding(self, texts: Iterable[str]) -> list[str]:
        files = [path for path in sorted(self.root.rglob("*")) if path.is_file()]
        found = {path: revealed(path.read_bytes()) for path in files if "sqlite" in path.name}
        return [
            f"{path.relative_to(self.root)}: {text}"
            for text in texts
            for path, data in found.items()
            if text.encode() in data or json.dumps(text)[1:-1].encode() in data
        ]

    def _keys(self, stems: Iterable[str]) -> list[str]:
        """Return the stems that Redis has; a short text it stores as it is, so it asks for all."""
        if not self.socket:
            return []
        with closing(Redis(unix_socket_path=self.socket)) as client:
            hashes = [key for key in self.cached if key.endswith(b":memories")]
            held = [(key, [*client.hgetall(key).items()]) for key in hashes]
        return [
            f"Redis, {key.decode()}: {stem}"
            for key, fields in held
            for stem in stems
            if any(stem.encode() in part for field in fields for part in field)
        ]

    def _numbers(self, stems: Iterable[str]) -> list[str]:
        """Return the stems whose numbers PostgreSQL's search tables have, of whichever user."""
        asked = "SELECT FROM {}, unnest(terms) AS term WHERE term & 4294967295 = %s LIMIT 1"
        with psycopg.connect(self.uri) as connection:
            return [
                f"{name}: {stem}"
                for name in self.tables("ebbtide_said") + self.tables("ebbtide_headed")
                for stem in stems
                if connection.execute(asked.format(name).encode(), [crc32(stem.encode())]).rowcount
            ]

    def _terms(self, stems: Iterable[str]) -> list[str]:
        """Return the stems that the search tables know; their bytes may stand there in pieces."""
        path = self.root / "archive" / FILE
        if not path.exists():
            return []
        with closing(sqlite3.connect(path)) as connection:
            return [
                f"{name}: {term}"
                for name in ("ebbtide_said", "ebbtide_headed")
                for stem in stems
                for (term,) in _vocabulary(connection, name).execute(TERMS.format(name), [stem])
            ]


def _vocabulary(connection: sqlite3.Connection, name: str) -> sqlite3.Connection:
    made = f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.{name}_terms USING"
    connection.execute(f"{made} fts5vocab(main, {name}, row)")
    return connection


def _counted_by(countdown: Countdown) -> Any:
    def connect(_dialect: Any, _record: Any, args: Any, options: Any) -> Counted:
        connection = Counted.connect(*args, **options)
        connection.countdown = countdown
        return connection

    return connect


def _traced(countdown: Countdown) -> Any:
    def prepare(connection: sqlite3.Connection, _record: Any) -> None:
        connection.set_trace_callback(countdown.counted)

    return prepare
