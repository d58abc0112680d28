"""The vectors of a session: of its passages, and of what its efforts were known by.

PostgreSQL computes cosines itself, by pgvector. On SQLite numpy does, and a session's vectors are
held once they were read: to compare 40,000 then takes 3 ms of processor time. To read them each
time takes 85, sqlite-vec, which many a Python cannot load, 47 to 85.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from ..embeddings import Cosines, Embedder, Matrix, QueryEmbedding, Vector
from ..errors import ArchiveError, EmbeddingError, SessionNotFoundError
from ..passages import passages
from ..ranking import Numbers
from ..record import Group, Owner, Record
from .database import Database, upsert
from .index import Ids, among, is_sqlite
from .lineage import CHANGES, Lineage, Session
from .migrations import create_vectors
from .records import left_by, record_of
from .schema import (
    PASSAGE_BITS,
    first_passage,
    first_turn,
    has_vectors,
    heading_vectors,
    sessions,
    turns,
    vectors,
)

MOST = 400
"""The nearest vectors that are found: eight for each of the turns by meaning that are ranked."""

_HEADINGS = 200
"""The nearest headings whose efforts are looked up: four for each effort that counts."""

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
class _Embedded:
    """The vectors of one turn: of its passages, and of how it left efforts.

    These stand under the places of the changes; of several changes of an effort the last counts.
    A turn without a passage has one vector of zeros, so that it is not asked for again.
    """

    model: str = ""
    passages: Sequence[Vector] = ()
    headings: Mapping[int, Vector] = field(default_factory=dict)

    def put(self, connection: sa.Connection, session: int, turn: int) -> None:
        """Store them, given the numbers of session and turn."""
        spoken = dict(enumerate(self.passages))
        for table, rows in ((vectors, spoken), (heading_vectors, self.headings)):
            listed = [
                {
                    "id": first_passage(turn) + place,
                    "session": session,
                    "model": self.model,
                    "vector": row.tobytes(),
                }
                for place, row in rows.items()
            ]
            if listed:
                adding = upsert(connection, table)
                renewed = {name: adding.excluded[name] for name in ("model", "vector")}
                again = adding.on_conflict_do_update(index_elements=["id"], set_=renewed)
                connection.execute(again, listed)


class Vectors:
    """The vectors of a database, which has tables of them once a turn is to have some."""

    def __init__(self, database: Database) -> None:
        """Know of no session that none is missing."""
        self._database = database
        self._complete: set[tuple[Owner, str]] = set()

    def of_turn(self, owner: Owner, group: Group, embedder: Embedder | None) -> _Embedded:
        """Return the vectors of a turn to be stored with it; raises `ArchiveError`.

        Without an embedder, or if it fails, there are none, and `fill` computes them.
        """
        if embedder is not None:
            try:
                self._prepare()
                return _embedded(embedder, [group])[0]
            except EmbeddingError as error:
                _log.warning("turn %d of %r has no vector: %s", group.turn, owner.thread, error)
        self.look_again(owner)
        return _Embedded()

    def look_again(self, owner: Owner) -> None:
        """Let `fill` look for missing vectors: a turn of the session has none, or lost them."""
        self._complete = {known for known in self._complete if known[0] != owner}

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
        computed = dict(zip(rows, _embedded(embedder, [*rows.values()]), strict=True))
        with self._database.writing() as connection:
            own = sa.update(sessions).where(sessions.c.id == session.id)
            # Who holds vectors of the session reads all again: new ones stand before others.
            connection.execute(own.values(rewritten=sessions.c.rewritten + 1))
            query = sa.select(turns).where(among(turns.c.id, rows)).with_for_update()
            read = connection.execute(query).all()
            same = [row.id for row in read if record_of(row) == rows[row.id]]
            for number in same:
                computed[number].put(connection, session.id, number)
        if len(same) == len(numbers) < limit:  # else some lost text meanwhile
            self._complete.add((owner, model))
        return len(same)

    def _prepare(self) -> None:
        """Make the tables of vectors, which only who embeds needs; raises `ArchiveError`."""
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
    own = turns.c.id.between(first_turn(session), first_turn(session + 1))
    without = ~sa.exists().where(*of_turn, vectors.c.model == model)
    return sa.select(turns.c.id).where(own, without).order_by(turns.c.id.desc())


def _embedded(embedder: Embedder, groups: Sequence[Group | Record]) -> list[_Embedded]:
    """Return the vectors of turns, asking the model once; raises `EmbeddingError`."""
    headings: list[dict[int, str]] = []
    for group in groups:
        efforts = left_by(group)
        last = {effort.id: place for place, effort in enumerate(efforts)}
        changed = ((place, efforts[place]) for place in last.values())
        headings.append(
            {at: " ".join((one.id, one.summary or one.goal, *one.keywords)) for at, one in changed}
        )
    parts = [[part.searched for part in passages(group.messages)] or [""] for group in groups]
    turns_of = [*zip(parts, headings, strict=True)]
    texts = [text for part, heads in turns_of for text in (*part, *heads.values())]
    rows, name = iter(embedder.documents(texts)), embedder.name
    return [
        _Embedded(name, [next(rows) for _ in part], {place: next(rows) for place in heads})
        for part, heads in turns_of
    ]


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
    def of(cls, seen: Lineage, meaning: QueryEmbedding) -> Self | None:
        """Return what of a session is near to a meaning, None if it has no vectors."""
        if not has_vectors(seen.connection):
            return None
        heads, near = _near(seen, heading_vectors, meaning), _near(seen, vectors, meaning)
        if not len(heads.ids) and not len(near.ids):
            return None
        best = heads.best(_HEADINGS)
        cosines = dict(zip(best, heads.of(np.array(best, np.int64)).tolist(), strict=True))
        rows = seen.visible(CHANGES, ids=best) if best else []
        rows.sort(key=lambda row: (row.turn, row.id))
        efforts = {row.effort: cosines[row.id] for row in rows}
        return cls(meaning, near, efforts, {row.effort: row.turn for row in rows})

    def cosines(self, seen: Lineage, wanted: Ids) -> Numbers:
        """Return the cosines of passages, NaN of one without a vector."""
        if is_sqlite(seen.connection):
            return self.passages.of(wanted)
        those = among(vectors.c.id, wanted.tolist())
        return _computed(seen, vectors, self.meaning, those, len(wanted)).of(wanted)


def _near(seen: Lineage, table: sa.Table, meaning: QueryEmbedding) -> Cosines:
    """Return the cosines of the vectors of a session with a meaning, or of the nearest ones.

    On SQLite only new ones are read: ids ascend as they are committed; what older turns get later
    makes another edition.
    """
    if not is_sqlite(seen.connection):
        return _computed(seen, table, meaning, table.c.session == seen.session, MOST)
    key = (seen.edition, table.name, meaning.model)
    matrix = seen.vectors.get(key) or Matrix()
    asked = {"session": seen.session, "model": meaning.model, "last": matrix.last}
    rows = seen.connection.execute(_AFTER[table.name], asked).all()
    if rows:
        ids, read = zip(*rows, strict=True)
        new = np.frombuffer(b"".join(read), np.float32).reshape(len(ids), len(meaning.vector))
        matrix = seen.vectors.put(key, matrix.followed(ids, new))
    return matrix.cosines(meaning.vector)


def _computed(
    seen: Lineage,
    table: sa.Table,
    meaning: QueryEmbedding,
    where: sa.ColumnElement[bool],
    most: int,
) -> Cosines:
    """Return the highest cosines as pgvector computes them; of zeros it is 0, as on SQLite."""
    asked = sa.bindparam("asked", meaning.vector.tobytes(), table.c.vector.type)
    far = table.c.vector.op("<=>", return_type=sa.Float)(asked)
    away = sa.func.coalesce(sa.func.nullif(far, sa.literal_column("'NaN'::float8")), 1.0)
    query = sa.select(table.c.id, away).where(where, table.c.model == meaning.model)
    rows = sorted(seen.connection.execute(query.order_by(away, table.c.id).limit(most)).all())
    values = [1.0 - float(far) for _, far in rows]
    ids = np.array([number for number, _ in rows], np.int64)
    return Cosines.rounded(ids, np.array(values, np.float32))
