"""The vectors of a session: of its passages, and of the headings of its efforts.

PostgreSQL computes cosines itself, by pgvector. On SQLite numpy does, and a session's vectors stay
in memory once they were read: to compare 40,000 then takes 3 ms of processor time. To read them
each time takes 85, sqlite-vec, which many a Python cannot load, 47 to 85.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol, Self

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from ..efforts import Effort, left_by
from ..errors import ArchiveError, EmbeddingError, SessionNotFoundError
from ..record import Group, Owner, Record
from ..search.embeddings import Embedder, QueryEmbedding, Vector
from ..search.passages import passages
from .database import Database, upsert
from .index import among
from .lineage import CACHING, CHANGES, Lineage, Session
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

_HEADINGS = 200
"""The nearest headings whose efforts are looked up: four for each effort that counts."""

_DIGITS = 5
"""Digits of a cosine that are the same on all databases: float32 sums are exact to six."""

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
        except ArchiveError as error:
            if isinstance(error.__cause__, DBAPIError):
                raise ArchiveError(
                    f"{self._database.name!r} cannot hold vectors ({error.__cause__.orig}): "
                    "install the extension pgvector there (CREATE EXTENSION vector), or go without "
                    "embeddings"
                ) from error
            raise


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
class _Computed:
    """Cosines that the database computed."""

    by_id: Mapping[int, float]

    def best(self, number: int, above: float = -2.0) -> dict[int, float]:
        """Return the highest ones; see `Cosines`."""
        over = [one for one in self.by_id.items() if one[1] > above]
        return dict(sorted(over, key=lambda one: (-one[1], one[0]))[:number])

    def of(self, ids: Sequence[int]) -> list[float | None]:
        """Return those of ids; see `Cosines`."""
        return [self.by_id.get(number) for number in ids]


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
        """Return what of a session is near to a meaning, None if it has no vectors."""
        if not has_vectors(lineage.connection):
            return None
        cosines = _nearest(lineage, heading_vectors, meaning).best(_HEADINGS)
        passages = _nearest(lineage, vectors, meaning)
        if not cosines and not passages.best(1):
            return None
        rows = lineage.visible(CHANGES, ids=[*cosines]) if cosines else []
        rows.sort(key=lambda row: (row.turn, row.id))
        efforts = {row.effort: cosines[row.id] for row in rows}
        return cls(meaning, passages, efforts, {row.effort: row.turn for row in rows})

    def cosines(self, lineage: Lineage, ids: Sequence[int]) -> list[float | None]:
        """Return the cosines of passages, None of one without a vector."""
        if is_sqlite(lineage.connection):
            return self.passages.of(ids)
        condition = among(vectors.c.id, ids)
        return _computed(lineage, vectors, self.meaning, condition, len(ids)).of(ids)


def _nearest(lineage: Lineage, table: sa.Table, meaning: QueryEmbedding) -> Cosines:
    """Return the cosines of a session's vectors with a meaning; on PostgreSQL the highest alone.

    On SQLite only new vectors are read: ids ascend as turns are committed, and if an older turn
    gets a vector later, the lineage has another edition.
    """
    if not is_sqlite(lineage.connection):
        return _computed(lineage, table, meaning, table.c.session == lineage.session.id, MOST)
    from .matrix import Matrix  # noqa: PLC0415 (numpy comes with an extra)

    key = (lineage.edition, table.name, meaning.model)
    with CACHING:
        matrix = lineage.vectors.get(key) or Matrix()
    bound = {"session": lineage.session.id, "model": meaning.model, "last": matrix.last}
    rows = lineage.connection.execute(_AFTER[table.name], bound).all()
    if rows:
        matrix = matrix.with_bytes(*zip(*rows, strict=True))
        with CACHING, suppress(ValueError):  # it may be larger than the cache
            lineage.vectors[key] = matrix
    cosines: Cosines = matrix.cosines(meaning.vector, _DIGITS)
    return cosines


def _computed(
    lineage: Lineage,
    table: sa.Table,
    meaning: QueryEmbedding,
    condition: sa.ColumnElement[bool],
    limit: int,
) -> _Computed:
    """Return the highest cosines as pgvector computes them; of zeros it is 0, as on SQLite."""
    vector = sa.bindparam("meaning", meaning.vector.tobytes(), table.c.vector.type)
    raw = table.c.vector.op("<=>", return_type=sa.Float)(vector)
    distance = sa.func.coalesce(sa.func.nullif(raw, sa.literal_column("'NaN'::float8")), 1.0)
    query = (
        sa.select(table.c.id, distance)
        .where(condition, table.c.model == meaning.model)
        .order_by(distance, table.c.id)
        .limit(limit)
    )
    rows = lineage.connection.execute(query)
    return _Computed({number: round(1.0 - float(far), _DIGITS) for number, far in rows})
