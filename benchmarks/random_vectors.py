"""Random vectors for a session, and how many of the nearest a search looks at.

Random ones are the worst for an index: none is near to another.
"""

from statistics import fmean

import numpy as np
import sqlalchemy as sa

from ebbtide import SqlArchive
from ebbtide.memory.archive.lineage import Lineage, Session, Snapshot
from ebbtide.memory.archive.schema import PASSAGE_BITS, is_sqlite, passage_id, turn_id, vectors
from ebbtide.memory.archive.vectors import MOST, cosines_of
from ebbtide.memory.record import Owner
from ebbtide.memory.search.embeddings import QueryEmbedding

SIZE = 384
"""Dimensions of a vector, as MiniLM's."""
_APART = 1 << PASSAGE_BITS
"""Ids between the first passages of two turns."""
_AT_ONCE = 1_000
_NEAREST = 50

# To make them there is faster than to send them.
_RANDOM = f"""
INSERT INTO {vectors.name} (id, session, model, vector)
SELECT :first + (nth % :turns) * {_APART} + nth / :turns, :session, :model, l2_normalize(
    array_to_vector(ARRAY(SELECT random() - 0.5 + 0 * nth FROM generate_series(1, {SIZE})),
    {SIZE}, false)) FROM generate_series(0, :missing - 1) AS nth
"""  # noqa: S608 (ours)


def fill(archive: SqlArchive, owner: Owner, model: str, number: int) -> None:
    """Give turns of a session random vectors beside their own until it has so many of passages."""
    with archive.database.writing() as connection:
        session = Session.of(connection, owner)
        of_session = vectors.c.session == session.id
        columns = sa.func.count(), sa.func.max(vectors.c.id % _APART)
        known, last = connection.execute(sa.select(*columns).where(of_session)).one()
        missing, first = number - known, passage_id(turn_id(session.id, 1)) + last + 1
        if missing > session.turns * (_APART - last - 1):
            raise SystemExit(f"{number:,} vectors are too many for {session.turns:,} turns")
        same = {"session": session.id, "model": model}
        if not is_sqlite(connection):
            place = {"first": first, "turns": session.turns, "missing": missing}
            connection.execute(sa.text(_RANDOM), {**same, **place})
        for start in range(0, missing, _AT_ONCE) if is_sqlite(connection) else ():
            rows = np.random.default_rng(start).standard_normal((_AT_ONCE, SIZE), np.float32)
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            values = [
                {"id": first + nth % session.turns * _APART + nth // session.turns, **same}
                | {"vector": row.tobytes()}
                for nth, row in zip(range(start, missing), rows, strict=False)
            ]
            connection.execute(sa.insert(vectors), values)
    if archive.database.url.get_backend_name() == "postgresql":  # it does so itself in a while
        engine = sa.create_engine(archive.database.url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(f"VACUUM ANALYZE {vectors.name}")
        engine.dispose()
    print(f"{number:,} vectors written", flush=True)


def nearest_found(archive: SqlArchive, owner: Owner, meanings: list[QueryEmbedding]) -> float:
    """Return the share of the nearest passages in PostgreSQL that are among those found."""
    shares = []
    for meaning in meanings:
        with archive.database.reading() as connection:
            session = Session.of(connection, owner)
            lineage = Lineage(lambda c=connection: c, session, Snapshot((), 0))
            found = cosines_of(lineage, vectors, meaning).best(MOST)
            kind = vectors.c.vector.type
            vector = sa.bindparam("meaning", meaning.vector.tobytes(), kind)
            exact = (
                sa.select(vectors.c.id)
                .where(vectors.c.session == session.id)
                .order_by(vectors.c.vector.op("<=>")(vector))
                .limit(_NEAREST)
            )
            nearest = connection.execute(exact).scalars().all()
        shares.append(len({*nearest}.intersection(found)) / _NEAREST)
    return fmean(shares)
