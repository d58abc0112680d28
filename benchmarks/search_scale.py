"""Search at scale: time to search, open and append, and the size of the archive.

    python benchmarks/search_scale.py --out results 1000 10000
    python benchmarks/search_scale.py --out results --semantic 1000 10000
    python benchmarks/search_scale.py --out results --semantic --url postgresql+psycopg://... 10000
    python benchmarks/search_scale.py --out results 500 --vectors 100000
    python benchmarks/search_scale.py --out results 500 --vectors 1000000 --users 1000

Made-up efforts have two turns each. Half of their words are from a vocabulary of 50,000 with Zipf's
frequencies. A query is five words of one turn; "found first" is how often its effort comes first.
CPU is the CPU time of a search, which other programs hardly influence, and tool CPU that of the
tool `search_efforts` with the same query, by words alone. "archive / raw" is the size
of the database beside that of the texts, "index / raw" the size of the index of words.

With --semantic each passage and each heading has a random vector of 384 numbers. The time to embed
a query is not included. With --url the archive is in that database, which must be empty or have the
session from an earlier run; "server CPU" is the time of the process there that searches, if it runs
on this machine.

With --vectors there are so many random vectors of passages in all, of --users, each with the same
share. "Nearest found" is how many of the 400 nearest a search finds, in percent, of those that a
plain scan finds. SQLite compares by sqlite-vec where Python can load it, else by numpy.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from langchain_core.embeddings import DeterministicFakeEmbedding
from made_up import exchange, text
from random_vectors import SIZE, fill, nearest_found
from recall import ArchivedTalk
from report import argument_parser, percent, spread, stored_bytes, timed, write

from ebbtide import SqlArchive
from ebbtide.memory.archive.branches import Branches
from ebbtide.memory.archive.schema import headed, said
from ebbtide.memory.archive.search import find
from ebbtide.memory.search.embeddings import Embedder
from ebbtide.memory.settings import Settings
from ebbtide.memory.turn import Session, Tip

_QUERIES = 200
"""Queries that are timed, so that ten are above the 95th percentile."""
_APPENDS = 200
"""Turns that are appended to a full archive, and timed."""
_OFTEN = 1_000
"""Turns between two lines that say how far it is."""
_EXACT = 10
"""Queries whose nearest passages are looked for by a plain scan, too."""


@dataclass(frozen=True, slots=True)
class Built:
    """A written session: its tip, queries with their efforts, times of appending.

    `raw` is the length of all its texts.
    """

    tip: Tip
    queries: Sequence[tuple[str, str]]
    appends: Sequence[float]
    raw: int


def built(archive: SqlArchive, session: Session, efforts: int) -> Built:
    """Write efforts of two turns each if there are none, then measure the time of single turns."""
    chance, tip, queries, raw = random.Random(1), Tip(), [], 0
    written = archive.load(session).tip
    every = max(1, efforts // _QUERIES)
    for number in range(efforts):
        name = f"effort-{number}"
        texts = [(text(chance, 34), text(chance, 100)) for _ in range(2)]
        raw += sum(len(message) for pair in texts for message in pair)
        summary = " ".join(texts[1][1].split()[:30])
        event = {"type": "concluded", "effort": name, "summary": summary}
        if written is None:
            tip = archive.commit(session, tip, exchange(tip.turn + 1, texts[0], name)).tip
            tip = archive.commit(session, tip, exchange(tip.turn + 1, texts[1], name, [event])).tip
        if number % every == 0:
            words = " ".join(texts[0]).split()[::2]
            queries.append((name, " ".join(chance.sample(words, 5))))
        if number % _OFTEN == _OFTEN - 1:
            print(f"{number + 1:,} of {efforts:,} efforts written", flush=True)
    if written is not None:
        return Built(written, queries, [], raw)
    appends = []
    for _ in range(_APPENDS):
        turn = exchange(tip.turn + 1, (text(chance, 34), text(chance, 100)), "effort-0")
        milliseconds, stored = timed(lambda tip=tip, turn=turn: archive.commit(session, tip, turn))
        tip, appends = stored.tip, [*appends, milliseconds]
    return Built(tip, queries, appends, raw)


def searched(
    place: Path | str, session: Session, written: Built, embedder: Embedder | None
) -> dict[str, Any]:
    """Return what a reopened archive takes to search a session."""
    with SqlArchive(place, durable=False) as archive:
        opening, _ = timed(lambda: archive.load(session).tip)
        talk = ArchivedTalk(archive, session, written.tip)
        times, cpu_times, tool_times, server_times, first = [], [], [], [], []
        for name, query in written.queries:
            meaning = embedder.meaning(query, Settings().semantic_floor) if embedder else None
            start, server_start = process_time(), server_time(archive)
            milliseconds, results = timed(
                lambda query=query, meaning=meaning: find(
                    Branches(archive.load(session, written.tip)), query, 5, meaning
                )
            )
            cpu_times.append((process_time() - start) * 1_000)
            server_times.append(server_time(archive) - server_start)
            start = process_time()
            talk.asked(query)
            tool_times.append((process_time() - start) * 1_000)
            times.append(milliseconds)
            first.append(bool(results) and results[0].effort == name)
    row = {**spread("search", times), **spread("CPU", cpu_times), **spread("tool CPU", tool_times)}
    row |= spread("server CPU", server_times) if any(server_times) else {}
    row |= {"first search ms": round(times[0], 1), "open ms": round(opening, 1)}
    return {**row, "found first %": percent(first)}


def server_time(archive: SqlArchive) -> float:
    """Return the CPU time in milliseconds of the process that serves the archive, 0 on SQLite."""
    if archive.database.url.get_backend_name() != "postgresql":
        return 0.0
    with archive.database.reading() as connection:
        process = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
    status = Path(f"/proc/{process}/schedstat")
    return int(status.read_text().split()[0]) / 1e6 if status.exists() else 0.0


def measured(
    place: Path | str,
    efforts: int,
    embedder: Embedder | None,
    numbers: Sequence[int] = (),
    users: int = 1,
) -> Iterator[dict[str, Any]]:
    """Yield the row of one size, or one for each of these numbers of vectors."""
    session = Session("scale", str(efforts))
    with SqlArchive(place, durable=False) as archive:
        written = built(archive, session, efforts)
        while embedder and archive.embed(session, embedder, _OFTEN):
            pass
    row = {"efforts": efforts}
    row |= spread("append", written.appends) if written.appends else {}
    for number in numbers:
        with SqlArchive(place, durable=False) as archive:
            fill(archive, session, embedder.name, number, users)
        found = searched(place, session, written, embedder)
        with SqlArchive(place, durable=False) as archive:
            queries = [query for _, query in written.queries[:_EXACT]]
            meanings = [embedder.meaning(one, Settings().semantic_floor) for one in queries]
            nearest = nearest_found(archive, session, meanings)
        found["nearest found %"] = round(100 * nearest, 1)
        yield {**row, "vectors": number, "users": users, **found}
    if not numbers:
        row |= searched(place, session, written, embedder)
        if isinstance(place, Path):
            stored = stored_bytes(place, "**/*.sqlite*")
            row |= {"archive / raw": round(stored / written.raw, 2)}
            row |= {"index / raw": round(index_bytes(place) / written.raw, 2)}
        yield row


def index_bytes(place: Path) -> int:
    """Return the bytes of the index of words that SQLite has of passages and headings."""
    sizes = (f"(SELECT sum(length(block)) FROM {table.name}_data)" for table in (said, headed))  # noqa: S608 (ours)
    with SqlArchive(place, durable=False) as archive, archive.database.reading() as connection:
        return int(connection.exec_driver_sql(f"SELECT {' + '.join(sizes)}").scalar_one())


def main() -> None:
    """Measure each size of the command line."""
    parser = argument_parser(__doc__, url="")
    parser.add_argument("--semantic", action="store_true")
    parser.add_argument("--vectors", type=int, nargs="*", default=[])
    parser.add_argument("--users", type=int, default=1)
    parser.add_argument("efforts", type=int, nargs="+")
    options = parser.parse_args()
    rows = []
    is_semantic = options.semantic or options.vectors
    embedder = Embedder(DeterministicFakeEmbedding(size=SIZE)) if is_semantic else None
    for efforts in options.efforts:
        with TemporaryDirectory() as folder:
            place = options.url or Path(folder)
            rows += measured(place, efforts, embedder, options.vectors, options.users)
    name = "search_scale_semantic" if options.semantic else "search_scale"
    name += "".join(f"_{number}_vectors" for number in options.vectors)
    name += f"_{options.users}_users" if options.users > 1 else ""
    name += "_postgresql" if options.url else ""
    write(options.out, name, "Search at scale", rows)


if __name__ == "__main__":
    main()
