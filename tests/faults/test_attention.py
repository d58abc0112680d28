"""Attention when many write at once, on PostgreSQL and with Redis, and when that dies."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any

import pytest
from redis import Redis

from ebbtide.memory.archive.memories import SqlAttention
from ebbtide.memory.archive.sql import DiskArchive
from ebbtide.memory.attention import redis as redis_attention
from ebbtide.memory.attention.law import Attention, Kept, Memory, Ranked
from ebbtide.memory.attention.redis import RedisAttention
from tests.databases import Database
from tests.faults import attention_writers as writers
from tests.faults.attention_writers import Place, crowd, write_together
from tests.memory.remembering import ids
from tests.redis_server import RedisServer, serving_redis

NOW = datetime(2026, 3, 1, tzinfo=UTC)
A = Memory("t1/auth-bug", 60, NOW, ("refresh token", "axios"))
B = Memory("t2/report", 50, NOW, ("quarterly report",))
SET = "ebbtide:ann:attention"
EVERY = range(writers.WRITERS)
ROUNDS = range(writers.ROUNDS)


@pytest.fixture(params=["postgresql", "redis"])
def place(request: pytest.FixtureRequest, database: Database) -> Place:
    """Return a PostgreSQL database, alone and with a Redis server in front of it."""
    if request.param == "postgresql":
        return Place(database.url)
    server: RedisServer = request.getfixturevalue("redis_server")
    return Place(database.url, server.socket)


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """Yield a server of our own, which may be killed."""
    with serving_redis() as running:
        yield running


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[DiskArchive]:
    """Yield an archive whose table is cached."""
    with DiskArchive(tmp_path, durable=False) as kept:
        yield kept


def add_all(attention: Attention, names: Iterable[str]) -> None:
    """Add memories of the same base."""
    for name in names:
        attention.add("ann", Memory(name, 60, NOW), now=NOW)


@contextmanager
def flushing(server: RedisServer) -> Iterator[None]:
    """Flush a server again and again, while the context lasts."""
    done = Event()

    def flush() -> None:
        with server.client() as client:
            while not done.wait(0.002):
                client.flushall()

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(flush)
        try:
            yield
        finally:
            done.set()
        running.result()


def counts(attention: Attention, names: list[str]) -> list[int | None]:
    """Return the accesses of memories, None of those that are unknown."""
    told = [attention.explain("ann", name, now=NOW) for name in names]
    return [one.accesses if one else None for one in told]


@pytest.mark.thorough
def test_eight_writers_lose_nothing(place: Place) -> None:
    """Eight processes access, add and suppress at once: all counts and memberships are exact."""
    with place.open() as (_, attention):
        add_all(attention, writers.SHARED)
        write_together(writers.mixed, place)

        own = [f"{number}/{one}" for number in EVERY for one in ROUNDS if one % 2 == 0]
        hushed = [f"{number}/{one}" for number in EVERY for one in ROUNDS if one % 2]
        every = [*writers.SHARED, *own, *hushed]
        inside = sorted([*writers.SHARED, *own])
        total = len(EVERY) * len(ROUNDS)
        found = attention.refresh_for_context("ann", "term shared", 1_000, now=NOW)
        assert counts(attention, every) == [total] * 2 + [1] * (len(every) - 2)
        assert sorted(ids(attention.top("ann", 1_000, now=NOW))) == inside
        assert list(attention.suppressed("ann", now=NOW)) == sorted(hushed)
        assert sorted(ids(found)) == inside


@pytest.mark.thorough
def test_eight_sessions_conclude_at_once(place: Place) -> None:
    """Turns of eight sessions of one user, which access the same, neither fail nor lose a count."""
    with place.open() as (_, attention):
        add_all(attention, writers.SHARED)
        write_together(writers.conclude, place)

        own = [f"t{number}/e{one}" for number in EVERY for one in ROUNDS]
        total = len(EVERY) * len(ROUNDS)
        assert counts(attention, [*writers.SHARED]) == [total] * 2
        assert counts(attention, own) == [0] * total
        assert len(attention.top("ann", 1_000, now=NOW)) == 2 + len(own)


@pytest.mark.thorough
def test_eight_writers_keep_to_the_capacity(place: Place) -> None:
    """Of what eight processes add at once, exactly the highest are in attention."""
    with place.open(writers.CROWD) as (_, attention):
        attention.add("ann", Memory("first", 45, NOW), now=NOW)
        write_together(writers.crowding, place)

        added = [one for number in EVERY for one in crowd(number)]
        added.sort(key=lambda one: (-one.base, -one.created.timestamp()))
        found = attention.top("ann", 1_000, now=NOW)
        assert ids(found) == [one.id for one in added[: writers.CROWD]]


def test_what_is_accessed_while_others_let_it_leave(database: Database) -> None:
    """A memory that an access lifts to the threshold is not put out by who read it before."""
    with Place(database.url).open() as (_, one), Place(database.url).open() as (_, other):
        add_all(one, [f"t/{number}" for number in range(20)])
        later = NOW + timedelta(days=34)
        with ThreadPoolExecutor(2) as threads:
            for number in range(20):
                threads.submit(one.touch, "ann", f"t/{number}", now=later)
                threads.submit(other.prune, "ann", now=later)

        assert len(one.top("ann", 99, now=later)) == 20


class Slow(RedisAttention):
    """Attention that has read the table and waits before it writes to Redis."""

    def __init__(self, client: Redis, table: SqlAttention) -> None:
        """Begin without having read."""
        super().__init__(client, table)
        self.has_read, self.may_write = Event(), Event()

    def _stored(self, user_id: str, *where: Any) -> tuple[Kept, ...]:
        found = super()._stored(user_id, *where)
        self.has_read.set()
        self.may_write.wait(30)
        return found


@pytest.mark.parametrize(("flushed", "left"), [(False, 3), (True, 0)])
def test_a_slow_reader_writes_no_older_picture(
    server: RedisServer, archive: DiskArchive, left: int, *, flushed: bool
) -> None:
    """What was read before a change is not cached after it, even if Redis was flushed then."""
    with server.client() as client, server.client() as mine:
        attention = RedisAttention(client, archive.attention())
        attention.add("ann", A, now=NOW)
        slow = Slow(mine, attention)
        reader = Thread(target=slow.top, args=("ann", 9), kwargs={"now": NOW})
        reader.start()
        slow.has_read.wait(30)
        attention.add("ann", B, now=NOW)
        if flushed:
            client.flushall()
        slow.may_write.set()
        reader.join()

        assert client.hlen("ebbtide:ann:memories") == left
        assert ids(attention.top("ann", 9, now=NOW)) == [A.id, B.id]
        assert client.zcard(SET) == 2


def written(attention: Attention, table: Attention, number: int) -> list[tuple[Ranked, ...]]:
    """Add a memory, access another, and return what both then say is in attention."""
    attention.add("ann", Memory(f"t/{number}", 41 + number % 50, NOW), now=NOW)
    attention.touch("ann", A.id, now=NOW)
    return [one.top("ann", 99, now=NOW) for one in (attention, table)]


@pytest.mark.thorough
def test_nothing_is_lost_when_redis_is_flushed(server: RedisServer, archive: DiskArchive) -> None:
    """Flushed again and again in the middle of everything, it answers as the table does."""
    with server.client() as client:
        attention, table = RedisAttention(client, archive.attention()), archive.attention()
        attention.add("ann", A, now=NOW)
        with flushing(server):
            tops = [written(attention, table, number) for number in range(60)]

        assert [cached for cached, _ in tops] == [stored for _, stored in tops]
        assert counts(attention, [A.id]) == [60]


def test_a_server_that_is_killed_and_comes_back_with_old_files(
    server: RedisServer, archive: DiskArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile the table answers; what changed, the cache is told before it is believed again."""
    monkeypatch.setattr(redis_attention, "_REST", 0.0)
    with server.client() as client:
        attention = RedisAttention(client, archive.attention())
        attention.add("ann", A, now=NOW)
        attention.top("ann", 9, now=NOW)
        server.kill()
        attention.add("ann", B, now=NOW)
        meanwhile = ids(attention.top("ann", 9, now=NOW))
        server.start()
        back = ids(attention.top("ann", 9, now=NOW))

        assert meanwhile == back == [A.id, B.id]
        assert client.zcard(SET) == 2


@pytest.mark.thorough
def test_a_server_that_hangs_delays_one_call(server: RedisServer, archive: DiskArchive) -> None:
    """It is waited for twice a second, and then not asked again for a while."""
    attention = RedisAttention.from_url(f"unix://{server.socket}", archive.attention())
    attention.add("ann", A, now=NOW)
    server.hang()
    begun = monotonic()
    first = ids(attention.top("ann", 9, now=NOW))
    middle = monotonic()
    for _ in range(5):
        attention.touch("ann", A.id, now=NOW)
    took = monotonic() - middle

    assert first == [A.id]
    assert 1 < middle - begun < 5
    assert took < 1
    attention._client.close()


def test_threads_share_an_attention(server: RedisServer, archive: DiskArchive) -> None:
    """Threads with one attention on one client count every access."""
    with server.client() as client:
        attention = RedisAttention(client, archive.attention())
        attention.add("ann", A, now=NOW)
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda _: attention.touch("ann", A.id, now=NOW), range(100)))

        assert counts(attention, [A.id]) == [100]
