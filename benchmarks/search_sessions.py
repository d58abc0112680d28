"""Search in many sessions: the time to find efforts in a user's other sessions.

    python benchmarks/search_sessions.py --out results 100 1000 10000

Made-up sessions concluded three efforts each, with summaries of 40 words and 8 keywords. A query is
four words of one summary; "found first" is how often its effort comes first. The first search makes
the user's index. Before each "after a change", another session concluded an effort.
"""

import random
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from made_up import exchange, text
from report import argument_parser, percent, spread, stored_bytes, timed, write

from ebbtide import DiskArchive
from ebbtide.memory.archive.branches import Branches
from ebbtide.memory.archive.search import find
from ebbtide.memory.turn import Session, Tip

_USER = "scale"
_OWNER = Session(_USER, "asking")
_EFFORTS = 3
"""Efforts of a session."""
_QUERIES = 200
"""Queries that are timed, so that ten are above the 95th percentile."""
_CHANGES = 20
"""Commits between searches, so that what is cached is read again."""
_OFTEN = 1_000
"""Sessions between two lines that say how far it is."""


def sessions(count: int) -> Iterator[Session]:
    """Yield the sessions that are searched."""
    for number in range(count):
        yield Session(_USER, f"session-{number}")


def built(archive: DiskArchive, count: int) -> list[tuple[tuple[str, str], str]]:
    """Write sessions, and return queries, each with the thread and the effort of its words."""
    chance, queries = random.Random(1), []
    for number, session in enumerate(sessions(count), 1):
        tip = Tip()
        for name in (f"effort-{at}" for at in range(_EFFORTS)):
            tip, summary = concluded(archive, session, tip, name, chance)
            queries.append(
                ((session.thread, name), " ".join(chance.sample(summary.split()[::2], 4)))
            )
        if number % _OFTEN == 0:
            print(f"{number:,} of {count:,} sessions written", flush=True)
    return queries[:: max(1, len(queries) // _QUERIES)]


def concluded(
    archive: DiskArchive, session: Session, tip: Tip, name: str, chance: random.Random
) -> tuple[Tip, str]:
    """Commit a turn that opens and concludes an effort; return the tip and the summary."""
    summary = text(chance, 40)
    fields = {"goal": text(chance, 8), "keywords": text(chance, 16).split()[::2]}
    events = (
        {"type": "opened", "effort": name, "goal": fields["goal"]},
        {"type": "concluded", "effort": name, "summary": summary, **fields},
    )
    turn = exchange(tip.turn + 1, [text(chance, 34)], name, events)
    return archive.commit(session, tip, turn).tip, summary


def measured(folder: Path, count: int) -> dict[str, Any]:
    """Return the row of one size."""
    with DiskArchive(folder, durable=False) as archive:
        queries = built(archive, count)
    with DiskArchive(folder, durable=False) as archive:
        first_search, _ = timed(lambda: find(Branches(archive.load(_OWNER), _OWNER), "nothing", 5))
        times, first = [], []
        for expected, query in queries:
            milliseconds, results = timed(
                lambda query=query: find(Branches(archive.load(_OWNER), _OWNER), query, 5)
            )
            times.append(milliseconds)
            best = next((result for result in results if result.effort), None)
            first.append(bool(best) and (best.branch.session.thread, best.effort) == expected)
        changed = [*_changed(archive, count, queries[0][1])]
    return {
        "sessions": count,
        "efforts": count * _EFFORTS,
        "first search ms": round(first_search),
        **spread("search", times),
        "after a change ms": round(median(changed), 1),
        "archive MB": round(stored_bytes(folder, "**/*.sqlite*") / 1e6, 2),
        "found first %": percent(first),
    }


def _changed(archive: DiskArchive, count: int, query: str) -> Iterator[float]:
    """Yield the milliseconds of a search right after another session concluded an effort."""
    chance = random.Random(2)
    for session in islice(cycle(sessions(count)), _CHANGES):
        tip = archive.load(session).tip or Tip()
        concluded(archive, session, tip, f"new-{tip.turn}", chance)
        yield timed(lambda: find(Branches(archive.load(_OWNER), _OWNER), query, 5))[0]


def main() -> None:
    """Measure each size of the command line."""
    parser = argument_parser(__doc__)
    parser.add_argument("sessions", type=int, nargs="+")
    options = parser.parse_args()
    rows = []
    for count in options.sessions:
        with TemporaryDirectory() as folder:
            rows.append(measured(Path(folder), count))
    write(options.out, "search_sessions", "Search in many sessions", rows)


if __name__ == "__main__":
    main()
