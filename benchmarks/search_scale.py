"""Search at scale: time to search, open and append, and the size of the archive.

    python benchmarks/search_scale.py --out results 1000 10000
    python benchmarks/search_scale.py --out results --semantic 1000 10000
    python benchmarks/search_scale.py --out results --semantic --url postgresql+psycopg://... 10000
    python benchmarks/search_scale.py --out results --vectors 1000000 1000

Made-up efforts have two turns each. Half of their words are from a vocabulary of 50,000 with Zipf's
frequencies. A query is five words of one turn; "found first" is how often its effort comes first.
CPU is the CPU time of a search, which other programs hardly influence.

With --semantic each passage and each heading has a random vector of 384 numbers. The first search
reads the vectors. The time to embed a query is not included. With --url the archive is in that
database, which must be empty, and the CPU time does not include the server's.

With --vectors the session has so many vectors in all: beside those of its passages random ones, of
passages that no turn has.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np
import sqlalchemy as sa
from langchain_core.embeddings import DeterministicFakeEmbedding
from made_up import group, text
from report import argument_parser, percent, spread, stored_bytes, timed, write

from ebbtide import SqlArchive
from ebbtide.memory.archive.lineage import Session
from ebbtide.memory.archive.schema import passage_id, turn_id, vectors
from ebbtide.memory.record import Owner, Tip
from ebbtide.memory.search.embeddings import Embedder
from ebbtide.memory.settings import Settings

_QUERIES = 200
"""Queries that are timed, so that ten are above the 95th percentile."""
_APPENDS = 200
"""Turns that are appended to a full archive, and timed."""
_OFTEN = 1_000
"""Turns between two lines that say how far it is."""
_DIFFERENT = 5_000
"""Random vectors that differ."""
_NUMBERS = 384
"""Dimensions of a vector, as MiniLM's."""


@dataclass(frozen=True, slots=True)
class Built:
    """A written session: its tip, queries with their efforts, times of appending.

    `raw` is the length of all its texts.
    """

    tip: Tip
    queries: Sequence[tuple[str, str]]
    appends: Sequence[float]
    raw: int


def built(archive: SqlArchive, owner: Owner, efforts: int) -> Built:
    """Write efforts of two turns each, then measure the time of single turns."""
    chance, tip, queries, raw = random.Random(1), Tip(), [], 0
    every = max(1, efforts // _QUERIES)
    for number in range(efforts):
        name = f"effort-{number}"
        texts = [(text(chance, 34), text(chance, 100)) for _ in range(2)]
        raw += sum(len(message) for pair in texts for message in pair)
        summary = " ".join(texts[1][1].split()[:30])
        event = {"type": "concluded", "effort": name, "summary": summary}
        tip = archive.commit(owner, tip, group(tip.turn + 1, texts[0], name)).tip
        tip = archive.commit(owner, tip, group(tip.turn + 1, texts[1], name, [event])).tip
        if number % every == 0:
            words = " ".join(texts[0]).split()[::2]
            queries.append((name, " ".join(chance.sample(words, 5))))
        if number % _OFTEN == _OFTEN - 1:
            print(f"{number + 1:,} of {efforts:,} efforts written", flush=True)
    appends = []
    for _ in range(_APPENDS):
        turn = group(tip.turn + 1, (text(chance, 34), text(chance, 100)), "effort-0")
        milliseconds, record = timed(lambda tip=tip, turn=turn: archive.commit(owner, tip, turn))
        tip, appends = record.tip, [*appends, milliseconds]
    return Built(tip, queries, appends, raw)


def filled(archive: SqlArchive, owner: Owner, model: str, number: int) -> None:
    """Add random vectors to a session until it has so many; the database copies some thousands."""
    chance, table = np.random.default_rng(1), vectors
    with archive.database.writing() as connection:
        session = Session.of(connection, owner)
        first = passage_id(turn_id(session.id, session.turns + 1))
        known = connection.execute(
            sa.select(sa.func.count()).where(table.c.session == session.id)
        ).scalar_one()
        rows = chance.standard_normal((min(_DIFFERENT, number - known), _NUMBERS), np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        values = [
            {"id": first + at, "session": session.id, "model": model, "vector": row.tobytes()}
            for at, row in enumerate(rows)
        ]
        connection.execute(sa.insert(table), values)
        for start in range(len(rows), number - known, len(rows)):
            some = table.c.id.between(first, first + min(len(rows), number - known - start) - 1)
            copies = sa.select(table.c.id + start, table.c.session, table.c.model, table.c.vector)
            names = ["id", "session", "model", "vector"]
            connection.execute(sa.insert(table).from_select(names, copies.where(some)))
    print(f"{number:,} vectors written", flush=True)


def measured(
    place: Path | str, efforts: int, embedder: Embedder | None, number: int = 0
) -> dict[str, Any]:
    """Return the row of one size."""
    owner = Owner("scale", str(efforts))
    with SqlArchive(place, durable=False) as archive:
        session = built(archive, owner, efforts)
        while embedder and archive.embed(owner, embedder, _OFTEN):
            pass
        if embedder and number:
            filled(archive, owner, embedder.name, number)
    with SqlArchive(place, durable=False) as archive:
        opening, _ = timed(lambda: archive.newest(owner))
        times, cpu_times, first = [], [], []
        for name, query in session.queries:
            meaning = embedder.meaning(query, Settings().semantic_floor) if embedder else None
            start = process_time()
            milliseconds, results = timed(
                lambda query=query, meaning=meaning: archive.at(owner, session.tip).search(
                    query, 5, meaning
                )
            )
            cpu_times.append((process_time() - start) * 1_000)
            times.append(milliseconds)
            first.append(bool(results) and results[0].effort == name)
    row = {"efforts": efforts, **({"vectors": number} if number else {})}
    row |= {**spread("search", times), **spread("CPU", cpu_times)}
    row |= {"first search ms": round(times[0], 1), "open ms": round(opening, 1)}
    row |= spread("append", session.appends)
    if isinstance(place, Path):
        stored = stored_bytes(place, "**/*.sqlite*")
        row |= {"archive / raw": round(stored / session.raw, 2)}
    return {**row, "found first %": percent(first)}


def main() -> None:
    """Measure each size of the command line."""
    parser = argument_parser(__doc__, url="", vectors=0)
    parser.add_argument("--semantic", action="store_true")
    parser.add_argument("efforts", type=int, nargs="+")
    options = parser.parse_args()
    rows = []
    is_semantic = options.semantic or options.vectors
    embedder = Embedder(DeterministicFakeEmbedding(size=_NUMBERS)) if is_semantic else None
    for efforts in options.efforts:
        with TemporaryDirectory() as folder:
            place = options.url or Path(folder)
            rows.append(measured(place, efforts, embedder, options.vectors))
    name = "search_scale_semantic" if options.semantic else "search_scale"
    name += "_vectors" if options.vectors else ""
    name += "_postgresql" if options.url else ""
    write(options.out, name, "Search at scale", rows)


if __name__ == "__main__":
    main()
