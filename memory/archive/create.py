"""Make the tables of a database, and check the number of the schema of those that are there."""

import secrets
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DataError

from ..errors import ArchiveFormatError
from . import schema
from .index import is_sqlite
from .schema import METADATA, headed, heading_vectors, said, vectors

_LOCK = 7_351_204_518
"""The advisory lock under which one of many processes makes the tables; any number."""

_VERSION_LOCK = 7_351_204_519
"""The advisory lock that writers share, and that who changes the version has alone."""

_BEGIN = f"""
BEGIN;
SELECT pg_advisory_xact_lock_shared({_VERSION_LOCK});
SELECT 1 / count(*) FROM {schema.version.name} WHERE version = {{}}
"""  # noqa: S608 (ours)
"""Begins a transaction on PostgreSQL and fails if the version is another, in one round trip."""

_DIVISION_BY_ZERO = "22012"
"""PostgreSQL's code for how `_BEGIN` fails."""

_FTS5 = (
    "CREATE VIRTUAL TABLE {} USING"
    " fts5(terms, content='', detail=none, columnsize=0, tokenize='ascii')"
)


def prepare(engine: sa.Engine, name: str) -> sa.Row[Any]:
    """Make the tables of a database if there are none, and return its row of `version`.

    Raises `ArchiveFormatError` if there are tables of another version.
    """
    with engine.connect() as connection:
        if (row := checked_version(connection, name)) is not None:
            return row
    with engine.connect() as connection:
        connection.execution_options(ebbtide_writes=True)
        with connection.begin():
            _wait_for_others(connection)  # who may have made them meanwhile
            if (row := checked_version(connection, name)) is not None:
                return row
            _create_all(connection)
            return connection.execute(sa.select(schema.version)).one()


def checked_version(connection: sa.Connection, name: str) -> sa.Row[Any] | None:
    """Return the row of `version`, None if there are no tables.

    Raises `ArchiveFormatError` if its number is not `schema.VERSION`; `name` is that of the
    database in the error.
    """
    if not sa.inspect(connection).has_table(schema.version.name):
        return None
    row = connection.execute(sa.select(schema.version)).first()
    if row is not None and row.version != schema.VERSION:
        raise ArchiveFormatError(
            f"{name!r} has tables of version {row.version}, this program knows version "
            f"{schema.VERSION}: use the ebbtide that made them, or name another place"
        )
    return row


def check_version(connection: sa.Connection, name: str) -> None:
    """Check the version in a transaction that writes; begin that transaction on PostgreSQL.

    Until its end nobody can change the version: a file of SQLite has one writer, PostgreSQL a lock.
    Raises `ArchiveFormatError` if the version is not this program's.
    """
    version: Any = None
    if is_sqlite(connection):
        query = f"SELECT version FROM {schema.version.name}"  # noqa: S608 (ours)
        version = connection.exec_driver_sql(query).scalar()
        if version == schema.VERSION:
            return
    else:
        try:
            connection.exec_driver_sql(_BEGIN.format(schema.VERSION))
        except DataError as error:
            if getattr(error.orig, "sqlstate", "") != _DIVISION_BY_ZERO:
                raise
            connection.exec_driver_sql("ROLLBACK")
            version = connection.execute(sa.select(schema.version.c.version)).scalar()
        else:
            return
    raise ArchiveFormatError(
        f"{name!r} has got tables of version {version}, and this program writes {schema.VERSION}: "
        "use the ebbtide that changed them; nothing was written, and a turn that is in a "
        "checkpoint can be committed later"
    )


def create_vectors(connection: sa.Connection) -> None:
    """Make the tables of vectors, with the extension that PostgreSQL needs for them."""
    _wait_for_others(connection)
    if not is_sqlite(connection):
        connection.execute(sa.text("CREATE EXTENSION IF NOT EXISTS vector"))
    _create(connection, [vectors, heading_vectors])


def _create_all(connection: sa.Connection) -> None:
    """Make all tables but those of vectors, and insert the row of `version`."""
    later = {vectors, heading_vectors} | ({said, headed} if is_sqlite(connection) else set())
    _create(connection, [table for table in METADATA.sorted_tables if table not in later])
    for table in (said, headed) if is_sqlite(connection) else ():
        connection.execute(sa.text(_FTS5.format(table.name)))
    first = {"version": schema.VERSION, "sweep": 0, "key": secrets.token_hex(32)}
    first |= {"id": secrets.token_hex(16)}
    connection.execute(schema.version.insert().values(first))


def _wait_for_others(connection: sa.Connection) -> None:
    """Let one process at a time make tables; a file of SQLite has one writer anyway."""
    if not is_sqlite(connection):
        connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_LOCK})"))


def wait_for_writers(connection: sa.Connection) -> None:
    """Let nobody write until the end of a transaction that changes the version."""
    if not is_sqlite(connection):
        connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_VERSION_LOCK})"))


def _create(connection: sa.Connection, tables: list[sa.Table]) -> None:
    METADATA.create_all(connection, tables)
    _keep_no_samples(connection, tables)


def _keep_no_samples(connection: sa.Connection, tables: Iterable[sa.Table]) -> None:
    """Let PostgreSQL keep no samples of texts: `pg_stats` would show them, even erased ones."""
    for table in () if is_sqlite(connection) else tables:
        words = [column.name for column in table.columns if isinstance(column.type, schema.WORDS)]
        parts = ", ".join(f'ALTER COLUMN "{name}" SET STATISTICS 0' for name in words)
        if parts:
            connection.execute(sa.text(f"ALTER TABLE {table.name} {parts}"))
