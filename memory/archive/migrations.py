"""Make the tables, or migrate those of an older version, in one transaction."""

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from ..errors import ArchiveFormatError
from ..passages import passages
from . import schema
from .index import add_terms, heading, is_sqlite, layout, postings
from .lineage import effort_of
from .records import unzipped
from .schema import METADATA, changes, headed, heading_vectors, said, sessions, turns, vectors

_AT_ONCE = 500
"""Rows that are read at once, so that a large archive does not fill the memory."""

_LOCK = 7_351_204_518
"""The advisory lock under which one of many processes makes or changes the tables; any number."""

_FTS5 = (
    "CREATE VIRTUAL TABLE {} USING"
    " fts5(terms, content='', detail=none, columnsize=0, tokenize='ascii')"
)


def prepare(engine: sa.Engine, name: str) -> sa.Row[Any]:
    """Make or migrate the tables of a database if need be, and return its row of `version`.

    Raises `ArchiveFormatError` for a version that this program does not know.
    """
    with engine.connect() as connection:
        version = _version(connection)
    if version is not None and version.version == schema.VERSION:
        return version
    with engine.connect() as connection:
        connection.execution_options(ebbtide_writes=True)
        with connection.begin():
            _make_or_migrate(connection, name)
            return connection.execute(sa.select(schema.version)).one()


def _version(connection: sa.Connection) -> sa.Row[Any] | None:
    """Return the row of the version, None if there are no tables."""
    if not sa.inspect(connection).has_table(schema.version.name):
        return None
    return connection.execute(sa.select(schema.version)).first()


def _make_or_migrate(connection: sa.Connection, name: str) -> None:
    _wait_for_others(connection)  # who may have made them meanwhile
    current = _version(connection)
    if current is None:
        later = {vectors, heading_vectors} | ({said, headed} if is_sqlite(connection) else set())
        _create(connection, [table for table in METADATA.sorted_tables if table not in later])
        for table in (said, headed) if is_sqlite(connection) else ():
            connection.execute(sa.text(_FTS5.format(table.name)))
        first = {"version": schema.VERSION, "sweep": 0, "key": secrets.token_hex(32)}
        connection.execute(schema.version.insert().values(first))
    elif not 0 < current.version <= schema.VERSION:
        advice = "install a newer ebbtide" if current.version > 0 else "restore it from a backup"
        raise ArchiveFormatError(
            f"{name!r} has tables of version {current.version}, this program knows "
            f"1-{schema.VERSION}: {advice}"
        )
    else:
        for number in range(current.version + 1, schema.VERSION + 1):
            MIGRATIONS[number](connection)
            connection.execute(schema.version.update().values(version=number))


def create_vectors(connection: sa.Connection) -> None:
    """Make the tables of vectors, with the extension that PostgreSQL needs for them."""
    _wait_for_others(connection)
    if not is_sqlite(connection):
        connection.execute(sa.text("CREATE EXTENSION IF NOT EXISTS vector"))
    _create(connection, [vectors, heading_vectors])


def _wait_for_others(connection: sa.Connection) -> None:
    """Let one process at a time make or change tables; a file of SQLite has one writer anyway."""
    if not is_sqlite(connection):
        connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_LOCK})"))


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


def _by_passages(connection: sa.Connection) -> None:
    """Index passages in place of whole turns; vectors are deleted, to be computed again later."""
    kind = "BLOB" if is_sqlite(connection) else "BYTEA"
    connection.execute(sa.text(f"ALTER TABLE {turns.name} ADD COLUMN passages {kind}"))
    _keep_no_samples(connection, [turns])
    for table in (said, headed):
        sql = f"INSERT INTO {table.name}({table.name}) VALUES ('delete-all')"  # noqa: S608 (ours)
        connection.execute(sa.text(sql) if is_sqlite(connection) else sa.delete(table))
    if schema.has_vectors(connection):
        connection.execute(sa.delete(vectors))
    for row in _rows(connection, turns, turns.c.messages):
        parts = passages(json.loads(unzipped(row.messages)))
        laid_out = sa.update(turns).where(turns.c.id == row.id).values(passages=layout(parts))
        connection.execute(laid_out)
        add_terms(connection, said, row.owner, postings(row.id, parts))
    for row in _rows(connection, changes, changes.c.turn, changes.c.entry):
        add_terms(connection, headed, row.owner, [(row.id, heading(effort_of(row)))])


def _rows(connection: sa.Connection, table: sa.Table, *columns: Any) -> Iterator[Any]:
    """Yield columns of all rows of a table, each with its id and the number of its user."""
    query = sa.select(table.c.id, sessions.c.owner, *columns).order_by(table.c.id)
    query = query.join(sessions, sessions.c.id == table.c.session)
    last = 0
    while part := connection.execute(query.where(table.c.id > last).limit(_AT_ONCE)).all():
        yield from part
        last = part[-1].id


MIGRATIONS: Mapping[int, Callable[[sa.Connection], None]] = {2: _by_passages}
"""By version, the function that migrates the tables of the version before it."""
