"""Older tables changed into those of this version, in the transaction that finds them."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from sqlalchemy import Connection, bindparam, delete, select, text, update

from ..passages import passages
from . import schema
from .index import Postings, heading, is_sqlite, layout, postings
from .lineage import effort_of
from .records import unzipped
from .schema import changes, headed, said, sessions, turns, vectors

Migrations: TypeAlias = Mapping[int, Callable[[Connection], None]]

_AT_ONCE = 500
"""Turns that are read and written at once, so that a large archive is not held as a whole."""

_LAID_OUT = update(turns).where(turns.c.id == bindparam("of")).values(passages=bindparam("layout"))


def migrate(connection: Connection, found: int) -> None:
    """Change tables of an older version, one version after the other, into the newest form."""
    for number in range(found + 1, schema.VERSION + 1):
        MIGRATIONS[number](connection)
        connection.execute(schema.version.update().values(version=number))


def _by_passages(connection: Connection) -> None:
    """Index what was said by passages, anew; vectors of whole turns are computed again later."""
    kind = "BLOB" if is_sqlite(connection) else "BYTEA"
    connection.execute(text(f"ALTER TABLE {turns.name} ADD COLUMN passages {kind}"))
    schema.keep_no_samples(connection, [turns])
    for table in (said, headed):
        sql = f"INSERT INTO {table.name}({table.name}) VALUES ('delete-all')"  # noqa: S608 (ours)
        connection.execute(text(sql) if is_sqlite(connection) else delete(table))
    if schema.has_vectors(connection):
        connection.execute(delete(vectors))
    for rows in _parts(connection, turns, turns.c.messages):
        for row in rows:
            parts = passages(json.loads(unzipped(row.messages)))
            connection.execute(_LAID_OUT, {"of": row.id, "layout": layout(parts)})
            Postings(connection, said, row.owner).add(postings(row.id, parts))
    for rows in _parts(connection, changes, changes.c.turn, changes.c.entry):
        for row in rows:
            terms = heading(effort_of(row))
            Postings(connection, headed, row.owner).add([(row.id, terms)])


def _parts(connection: Connection, table: Any, *wanted: Any) -> Iterator[list[Any]]:
    """Yield all rows of a table, each with the number of its user, some at once."""
    query = (
        select(table.c.id, sessions.c.owner, *wanted)
        .join(sessions, sessions.c.id == table.c.session)
        .where(table.c.id > bindparam("after"))
        .order_by(table.c.id)
        .limit(_AT_ONCE)
    )
    after = 0
    while rows := connection.execute(query, {"after": after}).all():
        yield [*rows]
        after = rows[-1].id


MIGRATIONS: Migrations = {2: _by_passages}
"""By version, what changes the tables of the version before it into those of this one."""
