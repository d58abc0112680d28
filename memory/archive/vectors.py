"""The vectors of a user: of the passages of turns, and of the headings of efforts.

A search compares all that it may find, each by its cosine: an index is of all users, finds the
nearest of them, and only then looks whose they are. pgvector compares in PostgreSQL, sqlite-vec in
SQLite; numpy does it where a server has no pgvector, or where Python's SQLite loads no extensions.
"""

import logging
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, Self

import sqlalchemy as sa

from ..efforts import Effort, left_by
from ..errors import EmbeddingError, SessionNotFoundError
from ..search.embeddings import Embedder, QueryEmbedding, Vector
from ..search.passages import passages
from ..turn import Session, StoredTurn
from .branches import Branches, Heading, Place
from .database import Database, upsert
from .index import among
from .load import SessionRow
from .rows import turn_of
from .schema import (
    PASSAGE_BITS,
    PgVector,
    heading_vectors,
    is_sqlite,
    passage_id,
    turn_id,
    turns,
    vectors,
)

MOST = 400
"""The nearest vectors that are found: eight for each of the turns by meaning that are ranked."""

_EFFORTS = 50
"""Efforts that are near in meaning: five for each result."""

_HEADINGS = 4 * _EFFORTS
"""The nearest headings whose efforts are looked up."""

_MORE = 8
"""Times as many vectors that are looked for where most that were found are not seen."""

_DIGITS = 5
"""Digits of a cosine that are the same everywhere: float32 sums are exact to six."""

_AT_ONCE = 500
"""Vectors that numpy compares at once: 1 MB, which caches of processors hold."""

_HAS_PGVECTOR = sa.text(
    "SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass(:name) AND attname = 'vector'"
    " AND atttypid = to_regtype('vector')"
).bindparams(name=vectors.name)

_log = logging.getLogger("ebbtide.archive")


@dataclass(frozen=True, slots=True)
class _TurnVectors:
    """The vectors of one turn: of its passages, and of each effort that it changed.

    `headings` has an effort's vector under the place of its last change in the turn. A turn without
    a passage has one vector of zeros, so that `fill` does not compute it again.
    """

    model: str = ""
    passages: Sequence[Vector] = ()
    headings: Mapping[int, Vector] = field(default_factory=dict)

    def put(self, connection: sa.Connection, user: int, turn: int) -> None:
        is_pgvector = _comparison(connection) == "pgvector"
        vector = sa.bindparam("vector", type_=PgVector() if is_pgvector else sa.LargeBinary())
        by_place = dict(enumerate(self.passages))
        for table, rows in ((vectors, by_place), (heading_vectors, self.headings)):
            same = {"owner": user, "model": self.model}
            values = [
                {"id": passage_id(turn, place), "vector": row.tobytes(), **same}
                for place, row in rows.items()
            ]
            if values:
                insert = upsert(connection, table).values(vector=vector)
                renewed = {name: insert.excluded[name] for name in ("model", "vector")}
                connection.execute(
                    insert.on_conflict_do_update(index_elements=["id"], set_=renewed), values
                )


class Vectors:
    """The vectors of a database: those of a turn, and those that older turns do not have yet."""

    def __init__(self, database: Database) -> None:
        """Take the database; `fill` finds out which sessions have all their vectors."""
        self._database = database
        self._complete: set[tuple[Session, str]] = set()

    def of_turn(
        self, session: Session, turn: StoredTurn, embedder: Embedder | None
    ) -> _TurnVectors:
        """Return the vectors of a turn to be stored with it; raises `ArchiveError`.

        Without an embedder, or if it fails, there are none yet, and `fill` computes them.
        """
        if embedder is not None:
            try:
                return _embed(embedder, [turn])[0]
            except EmbeddingError as error:
                _log.warning("turn %d of %r has no vector: %s", turn.number, session.thread, error)
        self.look_again(session)
        return _TurnVectors()

    def look_again(self, session: Session) -> None:
        """Let `fill` look for missing vectors: a turn of the session has none, or lost them."""
        self._complete = {(other, model) for other, model in self._complete if other != session}

    def fill(self, session: Session, embedder: Embedder, limit: int) -> int:
        """Compute missing vectors, newest first; see `Archive.embed`."""
        model = embedder.name
        if (session, model) in self._complete or not self._database.exists():
            return 0
        try:
            with self._database.reading() as connection:
                stored = SessionRow.of(connection, session)
                first = turns.c.id * (1 << PASSAGE_BITS)
                of_turn = vectors.c.id >= first, vectors.c.id < first + (1 << PASSAGE_BITS)
                in_session = turns.c.id.between(turn_id(stored.id), turn_id(stored.id + 1))
                has_none = ~sa.exists().where(*of_turn, vectors.c.model == model)
                missing = sa.select(turns.c.id).where(in_session, has_none)
                missing = missing.order_by(turns.c.id.desc()).limit(limit)
                numbers = connection.execute(missing).scalars().all()
                query = sa.select(turns).where(among(turns.c.id, numbers)).order_by(turns.c.id)
                rows = {row.id: row for row in connection.execute(query)} if numbers else {}
                read = [turn_of(row) for row in rows.values()]
        except SessionNotFoundError:
            return 0
        same: list[int] = []
        if rows:
            computed = dict(zip(rows, _embed(embedder, read), strict=True))
            with self._database.writing() as connection:
                query = sa.select(turns).where(among(turns.c.id, rows)).with_for_update()
                # A turn that lost text while its vectors were computed gets none of them.
                same = [row.id for row in connection.execute(query) if row == rows[row.id]]
                for number in same:
                    computed[number].put(connection, stored.user, number)
        if len(same) == len(numbers) < limit:
            self._complete.add((session, model))
        return len(same)


def _embed(embedder: Embedder, turns: Sequence[StoredTurn]) -> list[_TurnVectors]:
    """Return the vectors of turns, asking the model once; raises `EmbeddingError`."""
    passage_texts = [
        [passage.searched for passage in passages(turn.messages)] or [""] for turn in turns
    ]
    heading_texts = [_heading_texts(left_by(turn)) for turn in turns]
    by_turn = [*zip(passage_texts, heading_texts, strict=True)]
    texts = [text for parts, headings in by_turn for text in (*parts, *headings.values())]
    rows, name = iter(embedder.documents(texts)), embedder.name
    return [
        _TurnVectors(name, [next(rows) for _ in parts], {place: next(rows) for place in headings})
        for parts, headings in by_turn
    ]


def _heading_texts(efforts: Sequence[Effort]) -> dict[int, str]:
    """Return what is embedded of efforts, each under the place of its last change.

    >>> _heading_texts([Effort("a", "open", "Mend."), Effort("a", "concluded", summary="Mended.")])
    {1: 'a Mended.'}
    """
    texts = [" ".join((e.id, e.summary or e.goal, *e.keywords)) for e in efforts]
    last = {effort.id: place for place, effort in enumerate(efforts)}
    return {place: texts[place] for place in last.values()}


@dataclass(frozen=True, slots=True)
class Nearness:
    """The efforts near to a query's meaning by branch and name, with their cosines.

    `headings` has the newest heading of each effort.
    """

    meaning: QueryEmbedding
    efforts: Mapping[Place, float]
    headings: Mapping[Place, Heading]

    @classmethod
    def of(cls, branches: Branches, meaning: QueryEmbedding) -> Self | None:
        """Return the efforts near a meaning; None if there are no vectors."""
        any_vector = sa.select(vectors.c.id).where(*_searched(branches, vectors, meaning)).limit(1)
        if not branches.past.rows(any_vector):
            return None
        efforts: dict[Place, float] = {}
        newest: dict[Place, Heading] = {}
        for near in nearest(branches, heading_vectors, meaning, _HEADINGS):
            rows = branches.headings([*near]) if near else []
            rows.sort(key=lambda of: (of[1].turn, of[1].id))
            efforts = {place: near[row.id] for place, row in rows}
            newest = {place: (row.turn, row.at, row.id) for place, row in rows}
            if len(rows) == len(near) or len(efforts) >= _EFFORTS:
                break
        return cls(meaning, efforts, newest)


def nearest(
    branches: Branches, table: sa.Table, meaning: QueryEmbedding, number: int
) -> Iterator[dict[int, float]]:
    """Yield the highest cosines by their ids, then more of them each time, until there are no more.

    The nearest may all be of turns that the tip does not see.
    """
    yield (best := cosines(branches, table, meaning, number))
    while len(best) == number:
        number *= _MORE
        yield (best := cosines(branches, table, meaning, number))


def cosines(
    branches: Branches,
    table: sa.Table,
    meaning: QueryEmbedding,
    number: int,
    ids: Sequence[int] | None = None,
) -> dict[int, float]:
    """Return the highest cosines of the vectors of branches, or of these ids, the highest first."""
    searched = _searched(branches, table, meaning, ids)
    with branches.past.connect() as connection:
        comparison = _comparison(connection)
        if comparison == "numpy":
            # As the database holds it: SQLAlchemy's copies would take longer than comparing.
            query = sa.select(table.c.id, sa.literal_column(f"{table.name}.vector")).where(
                *searched
            )
            rows = connection.execute(query.execution_options(yield_per=_AT_ONCE))
            best = _compared(rows, meaning.vector, number)
        else:
            kind = PgVector() if comparison == "pgvector" else sa.LargeBinary()
            asked = sa.bindparam("meaning", meaning.vector.tobytes(), kind)
            # Negative cosines, as pgvector has them; sqlite-vec has none of zeros.
            far: sa.ColumnElement[float] = (
                table.c.vector.op("<#>", return_type=sa.Float())(asked)
                if comparison == "pgvector"
                else sa.func.coalesce(sa.func.vec_distance_cosine(table.c.vector, asked), 1.0) - 1.0
            )
            below = far.label("below")
            query = sa.select(table.c.id, below).where(*searched).order_by(below, table.c.id)
            best = {at: -float(value) for at, value in connection.execute(query.limit(number))}
    return {at: round(cosine, _DIGITS) for at, cosine in best.items()}


def _searched(
    branches: Branches, table: sa.Table, meaning: QueryEmbedding, ids: Sequence[int] | None = None
) -> list[sa.ColumnElement[bool]]:
    """Return the conditions for vectors of a user and a model, in branches or of these ids."""
    ranges = (table.c.id.between(*ends) for ends in (*branches.past.ranges, *branches.others))
    chosen = sa.or_(*ranges) if ids is None else among(table.c.id, ids)
    return [table.c.owner == branches.user, table.c.model == meaning.model, chosen]


def _compared(rows: sa.Result[Any], vector: Vector, number: int) -> dict[int, float]:
    """Return the ids of the vectors nearest to one, with their cosines, reading them in parts."""
    import numpy as np  # noqa: PLC0415 (numpy comes with an extra)

    ids, values = np.zeros(0, np.int64), np.zeros(0, np.float32)
    for part in rows.partitions():
        read, data = zip(*part, strict=True)
        parts = np.frombuffer(b"".join(data), np.float32).reshape(len(data), -1)
        # Not by `@`: the threads of BLAS wait for each other when other processes use the cores.
        values = np.concatenate([values, np.einsum("ij,j->i", parts, np.asarray(vector))])
        ids = np.concatenate([ids, np.array(read, np.int64)])
        best = np.lexsort((ids, -values))[:number]
        ids, values = ids[best], values[best]
    return dict(zip(ids.tolist(), values.tolist(), strict=True))


def _comparison(connection: sa.Connection) -> Literal["pgvector", "sqlite-vec", "numpy"]:
    """Return what compares vectors here, found out once for each connection."""
    if "ebbtide_comparison" not in connection.info:
        found = "numpy"
        if not is_sqlite(connection):
            found = "pgvector" if connection.scalar(_HAS_PGVECTOR) else found
        elif connection.get_execution_options()["ebbtide_extensions"]:
            driver: Any = connection.connection.driver_connection
            # Some Pythons cannot load extensions, some have them switched off.
            with suppress(AttributeError, ImportError, sqlite3.Error):
                driver.enable_load_extension(True)  # noqa: FBT003
                import_module("sqlite_vec").load(driver)
                driver.enable_load_extension(False)  # noqa: FBT003
                found = "sqlite-vec"
        connection.info["ebbtide_comparison"] = found
    comparison: Literal["pgvector", "sqlite-vec", "numpy"] = connection.info["ebbtide_comparison"]
    return comparison
