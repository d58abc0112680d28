"""Attention in Redis when servers die, connections break, and many write at once."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from redis import ConnectionPool, Redis, UnixDomainSocketConnection
from redis.exceptions import ConnectionError as Disconnected

from ebbtide.memory.attention import Memory
from ebbtide.memory.errors import AttentionError
from ebbtide.memory.redis_attention import RedisAttention
from tests.faults import redis_writers
from tests.redis_server import RedisServer, serving_redis

NOW = datetime(2026, 3, 1, tzinfo=UTC)
A = Memory("t1/auth-bug", 60, NOW, ("refresh token", "axios"))
SET = "ebbtide:ann:attention"


class Meddled(Redis):
    """A client in front of whose step of a number something else happens in Redis."""

    step = 0
    meddle: Callable[[], object]

    def pipeline(self, *args: Any, **options: Any) -> Any:
        """Begin a step of several commands."""
        self._begin()
        return super().pipeline(*args, **options)

    def eval(self, *args: Any) -> Any:
        """Begin a step of one script."""
        self._begin()
        return super().eval(*args)

    def _begin(self) -> None:
        self.step -= 1
        if self.step == 0:
            self.meddle()


class Deaf(UnixDomainSocketConnection):
    """A connection that breaks once, after a transaction was done and before its answer is read."""

    deaf = True

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:  # noqa: FBT001, FBT002 (redis-py's)
        """Send, and break if that was a transaction."""
        super().send_packed_command(command, check_health)  # type: ignore[no-untyped-call]
        if Deaf.deaf and any(b"EXEC" in piece for piece in command):
            Deaf.deaf = False
            self.can_read(timeout=60)
            raise Disconnected


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Redis]:
    """Yield a client of an empty server."""
    with redis_server.client() as opened:
        yield opened


def ids(attention: RedisAttention, *, now: datetime = NOW) -> list[str]:
    """Return the ids of all that is in attention."""
    return [one.id for one in attention.top("ann", 10_000, now=now)]


def test_a_server_that_is_killed_and_restarted_has_everything() -> None:
    """A dead server raises; started again on its files, it has all that was written."""
    with serving_redis() as server, server.client() as client:
        attention = RedisAttention(client)
        attention.add("ann", A, now=NOW)
        attention.touch("ann", A.id, now=NOW)
        before = attention.top("ann", 5, now=NOW)
        server.kill()
        with pytest.raises(AttentionError):
            attention.touch("ann", A.id, now=NOW)
        server.start()

        told = attention.explain("ann", A.id, now=NOW)
        assert attention.top("ann", 5, now=NOW) == before != ()
        assert told is not None
        assert told.accesses == 1


def test_an_access_whose_answer_is_lost_is_counted_once(
    client: Redis, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that breaks after the transaction was done does not count an access twice."""
    RedisAttention(client).add("ann", A, now=NOW)
    monkeypatch.setattr(Deaf, "deaf", True)
    pool = ConnectionPool(connection_class=Deaf, path=redis_server.socket)
    with Redis(connection_pool=pool) as broken:
        RedisAttention(broken).touch("ann", A.id, now=NOW)
    pool.disconnect()

    told = RedisAttention(client).explain("ann", A.id, now=NOW)
    assert told is not None
    assert (told.accesses, Deaf.deaf) == (1, False)


@pytest.mark.parametrize("deleting", [True, False])
@pytest.mark.parametrize("built", [True, False])
@pytest.mark.parametrize("step", range(1, 7))
def test_nothing_between_two_steps_is_lost(
    redis_server: RedisServer, step: int, *, built: bool, deleting: bool
) -> None:
    """Whatever others do between two steps of a reading, what is in attention is what must be."""
    later = NOW + timedelta(days=25)
    fading = Memory("t/fading", 50, NOW)
    with redis_server.client() as client, Meddled(unix_socket_path=redis_server.socket) as mine:
        other = RedisAttention(client)
        for memory in (A, fading, Memory("t/gone", 90, NOW), Memory("t/hushed", 80, NOW)):
            other.add("ann", memory, now=NOW)
        other.top("ann", 1, now=NOW)
        if not built:
            client.delete(SET)

        def meddle() -> None:
            if deleting:
                client.delete(SET)
            for _ in range(12):
                other.touch("ann", fading.id, now=later)
            other.add("ann", Memory("t/late", 70, later), now=later)
            other.forget("ann", "t/gone", now=later)
            other.suppress("ann", "t/hushed", now=later)

        mine.step, mine.meddle = step, meddle
        RedisAttention(mine).top("ann", 5, now=later)
        if mine.step > 0:
            meddle()

        assert ids(other, now=later) == ["t/late", fading.id, A.id]


def test_a_set_that_never_stays_is_an_attention_error(
    redis_server: RedisServer, client: Redis
) -> None:
    """A set that is deleted as often as it is built is no endless work."""
    RedisAttention(client).add("ann", A, now=NOW)
    with Meddled(unix_socket_path=redis_server.socket) as mine:

        def delete() -> None:
            client.delete(SET)
            mine.step = 1

        mine.step, mine.meddle = 1, delete
        with pytest.raises(AttentionError, match="WatchError"):
            RedisAttention(mine).top("ann", 1, now=NOW)

    assert ids(RedisAttention(client)) == [A.id]


def test_a_cut_that_fails_is_made_by_the_next_reading(
    redis_server: RedisServer, client: Redis
) -> None:
    """What was added is kept if the lowest cannot leave at once; the next reading lets it leave."""
    small = RedisAttention(client, capacity=1)
    small.add("ann", A, now=NOW)
    small.top("ann", 1, now=NOW)
    with Meddled(unix_socket_path=redis_server.socket) as mine:

        def fail() -> None:
            raise Disconnected

        mine.step, mine.meddle = 2, fail
        RedisAttention(mine, capacity=1).add("ann", Memory("t/more", 90, NOW), now=NOW)

    assert client.zcount(SET, 0, "+inf") == 2
    assert ids(small) == ["t/more"]
    assert client.zcount(SET, 0, "+inf") == 1


def test_threads_share_an_attention(client: Redis) -> None:
    """Threads with one attention on one client count every access."""
    attention = RedisAttention(client)
    attention.add("ann", A, now=NOW)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: attention.touch("ann", A.id, now=NOW), range(200)))

    told = attention.explain("ann", A.id, now=NOW)
    assert told is not None
    assert told.accesses == 200


def test_eight_writers_lose_nothing(redis_server: RedisServer, client: Redis) -> None:
    """Eight processes access, add and suppress at once: all counts and memberships are exact."""
    wide = RedisAttention(client, capacity=1_000)
    for memory_id in redis_writers.SHARED:
        wide.add("ann", Memory(memory_id, 60, NOW), now=NOW)
    redis_writers.write_together(redis_writers.mixed, redis_server.socket)

    writers, rounds = range(redis_writers.WRITERS), range(redis_writers.ROUNDS)
    own = [f"{number}/{one}" for number in writers for one in rounds if one % 2 == 0]
    hushed = [f"{number}/{one}" for number in writers for one in rounds if one % 2]
    every = [*redis_writers.SHARED, *own, *hushed]
    told = [wide.explain("ann", memory_id, now=NOW) for memory_id in every]
    counts = [one.accesses if one else None for one in told]
    assert counts == [len(writers) * len(rounds)] * 2 + [1] * (len(every) - 2)
    assert sorted(ids(wide)) == sorted([*redis_writers.SHARED, *own])
    assert list(wide.suppressed("ann", now=NOW)) == sorted(hushed)
    found = wide.refresh_for_context("ann", "term shared", 1_000, now=NOW)
    assert sorted(one.id for one in found) == sorted([*redis_writers.SHARED, *own])


def test_eight_writers_keep_to_the_capacity(redis_server: RedisServer, client: Redis) -> None:
    """Of what eight processes add at once, exactly the highest are in attention."""
    crowded = RedisAttention(client, capacity=redis_writers.CROWD)
    crowded.add("ann", Memory("first", 45, NOW), now=NOW)
    crowded.top("ann", 1, now=NOW)
    redis_writers.write_together(redis_writers.crowding, redis_server.socket)

    added = [one for number in range(redis_writers.WRITERS) for one in redis_writers.crowd(number)]
    added.sort(key=lambda one: (-one.base, -one.created.timestamp()))
    size = client.zcount(SET, 0, "+inf")
    assert size == redis_writers.CROWD
    assert ids(crowded) == [one.id for one in added[: redis_writers.CROWD]]


def test_many_build_at_once_while_others_write(redis_server: RedisServer, client: Redis) -> None:
    """The set is deleted and built by eight processes that also write: nothing is missing."""
    redis_writers.write_together(redis_writers.building, redis_server.socket)

    wide = RedisAttention(client, capacity=1_000)
    wanted = [
        f"{number}/{one}"
        for number in range(redis_writers.WRITERS)
        for one in range(redis_writers.ROUNDS)
        if one % 3
    ]
    assert sorted(ids(wide)) == sorted(wanted)
    client.delete(SET)
    assert sorted(ids(wide)) == sorted(wanted)
