"""The vectors of a session: of its turns, and of what its efforts were known by.

PostgreSQL computes cosines itself, by pgvector. On SQLite numpy does: loading an extension such as
sqlite-vec is compiled out of many a Python, and is no faster at what one session has.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np
from sqlalchemy import Connection, Float, Table, bindparam, inspect, literal, select
from sqlalchemy.exc import DBAPIError

from ..efforts import Effort
from ..errors import ArchiveError
from ..meaning import Embedder, Meaning, Vector, Vectors, cosines
from ..record import Group, Record
from ..sayings import sayings
from .database import Database, upsert
from .index import among, is_sqlite
from .records import left_by, record_of
from .schema import Vector as VectorType
from .schema import create_vectors, first_passage, first_turn, heading_vectors, turns, vectors

_log = logging.getLogger("ebbtide.embeddings")

_CHUNK = 2_000


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vectors of one turn: of what was said in it, and of how it left efforts.

    These stand under the places of the changes; of several changes of an effort the last counts.
    """

    model: str
    said: Vector
    headings: Mapping[int, Vector]


def embedded(embedder: Embedder, groups: Sequence[Group | Record]) -> list[Embedded]:
    """Return the vectors of turns, asking the model once; raises `EmbeddingError`."""
    left = [_left(group) for group in groups]
    texts = [
        text
        for group, headings in zip(groups, left, strict=True)
        for text in ("\n".join(sayings(group.messages)), *headings.values())
    ]
    rows, name = iter(embedder.documents(texts)), embedder.name
    return [
        Embedded(name, next(rows), {place: next(rows) for place in headings}) for headings in left
    ]


def put(connection: Connection, session: int, turn: int, one: Embedded) -> None:
    """Keep the vectors of a turn, given its number."""
    first = first_passage(turn)
    headings = [(first + place, row) for place, row in one.headings.items()]
    for table, rows in ((vectors, [(turn, one.said)]), (heading_vectors, headings)):
        listed = [
            {"id": key, "session": session, "model": one.model, "vector": row.tobytes()}
            for key, row in rows
        ]
        if listed:
            adding = upsert(connection, table)
            renewed = {name: adding.excluded[name] for name in ("model", "vector")}
            connection.execute(
                adding.on_conflict_do_update(index_elements=["id"], set_=renewed), listed
            )


def keep(
    connection: Connection,
    session: int,
    read: Mapping[int, Record],
    made: Mapping[int, Embedded],
) -> int:
    """Keep vectors of turns that were read, as far as these are still the same; return how many."""
    query = select(turns).where(among(turns.c.id, read)).with_for_update()
    same = [row.id for row in connection.execute(query) if record_of(row) == read[row.id]]
    for number in same:
        put(connection, session, number, made[number])
    return len(same)


def missing(connection: Connection, session: int, model: str, limit: int) -> list[int]:
    """Return turns of a session that have no vector of this model, the newest first."""
    have = select(vectors.c.id).where(vectors.c.session == session, vectors.c.model == model)
    query = (
        select(turns.c.id)
        .where(turns.c.id.between(first_turn(session), first_turn(session + 1)))
        .where(turns.c.id.not_in(have))
        .order_by(turns.c.id.desc())
        .limit(limit)
    )
    return list(connection.execute(query).scalars())


def near(connection: Connection, table: Table, session: int, meaning: Meaning) -> dict[int, float]:
    """Return the cosine of each vector of a session with a meaning, by id."""
    where = (table.c.session == session, table.c.model == meaning.model)
    if not is_sqlite(connection):
        asked = bindparam("asked", meaning.vector.tobytes(), VectorType)
        cosine = literal(1.0) - table.c.vector.op("<=>", return_type=Float)(asked)
        rows = connection.execute(select(table.c.id, cosine).where(*where))
        return {number: float(found) for number, found in rows if not isnan(found)}
    found: dict[int, float] = {}
    read = connection.execute(select(table.c.id, table.c.vector).where(*where))
    for part in read.partitions(_CHUNK):
        held = np.frombuffer(b"".join(row.vector for row in part), np.float32)
        near_by = cosines(held.reshape(len(part), -1), meaning.vector).tolist()
        found.update(zip((row.id for row in part), near_by, strict=True))
    return found


def vectors_of(connection: Connection, ids: Sequence[int], meaning: Meaning) -> Vectors:
    """Return the vectors of these turns by row; zeros for one without."""
    query = select(vectors.c.id, vectors.c.vector).where(
        among(vectors.c.id, ids), vectors.c.model == meaning.model
    )
    held: Mapping[int, bytes] = {row.id: row.vector for row in connection.execute(query)}
    found = np.zeros((len(ids), len(meaning.vector)), np.float32)
    for at, number in enumerate(ids):
        if number in held:
            found[at] = np.frombuffer(held[number], np.float32)
    return found


def prepare(database: Database) -> None:
    """Make the tables of vectors, which only who embeds needs; raises `ArchiveError`."""
    with database.reading() as connection:
        if there(connection):
            return
    try:
        with database.writing() as connection:
            create_vectors(connection)
    except ArchiveError as error:
        if isinstance(error.__cause__, DBAPIError):
            raise ArchiveError(
                f"{database.name!r} cannot hold vectors ({error.__cause__.orig}): install the "
                "extension pgvector there (CREATE EXTENSION vector), or go without embeddings"
            ) from error
        raise


def there(connection: Connection) -> bool:
    """Tell whether the tables of vectors were made."""
    return inspect(connection).has_table(vectors.name)


def _left(turn: Group | Record) -> dict[int, str]:
    """Return what is embedded of how a turn left efforts, by the places of these changes."""
    efforts = left_by(turn)
    last = {effort.id: place for place, effort in enumerate(efforts)}
    return {place: _known_by(efforts[place]) for place in last.values()}


def _known_by(effort: Effort) -> str:
    return " ".join((effort.id, effort.summary or effort.goal, *effort.keywords))
