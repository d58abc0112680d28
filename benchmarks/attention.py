"""Attention at scale: times of its methods for a user with many memories.

    python benchmarks/attention.py --out results 1000 10000 100000 --redis redis://localhost:6379/9

Memories are spread over three years and have an importance of 0-100 and twelve keywords from a
vocabulary of 50,000 with Zipf's frequencies. A tenth is accessed once, later. A message has forty
words, half of them from that vocabulary.

`--postgres` also measures a database, whose user `scale` is deleted before each size. `--redis`
also measures a cache in front of SQLite; the database of its URL is emptied before each size.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from made_up import VOCABULARY, WEIGHTS, text
from redis import Redis
from report import argument_parser, spread, timed, write

from ebbtide import SqlArchive
from ebbtide.memory.attention.law import Attention, Memory
from ebbtide.memory.attention.redis import RedisAttention

_USER = "scale"
_START = datetime(2023, 1, 1, tzinfo=UTC)
_DAYS = 3 * 365
"""Days over which the memories were made, so that many have faded."""
_KEYWORDS = 12
"""Keywords of a memory."""
_LIMIT = 10
"""Memories asked for at once."""
_OFTEN = 10_000
"""Memories between two lines that say how far it is."""


@contextmanager
def opened(url: str, folder: Path) -> Iterator[Attention]:
    """Open attention on Redis before SQLite, on PostgreSQL, or without a URL on SQLite alone."""
    database = url.startswith("postgresql")
    with SqlArchive(url if database else folder) as archive:
        if database or not url:
            yield archive.attention()
            return
        with Redis.from_url(url) as client:
            yield RedisAttention(client, archive.attention())


def emptied(url: str) -> None:
    """Delete what an earlier run left in a database."""
    if url.startswith("postgresql"):
        with SqlArchive(url) as archive:
            archive.delete_user(_USER)
    elif url:
        with Redis.from_url(url) as client:
            client.flushdb()


def memories(chance: random.Random, size: int) -> Iterator[Memory]:
    """Yield memories in the order of their times."""
    for number in range(size):
        words = chance.choices(VOCABULARY, cum_weights=WEIGHTS, k=_KEYWORDS)
        created = _START + timedelta(days=_DAYS * number / size)
        yield Memory(
            f"t{number // 5}/effort-{number}", chance.randint(0, 100), created, tuple(words)
        )


def filled(attention: Attention, chance: random.Random, size: int) -> None:
    """Add memories, and access a tenth of them later."""
    for number, memory in enumerate(memories(chance, size), start=1):
        attention.add(_USER, memory, now=memory.created)
        if number % 10 == 0:
            earlier = chance.randrange(number)
            attention.touch(_USER, f"t{earlier // 5}/effort-{earlier}", now=memory.created)
        if number % _OFTEN == 0:
            print(f"{number:,} of {size:,} memories added", flush=True)


def measured(url: str, folder: Path, size: int, calls: int) -> dict[str, Any]:
    """Return the row of one size in one database, after so many calls of each method."""
    chance, end = random.Random(1), _START + timedelta(days=_DAYS)
    with opened(url, folder) as attention:
        adding, _ = timed(lambda: filled(attention, chance, size))
    with opened(url, folder) as attention:
        first, _ = timed(lambda: attention.top(_USER, _LIMIT, now=end))
        message, _ = timed(
            lambda: attention.refresh_for_context(_USER, text(chance, 40), _LIMIT, now=end)
        )
        method_times = call_times(attention, chance, size, end, calls)
        inside = len(attention.top(_USER, size, now=end))
    row = {"all adds s": round(adding / 1_000, 1), "in attention": inside}
    row |= {"first top ms": round(first, 1), "first refresh ms": round(message, 1)}
    for name, times in method_times.items():
        row |= spread(name, times)
    return row


def call_times(
    attention: Attention, chance: random.Random, size: int, end: datetime, times: int
) -> dict[str, Sequence[float]]:
    """Return the milliseconds of each call, by method."""
    numbers = count(size)
    methods: Mapping[str, Callable[[], object]] = {
        "top": lambda: attention.top(_USER, _LIMIT, now=end),
        "add": lambda: attention.add(_USER, _new(chance, next(numbers), end), now=end),
        "touch": lambda: attention.touch(_USER, _memory_id(chance, size), now=end),
        "refresh": lambda: attention.refresh_for_context(_USER, text(chance, 40), _LIMIT, now=end),
    }
    return {name: [timed(call)[0] for _ in range(times)] for name, call in methods.items()}


def main() -> None:
    """Measure each size of the command line."""
    parser = argument_parser(__doc__)
    parser.add_argument("--postgres", help="URL of a database whose user 'scale' may be deleted")
    parser.add_argument("--redis", help="URL of a database whose keys may be deleted")
    parser.add_argument("--calls", type=int, default=200, help="how often each method is called")
    parser.add_argument("memories", type=int, nargs="+")
    options = parser.parse_args()
    urls = {"PostgreSQL": options.postgres, "SQLite behind Redis": options.redis}
    places = {"SQLite": "", **{place: url for place, url in urls.items() if url}}
    rows = []
    for place, url in places.items():
        for size in options.memories:
            emptied(url)
            with TemporaryDirectory() as folder:
                row = measured(url, Path(folder), size, options.calls)
            rows.append({"memories": size, "kept in": place, **row})
    write(options.out, "attention", "Attention at scale", rows)


def _new(chance: random.Random, number: int, end: datetime) -> Memory:
    (memory,) = memories(chance, 1)
    return Memory(f"new/effort-{number}", memory.base, end, memory.keywords)


def _memory_id(chance: random.Random, size: int) -> str:
    number = chance.randrange(size)
    return f"t{number // 5}/effort-{number}"


if __name__ == "__main__":
    main()
