"""The cache of attention in Redis: what it holds, when it is written, and what it may lose."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ebbtide.memory.archive.sql import DiskArchive
from ebbtide.memory.attention.law import Attention, Memory
from ebbtide.memory.attention.redis import RedisAttention
from ebbtide.memory.errors import AttentionError
from tests.memory.remembering import ids
from tests.redis_server import RedisServer

NOW = datetime(2026, 3, 1, tzinfo=UTC)
A = Memory("t1/auth-bug", 60, NOW, ("refresh token", "axios"))
B = Memory("t2/report", 50, NOW, ("quarterly report",))
SET, HASH = "ebbtide:ann:attention", "ebbtide:ann:memories"
USERS = ("ann", "ann:attention", "ann:memories", "*", "{x}", "", "Ann", "\ud800", "%3A")

CALLS: dict[str, Callable[[Attention], Any]] = {
    "add": lambda one: one.add("ann", A, now=NOW),
    "touch": lambda one: one.touch("ann", A.id, now=NOW),
    "top": lambda one: one.top("ann", 1, now=NOW),
    "prune": lambda one: one.prune("ann", now=NOW),
    "refresh_for_context": lambda one: one.refresh_for_context("ann", "axios", 1, now=NOW),
    "changed": lambda one: one.changed("ann"),
    "suppress": lambda one: one.suppress("ann", A.id, now=NOW),
    "unsuppress": lambda one: one.unsuppress("ann", A.id, now=NOW),
    "suppressed": lambda one: one.suppressed("ann", now=NOW),
    "forget": lambda one: one.forget("ann", A.id, now=NOW),
    "explain": lambda one: one.explain("ann", A.id, now=NOW),
}


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[DiskArchive]:
    """Yield the archive whose table is cached."""
    with DiskArchive(tmp_path, durable=False) as kept:
        yield kept


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Redis]:
    """Yield a client of an empty server."""
    with redis_server.client() as opened:
        yield opened


@pytest.fixture
def attention(client: Redis, archive: DiskArchive) -> RedisAttention:
    """Return an attention that knows two memories, one below the threshold, and was read."""
    kept = RedisAttention(client, archive.attention())
    kept.add("ann", A, now=NOW)
    kept.add("ann", Memory("t/low", 35, NOW, ("redis",)), now=NOW)
    kept.top("ann", 9, now=NOW)
    return kept


def away() -> Redis:
    """Return a client of a server that is not there, which knows a secret."""
    return Redis("localhost", 1, password="s3cret", retry=Retry(NoBackoff(), 0))  # noqa: S106 (no server's)


def test_the_keys_are_the_documented_ones(client: Redis, attention: RedisAttention) -> None:
    """The set has what is in attention, the hash what a message could lift too; all expire."""
    lives = {key: client.ttl(key) for key in client.scan_iter()}

    assert sorted(lives) == [SET.encode(), b"ebbtide:ann:changes", HASH.encode()]
    assert all(24 * 3600 - 60 < left <= 24 * 3600 for left in lives.values())
    assert client.zrange(SET, 0, -1, withscores=True) == [(b"t1/auth-bug", 60.0)]
    assert sorted(client.hkeys(HASH)) == [b"*", b"t%2Flow", b"t1%2Fauth-bug"]
    assert attention.top("ann", 1, now=NOW) != ()


def test_what_faded_is_not_in_the_set(client: Redis, attention: RedisAttention) -> None:
    """Another reader of the set sees none of it; our own readers still let it leave."""
    later = NOW + timedelta(days=40)
    client.flushdb()

    read = attention.attended("ann", now=later)

    assert client.zrange(SET, 0, -1) == []
    assert [one.memory.id for one in attention.attended("ann", now=later)] == [A.id]
    assert [one.memory.id for one in read] == [A.id]
    assert attention.prune("ann", now=later) == 1


def test_what_enters_is_written_at_once(client: Redis, archive: DiskArchive) -> None:
    """Another program sees it in the set of its prefix, before this one has read anything."""
    new, now = replace(A, created=datetime.now(UTC)), datetime.now(UTC)
    RedisAttention(client, archive.attention(), prefix="memorable").add("ann", new, now=now)

    assert client.zrange("memorable:ann:attention", 0, -1) == [A.id.encode()]


def test_readers_ask_redis(archive: DiskArchive, attention: RedisAttention) -> None:
    """What was read is read again without the table, until it is said that this has changed."""
    archive.attention().add("ann", B, now=NOW)
    before = attention.top("ann", 9, now=NOW)
    beside = attention.refresh_for_context("ann", "quarterly report", 9, now=NOW)
    pruned = attention.prune("ann", now=NOW)
    attention.changed("ann")

    assert (ids(before), ids(beside), pruned) == ([A.id], [A.id], 0)
    assert ids(attention.top("ann", 9, now=NOW)) == [A.id, B.id]


def test_nothing_is_an_answer_too(client: Redis, attention: RedisAttention) -> None:
    """That a user has no memories is cached like any other answer."""
    attention.top("bob", 9, now=NOW)

    assert client.hkeys("ebbtide:bob:memories") == [b"*"]
    assert attention.top("bob", 9, now=NOW) == ()


def test_what_faded_leaves_the_table(archive: DiskArchive, attention: RedisAttention) -> None:
    """A member that is below the threshold lets the table be pruned, and the cache be built."""
    later = NOW + timedelta(days=34)
    found = attention.top("ann", 9, now=later)

    assert found == ()
    assert archive.attention().attended("ann", now=later) == ()
    assert attention.prune("ann", now=later) == 0


@pytest.mark.parametrize("decoding", [True, False])
@pytest.mark.parametrize("protocol", [2, 3])
def test_a_client_may_decode_or_not(
    redis_server: RedisServer, attention: RedisAttention, protocol: int, *, decoding: bool
) -> None:
    """Cached answers are understood in either protocol, decoded or not."""
    with redis_server.client(decode_responses=decoding, protocol=protocol) as client:
        other = RedisAttention(client, attention)

        assert ids(other.top("ann", 9, now=NOW)) == [A.id]
        assert ids(other.refresh_for_context("ann", "redis", 9, now=NOW)) == [A.id, "t/low"]


def test_nobody_breaks_out_of_his_keys(client: Redis, attention: RedisAttention) -> None:
    """Whatever users are called, each has three keys of his own."""
    client.flushall()
    for user in USERS:
        attention.add(user, A, now=NOW)
        attention.top(user, 9, now=NOW)

    assert len(list(client.scan_iter())) == 3 * len(USERS)


def test_another_threshold_is_another_cache(
    archive: DiskArchive, client: Redis, attention: RedisAttention
) -> None:
    """What was written for other numbers is not read."""
    lower = RedisAttention(client, archive.attention(threshold=30.0))
    lower.touch("ann", "t/low", now=NOW)

    assert ids(lower.top("ann", 9, now=NOW)) == [A.id, "t/low"]
    assert ids(attention.top("ann", 9, now=NOW)) == [A.id]


@pytest.mark.parametrize("value", ["x", "{}", '["t", 1, "yesterday", [], 0]', b"\xff"])
@pytest.mark.parametrize("field", ["*", "t1%2Fauth-bug"])
def test_what_nobody_wrote_is_written_anew(
    client: Redis, attention: RedisAttention, field: str, value: str | bytes
) -> None:
    """A hash that is damaged counts as missing."""
    client.hset(HASH, field, value)

    assert ids(attention.top("ann", 9, now=NOW)) == [A.id]
    assert client.hget(HASH, field) != value


@pytest.mark.parametrize("key", [HASH, "ebbtide:ann:changes"])
def test_a_key_of_another_kind_is_an_outage(
    client: Redis, attention: RedisAttention, caplog: pytest.LogCaptureFixture, key: str
) -> None:
    """What Redis refuses is logged, and the table answers."""
    client.delete(key)
    client.lpush(key, "x")
    attention.changed("ann")

    assert ids(attention.top("ann", 9, now=NOW)) == [A.id]
    assert len(caplog.messages) == (key == "ebbtide:ann:changes")


@pytest.mark.parametrize("call", sorted({*CALLS} - {"changed"}))
def test_without_a_server_the_table_answers(
    tmp_path: Path, archive: DiskArchive, call: str
) -> None:
    """Every method that asks the table does what it does without a cache."""
    with DiskArchive(tmp_path / "other", durable=False) as other:
        kept, table = RedisAttention(away(), archive.attention()), other.attention()
        kept.add("ann", A, now=NOW)
        table.add("ann", A, now=NOW)

        assert CALLS[call](kept) == CALLS[call](table)
        assert kept.explain("ann", A.id, now=NOW) == table.explain("ann", A.id, now=NOW)


def test_a_change_tells_whether_the_cache_knows(
    attention: RedisAttention, archive: DiskArchive
) -> None:
    """A server that is not reached may still hold what was read."""
    assert attention.changed("ann")
    assert not RedisAttention(away(), archive.attention()).changed("ann")


def test_an_outage_is_logged_once(archive: DiskArchive, caplog: pytest.LogCaptureFixture) -> None:
    """The warning tells no secret and not where the server is."""
    attention = RedisAttention(away(), archive.attention())
    with caplog.at_level(logging.INFO):
        for call in CALLS.values():
            call(attention)

    assert [(one.name, one.levelname) for one in caplog.records] == [
        ("ebbtide.attention", "WARNING")
    ]
    assert caplog.messages == [
        "Redis failed (ConnectionError): attention is read from the table meanwhile"
    ]


def test_a_table_that_fails_is_an_attention_error(
    archive: DiskArchive, client: Redis, attention: RedisAttention
) -> None:
    """Whoever writes is told, and nothing that was cached is believed after it."""
    archive.close()
    Path(archive.database.name).write_bytes(b"nonsense" * 1_000)

    with pytest.raises(AttentionError, match="no database"):
        attention.touch("ann", A.id, now=NOW)
    assert client.exists(SET, HASH) == 0
