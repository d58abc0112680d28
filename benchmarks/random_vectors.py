"""Random vectors for a user, and how many of the nearest a search finds."""

from contextlib import nullcontext
from statistics import fmean

import numpy as np
import sqlalchemy as sa

from ebbtide import SqlArchive
from ebbtide.memory.archive.branches import Branches
from ebbtide.memory.archive.load import Past, SessionRow
from ebbtide.memory.archive.schema import PASSAGE_BITS, is_sqlite, passage_id, turn_id, vectors
from ebbtide.memory.archive.vectors import MOST, cosines
from ebbtide.memory.search.embeddings import QueryEmbedding
from ebbtide.memory.turn import Session

SIZE = 384
"""Dimensions of a vector, as MiniLM's."""
_APART = 1 << PASSAGE_BITS
"""Ids between the first passages of two turns."""
_AT_ONCE = 1_000

# To make them there is faster than to send them.
_RANDOM = f"""
INSERT INTO {vectors.name} (id, owner, model, vector)
SELECT id, owner, :model, l2_normalize(
    array_to_vector(ARRAY(SELECT random() - 0.5 + 0 * id FROM generate_series(1, {SIZE})),
    {SIZE}, false)) FROM unnest(CAST(:ids AS bigint[]), CAST(:owners AS bigint[])) AS new(id, owner)
"""  # noqa: S608 (ours)


def fill(archive: SqlArchive, session: Session, model: str, number: int, users: int) -> None:
    """Write random vectors until there are so many, of as many users, each with the same share.

    Those of the user belong to turns of the session, those of the others to none.
    """
    with archive.database.writing() as connection:
        stored = SessionRow.of(connection, session)
        columns = sa.func.count(), sa.func.max(vectors.c.id % _APART)
        own = sa.select(*columns).where(vectors.c.owner == stored.user)
        known, last = connection.execute(own).one()
        missing, first = number // users - known, passage_id(turn_id(stored.id, 1)) + last + 1
        if missing > stored.turns * (_APART - last - 1):
            raise SystemExit(f"{number:,} vectors are too many for {stored.turns:,} turns")
        turns = stored.turns
        rows = [(first + nth % turns * _APART + nth // turns, 0) for nth in range(missing)]
        rows += [
            (passage_id(turn_id(stored.id + other, 1)) + nth, other)
            for other in range(1, users)
            for nth in range(number // users)
        ]
        for start in range(0, len(rows), _AT_ONCE):
            ids, others = zip(*rows[start : start + _AT_ONCE], strict=True)
            numbers = [stored.user + other for other in others]
            if not is_sqlite(connection):
                made = {"ids": [*ids], "owners": numbers, "model": model}
                connection.execute(sa.text(_RANDOM), made)
                continue
            made = np.random.default_rng(start).standard_normal((len(ids), SIZE), np.float32)
            made /= np.linalg.norm(made, axis=1, keepdims=True)
            values = [
                {"id": number, "owner": user, "model": model, "vector": row.tobytes()}
                for number, user, row in zip(ids, numbers, made, strict=True)
            ]
            connection.execute(sa.insert(vectors), values)
    if archive.database.url.get_backend_name() == "postgresql":  # it does so itself in a while
        engine = sa.create_engine(archive.database.url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(f"VACUUM ANALYZE {vectors.name}")
        engine.dispose()
    print(f"{number:,} vectors written", flush=True)


def nearest_found(archive: SqlArchive, session: Session, meanings: list[QueryEmbedding]) -> float:
    """Return the share of the nearest vectors of a plain scan of all that a search finds."""
    shares = []
    with archive.database.reading() as connection:
        stored = SessionRow.of(connection, session)
        past = Past(lambda: nullcontext(connection), stored)
        name = "vector" if is_sqlite(connection) else "vector_send(vector)"
        query = sa.select(vectors.c.id, sa.literal_column(name))
        ids, data = zip(
            *connection.execute(query.where(vectors.c.owner == stored.user)), strict=True
        )
        kind = np.dtype("<f4" if is_sqlite(connection) else ">f4")  # pgvector has a head of 4 bytes
        rows = np.stack([np.frombuffer(one[-4 * SIZE :], kind) for one in data]).astype("f4")
        for meaning in meanings:
            order = np.argsort(-(rows @ np.asarray(meaning.vector)))[:MOST]
            found = cosines(Branches(past), vectors, meaning, MOST)
            shares.append(len({ids[row] for row in order}.intersection(found)) / MOST)
    return fmean(shares)
