"""The vectors of a session: of its passages, and of what its efforts were known by.

PostgreSQL computes cosines itself, by pgvector. On SQLite numpy does, and a session's vectors are
held once they were read: to compare 40,000 then takes 3 ms of processor time. To read them each
time takes 85, sqlite-vec, which many a Python cannot load, 47 to 85.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    ColumnElement,
    Connection,
    Float,
    Table,
    bindparam,
    exists,
    func,
    inspect,
    literal_column,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError

from ..efforts import Effort
from ..embeddings import Cosines, Embedder, Matrix, QueryEmbedding, Vector
from ..errors import ArchiveError
from ..passages import passages
from ..ranking import Numbers
from ..record import Group, Record
from .database import Database, upsert
from .index import among, is_sqlite
from .lineage import Lineage
from .migrations import create_vectors
from .records import left_by, record_of
from .schema import (
    PASSAGE_BITS,
    first_passage,
    first_turn,
    heading_vectors,
    sessions,
    turns,
    vectors,
)

MOST = 400
"""The nearest vectors that are found: eight for each of the turns by meaning that are ranked."""

Ids: TypeAlias = NDArray[np.int64]

# Untyped, as SQLite holds vectors: to copy each would take most of the time.
_AFTER = {
    table.name: select(table.c.id, literal_column(f"{table.name}.vector"))
    .where(table.c.session == bindparam("session"), table.c.model == bindparam("model"))
    .where(table.c.id > bindparam("last"))
    .order_by(table.c.id)
    for table in (vectors, heading_vectors)
}
"""By table, the query for the vectors of a session after one of them."""


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


def put(connection: Connection, session: int, turn: int, computed: Embedded) -> None:
    """Keep the vectors of a turn, given its number."""
    first = first_passage(turn)
    headings = [(first + place, row) for place, row in computed.headings.items()]
    said = [(first + at, row) for at, row in enumerate(computed.said)]
    for table, rows in ((vectors, said), (heading_vectors, headings)):
        listed = [
            {"id": key, "session": session, "model": computed.model, "vector": row.tobytes()}
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
    """Keep vectors of turns that were read, as far as these are still the same; return how many.

    Who holds vectors of the session reads them again: what is new is looked for after the last one.
    """
    own = update(sessions).where(sessions.c.id == session)
    connection.execute(own.values(rewritten=sessions.c.rewritten + 1))
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


def near(seen: Lineage, table: Table, meaning: QueryEmbedding) -> Cosines:
    """Return the cosines of the vectors of a session with a meaning, or of the nearest ones."""
    if is_sqlite(seen.connection):
        return _matrix(seen, table, meaning).cosines(meaning.vector)
    return _computed(seen, table, meaning, table.c.session == seen.session, MOST)


def cosines_of(seen: Lineage, meaning: QueryEmbedding, known: Cosines, wanted: Ids) -> Numbers:
    """Return the cosines of passages, beyond those `known`, NaN of one without a vector."""
    if not is_sqlite(seen.connection):
        those = among(vectors.c.id, wanted.tolist())
        known = _computed(seen, vectors, meaning, those, len(wanted))
    return known.of(wanted)


def _computed(
    seen: Lineage, table: Table, meaning: QueryEmbedding, where: ColumnElement[bool], most: int
) -> Cosines:
    """Return the highest cosines as pgvector computes them; of zeros it is 0, as on SQLite."""
    asked = bindparam("asked", meaning.vector.tobytes(), table.c.vector.type)
    far = table.c.vector.op("<=>", return_type=Float)(asked)
    away = func.coalesce(func.nullif(far, literal_column("'NaN'::float8")), 1.0)
    query = select(table.c.id, away).where(where, table.c.model == meaning.model)
    rows = sorted(seen.connection.execute(query.order_by(away, table.c.id).limit(most)).all())
    nearest = [(number, 1.0 - float(far)) for number, far in rows]
    ids, values = zip(*nearest, strict=True) if nearest else ((), ())
    return Cosines.rounded(np.array(ids, np.int64), np.array(values, np.float32))


def _matrix(seen: Lineage, table: Table, meaning: QueryEmbedding) -> Matrix:
    """Return the vectors of a session, of which only new ones are read.

    Ids ascend as they are committed; what older turns get later makes another edition.
    """
    key = (seen.edition, table.name, meaning.model)
    matrix = seen.vectors.get(key) or Matrix()
    asked = {"session": seen.session, "model": meaning.model, "last": matrix.last}
    rows = seen.connection.execute(_AFTER[table.name], asked).all()
    if not rows:
        return matrix
    ids, read = zip(*rows, strict=True)
    new = np.frombuffer(b"".join(read), np.float32).reshape(len(ids), len(meaning.vector))
    return seen.vectors.put(key, matrix.followed(ids, new))


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
