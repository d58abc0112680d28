"""The vectors of a session: of its passages, and of the headings of its efforts.

PostgreSQL computes cosines itself, by pgvector. An index has the signs of the numbers of each
vector, by session: 100,000 take 11 MB where the vectors take 200, so that only vectors with many
signs alike are read. HNSW took 112 MB, minutes to build and 20 ms for each new vector, found less
of the nearest in the same time, and does not tell sessions apart.

On SQLite numpy does, and a session's vectors stay in memory once they were read: to compare 40,000
then takes 3 ms of processor time. To read them each time takes 85, sqlite-vec, which many a Python
cannot load, 47 to 85.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from ..efforts import Effort, left_by
from ..errors import ArchiveError, EmbeddingError, SessionNotFoundError
from ..locks import CACHES
from ..record import Group, Owner, Record
from ..search.embeddings import Embedder, QueryEmbedding, Vector
from ..search.passages import passages
from .database import Database, upsert
from .index import among
from .lineage import CHANGES, Lineage, Session
from .records import record_of
from .schema import (
    PASSAGE_BITS,
    create_vectors,
    has_vectors,
    heading_vectors,
    is_sqlite,
    passage_id,
    sessions,
    turn_id,
    turns,
    vectors,
)

MOST = 400
"""The nearest vectors that are found: eight for each of the turns by meaning that are ranked."""

_EFFORTS = 50
"""Efforts that are near in meaning: ten for each result."""

_HEADINGS = 4 * _EFFORTS
"""The nearest headings whose efforts are looked up."""

_READ = 5
"""Vectors that PostgreSQL reads for each that it finds, those with the most signs alike.

Of 5,000 texts' vectors of MiniLM it finds 98 % of the 50 nearest if it reads 250, 99.6 % if 500. Of
100,000 random ones, none of which is near to another, it finds 60 % if it reads 2,000.
"""

_MORE = 8
"""Times as many vectors that are looked for where most that were found are not seen."""

_DIGITS = 5
"""Digits of a cosine that are the same on all databases: float32 sums are exact to six."""

_TAKES_SIGNS = "SELECT to_regprocedure('binary_quantize(vector)') IS NOT NULL"
"""Tells whether pgvector is 0.7 or newer; an older one compares all vectors of a session."""

_HAS_SIGNS = sa.text(
    "SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass(:name) AND attname = 'signs'"
).bindparams(name=vectors.name)
_SIGNS = """
ALTER TABLE {0} ADD COLUMN signs bit varying GENERATED ALWAYS AS (binary_quantize(vector)) STORED;
ALTER TABLE {0} ALTER COLUMN signs SET STATISTICS 0;
DROP INDEX {0}_session;
CREATE INDEX {0}_session ON {0} (session, model, id) INCLUDE (signs)
"""

_log = logging.getLogger("ebbtide.archive")

# Untyped, as SQLite holds vectors: to copy each would take most of the time.
_AFTER = {
    table.name: sa.select(table.c.id, sa.literal_column(f"{table.name}.vector"))
    .where(table.c.session == sa.bindparam("session"), table.c.model == sa.bindparam("model"))
    .where(table.c.id > sa.bindparam("last"))
    .order_by(table.c.id)
    for table in (vectors, heading_vectors)
}
"""By table, the query for the vectors of a session after one of them."""


@dataclass(frozen=True, slots=True)
class _TurnVectors:
    """The vectors of one turn: of its passages, and of each effort that it changed.

    `headings` has an effort's vector under the place of its last change in the turn. A turn without
    a passage has one vector of zeros, so that `fill` does not compute it again.
    """

    model: str = ""
    passages: Sequence[Vector] = ()
    headings: Mapping[int, Vector] = field(default_factory=dict)

    def put(self, connection: sa.Connection, session: int, turn: int) -> None:
        """Store them, given the numbers of session and turn."""
        by_place = dict(enumerate(self.passages))
        for table, rows in ((vectors, by_place), (heading_vectors, self.headings)):
            same = {"session": session, "model": self.model}
            values = [
                {"id": passage_id(turn, place), "vector": row.tobytes(), **same}
                for place, row in rows.items()
            ]
            if values:
                insert = upsert(connection, table)
                renewed = {name: insert.excluded[name] for name in ("model", "vector")}
                connection.execute(
                    insert.on_conflict_do_update(index_elements=["id"], set_=renewed), values
                )


class Vectors:
    """The vectors of a database, whose tables are made with the first vector."""

    def __init__(self, database: Database) -> None:
        """Take the database; `fill` finds out which sessions have all their vectors."""
        self._database = database
        self._complete: set[tuple[Owner, str]] = set()

    def of_turn(self, owner: Owner, group: Group, embedder: Embedder | None) -> _TurnVectors:
        """Return the vectors of a turn to be stored with it; raises `ArchiveError`.

        Without an embedder, or if it fails, there are none yet, and `fill` computes them.
        """
        if embedder is not None:
            try:
                self._prepare()
                return _embed(embedder, [group])[0]
            except EmbeddingError as error:
                _log.warning("turn %d of %r has no vector: %s", group.turn, owner.thread, error)
        self.look_again(owner)
        return _TurnVectors()

    def look_again(self, owner: Owner) -> None:
        """Let `fill` look for missing vectors: a turn of the session has none, or lost them."""
        self._complete = {(other, model) for other, model in self._complete if other != owner}

    def fill(self, owner: Owner, embedder: Embedder, limit: int) -> int:
        """Compute missing vectors, newest first; see `Archive.embed`."""
        model = embedder.name
        if (owner, model) in self._complete or not self._database.exists():
            return 0
        try:
            with self._database.reading() as connection:
                session = Session.of(connection, owner)
        except SessionNotFoundError:
            return 0
        self._prepare()
        with self._database.reading() as connection:
            numbers = connection.execute(_missing(session.id, model).limit(limit)).scalars().all()
            query = sa.select(turns).where(among(turns.c.id, numbers))
            rows = {row.id: record_of(row) for row in connection.execute(query)} if numbers else {}
        computed = dict(zip(rows, _embed(embedder, [*rows.values()]), strict=True))
        with self._database.writing() as connection:
            own = sa.update(sessions).where(sessions.c.id == session.id)
            # Caches of the session's vectors are read again: new ones may have lower ids.
            connection.execute(own.values(rewritten=sessions.c.rewritten + 1))
            query = sa.select(turns).where(among(turns.c.id, rows)).with_for_update()
            # A turn that lost text while its vectors were computed gets none of them.
            same = [row.id for row in connection.execute(query) if record_of(row) == rows[row.id]]
            for number in same:
                computed[number].put(connection, session.id, number)
        if len(same) == len(numbers) < limit:
            self._complete.add((owner, model))
        return len(same)

    def _prepare(self) -> None:
        """Make the tables of vectors if need be; raises `ArchiveError` without pgvector."""
        with self._database.reading() as connection:
            if has_vectors(connection):
                return
        try:
            with self._database.writing() as connection:
                create_vectors(connection)
                _index_signs(connection)
        except ArchiveError as error:
            if isinstance(error.__cause__, DBAPIError):
                raise ArchiveError(
                    f"{self._database.name!r} cannot hold vectors ({error.__cause__.orig}): "
                    "install the extension pgvector there (CREATE EXTENSION vector), or go without "
                    "embeddings"
                ) from error
            raise


def _index_signs(connection: sa.Connection) -> None:
    """Let PostgreSQL have the signs of vectors in an index if they were not made yet."""
    if is_sqlite(connection) or _has_signs(connection):
        return
    if connection.exec_driver_sql(_TAKES_SIGNS).scalar():
        for table in (vectors, heading_vectors):
            for statement in _SIGNS.format(table.name).split(";"):
                connection.exec_driver_sql(statement)


def _has_signs(connection: sa.Connection) -> bool:
    return connection.execute(_HAS_SIGNS).scalar() is not None


def _missing(session: int, model: str) -> sa.Select[tuple[int]]:
    """Return the query for turns of a session that have no vector of this model, newest first."""
    first = turns.c.id * (1 << PASSAGE_BITS)
    of_turn = vectors.c.id >= first, vectors.c.id < first + (1 << PASSAGE_BITS)
    in_session = turns.c.id.between(turn_id(session), turn_id(session + 1))
    has_none = ~sa.exists().where(*of_turn, vectors.c.model == model)
    return sa.select(turns.c.id).where(in_session, has_none).order_by(turns.c.id.desc())


def _embed(embedder: Embedder, groups: Sequence[Group | Record]) -> list[_TurnVectors]:
    """Return the vectors of turns, asking the model once; raises `EmbeddingError`."""
    passage_texts = [
        [passage.searched for passage in passages(group.messages)] or [""] for group in groups
    ]
    heading_texts = [_heading_texts(left_by(group)) for group in groups]
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


class Cosines(Protocol):
    """The cosines of a query's vector with those of some texts, by their ids."""

    def best(self, number: int, above: float = -2.0) -> dict[int, float]:
        """Return the highest cosines by their ids, the highest first."""

    def of(self, ids: Sequence[int]) -> list[float | None]:
        """Return the cosine of each id, None for one without a vector."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """Cosines that pgvector computes, of what a table has of a session; of zeros it is 0.

    Of a large session only the vectors are read that have most signs as the query's has them, if
    the table `has_signs`.
    """

    lineage: Lineage
    table: sa.Table
    meaning: QueryEmbedding
    has_signs: bool

    def best(self, number: int, above: float = -2.0) -> dict[int, float]:
        """Return the highest ones; see `Cosines`."""
        table, chosen = self.table, self.table.c.session == self.lineage.session.id
        if self.has_signs:
            signs = sa.literal_column("signs").op("<~>")(sa.func.binary_quantize(self._vector))
            alike = (
                sa.select(table.c.id)
                .where(chosen, table.c.model == self.meaning.model)
                .order_by(signs, table.c.id)
                .limit(_READ * number)
            )
            # An array, or PostgreSQL may read the whole table beside it.
            chosen = table.c.id == sa.any_(sa.func.array(alike.scalar_subquery()))
        best = self._computed(chosen, number)
        return {id_: cosine for id_, cosine in best.items() if cosine > above}

    def of(self, ids: Sequence[int]) -> list[float | None]:
        """Return those of ids; see `Cosines`."""
        by_id = self._computed(among(self.table.c.id, ids), len(ids))
        return [by_id.get(number) for number in ids]

    @property
    def _vector(self) -> sa.BindParameter[Any]:
        return sa.bindparam("meaning", self.meaning.vector.tobytes(), self.table.c.vector.type)

    def _computed(self, chosen: sa.ColumnElement[bool], limit: int) -> dict[int, float]:
        table = self.table
        raw = table.c.vector.op("<=>", return_type=sa.Float)(self._vector)
        distance = sa.func.coalesce(sa.func.nullif(raw, sa.literal_column("'NaN'::float8")), 1.0)
        query = (
            sa.select(table.c.id, distance)
            .where(chosen, table.c.model == self.meaning.model)
            .order_by(distance, table.c.id)
            .limit(limit)
        )
        rows = self.lineage.connection.execute(query)
        return {number: round(1.0 - float(far), _DIGITS) for number, far in rows}


def growing(cosines: Cosines, number: int, above: float = -2.0) -> Iterator[dict[int, float]]:
    """Yield the highest cosines, then more of them each time, until there are no more.

    The nearest may all be of turns that the tip does not see.
    """
    best = cosines.best(number, above)
    yield best
    while len(best) == number:
        number *= _MORE
        best = cosines.best(number, above)
        yield best


@dataclass(frozen=True, slots=True)
class Nearness:
    """What is near to a query's meaning: passages, and efforts by name, with their cosines.

    `headings` has the turn of each effort's newest heading.
    """

    meaning: QueryEmbedding
    passages: Cosines
    efforts: Mapping[str, float]
    headings: Mapping[str, int]

    @classmethod
    def of(cls, lineage: Lineage, meaning: QueryEmbedding) -> Self | None:
        """Return passages and efforts of a session near a meaning; None if it has no vectors."""
        if not has_vectors(lineage.connection):
            return None
        passages = cosines_of(lineage, vectors, meaning)
        efforts: dict[str, float] = {}
        newest: dict[str, int] = {}
        for cosines in growing(cosines_of(lineage, heading_vectors, meaning), _HEADINGS):
            if not cosines and not passages.best(1):
                return None
            rows = lineage.visible(CHANGES, ids=[*cosines]) if cosines else []
            rows.sort(key=lambda row: (row.turn, row.id))
            efforts = {row.effort: cosines[row.id] for row in rows}
            newest = {row.effort: row.turn for row in rows}
            if len(rows) == len(cosines) or len(efforts) >= _EFFORTS:
                break
        return cls(meaning, passages, efforts, newest)


def cosines_of(lineage: Lineage, table: sa.Table, meaning: QueryEmbedding) -> Cosines:
    """Return the cosines of a session's vectors with a meaning.

    On SQLite only new vectors are read: ids ascend as turns are committed, and if an older turn
    gets a vector later, the lineage has another edition.
    """
    if not is_sqlite(lineage.connection):
        return _Stored(lineage, table, meaning, _has_signs(lineage.connection))
    from .matrix import Matrix  # noqa: PLC0415 (numpy comes with an extra)

    key = (lineage.edition, table.name, meaning.model)
    with CACHES:
        matrix = lineage.vectors.get(key) or Matrix()
    bound = {"session": lineage.session.id, "model": meaning.model, "last": matrix.last}
    rows = lineage.connection.execute(_AFTER[table.name], bound).all()
    if rows:
        matrix = matrix.with_bytes(*zip(*rows, strict=True))
        with CACHES, suppress(ValueError):  # it may be larger than the cache
            lineage.vectors[key] = matrix
    cosines: Cosines = matrix.cosines(meaning.vector, _DIGITS)
    return cosines
