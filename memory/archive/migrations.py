"""The tables made, or older ones changed into those of this version, in one transaction."""

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from ..errors import ArchiveFormatError
from ..passages import passages
from . import schema
from .index import Postings, heading, is_sqlite, layout, postings
from .lineage import effort_of
from .records import unzipped
from .schema import METADATA, changes, headed, heading_vectors, said, sessions, turns, vectors

_AT_ONCE = 500
"""Turns that are read and written at once, so that a large archive is not held as a whole."""

_LOCK = 7_351_204_518
"""The advisory lock under which one of many processes makes or changes the tables."""

_FTS5 = (
    "CREATE VIRTUAL TABLE {} USING"
    " fts5(terms, content='', detail=none, columnsize=0, tokenize='ascii')"
)


def prepare(engine: sa.Engine, name: str) -> sa.Row[Any]:
    """Return the row of a database's version, its tables made or changed if need be.

    Raises `ArchiveFormatError` for a version that this program does not know.
    """
    with engine.connect() as connection:
        found = _version(connection)
    if found is not None and found.version == schema.VERSION:
        return found
    with engine.connect() as connection:
        connection.execution_options(ebbtide_writes=True)
        with connection.begin():
            _make_or_change(connection, name)
            return connection.execute(sa.select(schema.version)).one()


def _version(connection: sa.Connection) -> sa.Row[Any] | None:
    """Return the row of the version, None if there are no tables."""
    if not sa.inspect(connection).has_table(schema.version.name):
        return None
    return connection.execute(sa.select(schema.version)).first()


def _make_or_change(connection: sa.Connection, name: str) -> None:
    _wait_for_others(connection)
    found = _version(connection)
    if found is None:
        later = {vectors, heading_vectors} | ({said, headed} if is_sqlite(connection) else set())
        _create(connection, [one for one in METADATA.sorted_tables if one not in later])
        for table in (said, headed) if is_sqlite(connection) else ():
            connection.execute(sa.text(_FTS5.format(table.name)))
        first = {"version": schema.VERSION, "sweep": 0, "key": secrets.token_hex(32)}
        connection.execute(schema.version.insert().values(first))
    elif not 0 < found.version <= schema.VERSION:
        newer = "install a newer ebbtide"
        raise ArchiveFormatError(
            f"{name!r} has tables of version {found.version}, this program knows "
            f"1-{schema.VERSION}: {newer if found.version > 0 else 'restore it from a backup'}"
        )
    else:
        for number in range(found.version + 1, schema.VERSION + 1):
            MIGRATIONS[number](connection)
            connection.execute(schema.version.update().values(version=number))


def create_vectors(connection: sa.Connection) -> None:
    """Make the tables of vectors, with the extension that PostgreSQL needs for them."""
    _wait_for_others(connection)
    if not is_sqlite(connection):
        connection.execute(sa.text("CREATE EXTENSION IF NOT EXISTS vector"))
    _create(connection, [vectors, heading_vectors])


def _wait_for_others(connection: sa.Connection) -> None:
    """Let no other process make or change tables on PostgreSQL; a file has one writer anyway."""
    if not is_sqlite(connection):
        connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_LOCK})"))


def _create(connection: sa.Connection, tables: list[sa.Table]) -> None:
    METADATA.create_all(connection, tables)
    _keep_no_samples(connection, tables)


def _keep_no_samples(connection: sa.Connection, tables: Iterable[sa.Table]) -> None:
    """Let PostgreSQL keep no samples of what people said, which its planner would show."""
    for table in () if is_sqlite(connection) else tables:
        words = [column.name for column in table.columns if isinstance(column.type, schema.WORDS)]
        parts = ", ".join(f'ALTER COLUMN "{name}" SET STATISTICS 0' for name in words)
        if parts:
            connection.execute(sa.text(f"ALTER TABLE {table.name} {parts}"))


def _by_passages(connection: sa.Connection) -> None:
    """Index what was said by passages, anew; vectors of whole turns are computed again later."""
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
        Postings(connection, said, row.owner).add(postings(row.id, parts))
    for row in _rows(connection, changes, changes.c.turn, changes.c.entry):
        Postings(connection, headed, row.owner).add([(row.id, heading(effort_of(row)))])


def _rows(connection: sa.Connection, table: Any, *wanted: Any) -> Iterator[Any]:
    """Yield all rows of a table, each with the number of its user."""
    columns = sa.select(table.c.id, sessions.c.owner, *wanted)
    query = columns.join(sessions, sessions.c.id == table.c.session).order_by(table.c.id)
    last = 0
    while part := connection.execute(query.where(table.c.id > last).limit(_AT_ONCE)).all():
        yield from part
        last = part[-1].id


MIGRATIONS: Mapping[int, Callable[[sa.Connection], None]] = {2: _by_passages}
"""By version, what changes the tables of the version before it into those of this one."""
