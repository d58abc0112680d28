"""The vectors of a session: of its passages, and of what its efforts were known by.

PostgreSQL computes cosines itself, by pgvector. On SQLite numpy does: loading an extension such as
sqlite-vec is compiled out of many a Python. Of 40,000 vectors it takes 47 ms of processor time, its
own tables 85, numpy 60.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    ColumnElement,
    Connection,
    Float,
    Table,
    bindparam,
    exists,
    inspect,
    literal_column,
    select,
)
from sqlalchemy.exc import DBAPIError

from ..efforts import Effort
from ..embeddings import Embedder, Meaning, Vector, cosines
from ..errors import ArchiveError
from ..record import Group, Record
from ..search import passages
from .database import Database, upsert
from .index import among, is_sqlite
from .records import left_by, record_of
from .schema import (
    PASSAGE_BITS,
    create_vectors,
    first_passage,
    first_turn,
    heading_vectors,
    turns,
    vectors,
)
from .schema import Vector as VectorType

_log = logging.getLogger("ebbtide.embeddings")

_CHUNK = 500
"""Vectors that are read at once: of 40,000 in 60 ms of processor time, by 2,000 in 85."""

MOST = 1_000
"""The nearest vectors that are found."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vectors of one turn: of its passages, and of how it left efforts.

    These stand under the places of the changes; of several changes of an effort the last counts.
    A turn without a passage has one vector of zeros, so that it is not asked for again.
    """

    model: str
    said: Sequence[Vector]
    headings: Mapping[int, Vector]


def embedded(embedder: Embedder, groups: Sequence[Group | Record]) -> list[Embedded]:
    """Return the vectors of turns, asking the model once; raises `EmbeddingError`."""
    left = [_left(group) for group in groups]
    said = [[one.searched for one in passages(group.messages)] or [""] for group in groups]
    texts = [
        text
        for one, headings in zip(said, left, strict=True)
        for text in (*one, *headings.values())
    ]
    rows, name = iter(embedder.documents(texts)), embedder.name
    return [
        Embedded(name, [next(rows) for _ in one], {place: next(rows) for place in headings})
        for one, headings in zip(said, left, strict=True)
    ]


def put(connection: Connection, session: int, turn: int, one: Embedded) -> None:
    """Keep the vectors of a turn, given its number."""
    first = first_passage(turn)
    headings = [(first + place, row) for place, row in one.headings.items()]
    said = [(first + at, row) for at, row in enumerate(one.said)]
    for table, rows in ((vectors, said), (heading_vectors, headings)):
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
    first = turns.c.id * (1 << PASSAGE_BITS)
    have = exists().where(
        vectors.c.id >= first, vectors.c.id < first + (1 << PASSAGE_BITS), vectors.c.model == model
    )
    query = (
        select(turns.c.id)
        .where(turns.c.id.between(first_turn(session), first_turn(session + 1)))
        .where(~have)
        .order_by(turns.c.id.desc())
        .limit(limit)
    )
    return list(connection.execute(query).scalars())


def near(connection: Connection, table: Table, session: int, meaning: Meaning) -> dict[int, float]:
    """Return the cosines of the vectors of a session with a meaning, by id, of the nearest ones."""
    where = (table.c.session == session, table.c.model == meaning.model)
    if not is_sqlite(connection):
        away = _away(table, meaning)
        rows = connection.execute(select(table.c.id, away).where(*where).order_by(away).limit(MOST))
        return {number: 1.0 - float(far) for number, far in rows if not isnan(far)}
    ids: list[int] = []
    found: list[NDArray[np.float32]] = [np.zeros(0, np.float32)]
    read = connection.execute(select(table.c.id, _bytes(table)).where(*where))
    for part in read.partitions(_CHUNK):
        numbers, held = zip(*part, strict=True)
        ids += numbers
        found.append(_cosines(held, meaning))
    alike = np.concatenate(found)
    best = np.argsort(-alike, kind="stable")[:MOST].tolist()
    return {ids[at]: float(alike[at]) for at in best}


def cosines_of(connection: Connection, meaning: Meaning, ids: Iterable[int]) -> dict[int, float]:
    """Return the cosines of these passages with a meaning, by id, of those with a vector."""
    where = (among(vectors.c.id, ids), vectors.c.model == meaning.model)
    if not is_sqlite(connection):
        rows = connection.execute(select(vectors.c.id, _away(vectors, meaning)).where(*where))
        return {number: 1.0 - float(far) for number, far in rows if not isnan(far)}
    found = connection.execute(select(vectors.c.id, _bytes(vectors)).where(*where)).all()
    alike = _cosines([held for _, held in found], meaning).tolist()
    return {number: cosine for (number, _), cosine in zip(found, alike, strict=True)}


def _bytes(table: Table) -> ColumnElement[Any]:
    """Return the column of vectors as SQLite holds them: to copy each takes most of the time."""
    untyped: ColumnElement[Any] = literal_column(f"{table.name}.vector")
    return untyped


def _cosines(held: Sequence[bytes], meaning: Meaning) -> NDArray[np.float32]:
    rows = np.frombuffer(b"".join(held), np.float32).reshape(len(held), len(meaning.vector))
    return cosines(rows, meaning.vector)


def _away(table: Table, meaning: Meaning) -> ColumnElement[float]:
    """Return the distance of vectors from a meaning, as pgvector computes it."""
    asked = bindparam("asked", meaning.vector.tobytes(), VectorType)
    return table.c.vector.op("<=>", return_type=Float)(asked)


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
