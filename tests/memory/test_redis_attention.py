"""Attention in Redis: what the suite for all kinds of attention cannot ask."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ebbtide.memory.attention import Kept, Memory, ranked
from ebbtide.memory.errors import AttentionError
from ebbtide.memory.redis_attention import RedisAttention
from tests.redis_server import RedisServer

NOW = datetime(2026, 3, 1, tzinfo=UTC)
A = Memory("t1/auth-bug", 60, NOW, ("refresh token", "axios"))
B = Memory("t2/report", 50, NOW, ("quarterly report",))
SET = "ebbtide:ann:attention"
USERS = ("ann", "ann:attention", "ann:memory", "*", "{x}", "a\nb", "", "Ann", "\ud800", "%3A")

Step = Callable[[RedisAttention], Any]

CALLS: dict[str, Step] = {
    "add": lambda one: one.add("ann", A, now=NOW),
    "touch": lambda one: one.touch("ann", A.id, now=NOW),
    "top": lambda one: one.top("ann", 1, now=NOW),
    "prune": lambda one: one.prune("ann", now=NOW),
    "refresh_for_context": lambda one: one.refresh_for_context("ann", "axios", 1, now=NOW),
    "suppress": lambda one: one.suppress("ann", A.id, now=NOW),
    "unsuppress": lambda one: one.unsuppress("ann", A.id, now=NOW),
    "suppressed": lambda one: one.suppressed("ann", now=NOW),
    "withdraw": lambda one: one.withdraw("ann", A.id, now=NOW),
    "forget": lambda one: one.forget("ann", A.id, now=NOW),
    "explain": lambda one: one.explain("ann", A.id, now=NOW),
}
CHANGES = ("add", "add", "touch", "touch", "suppress", "unsuppress", "withdraw", "forget")
READINGS = ("top", "prune", "refresh_for_context", "explain")


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Redis]:
    """Yield a client of an empty server."""
    with redis_server.client() as opened:
        yield opened


@pytest.fixture
def attention(client: Redis) -> RedisAttention:
    """Return an attention that holds nothing."""
    return RedisAttention(client)


def ids(attention: RedisAttention, user: str = "ann", *, now: datetime = NOW) -> list[str]:
    """Return the ids of all that is in attention."""
    return [one.id for one in attention.top(user, 10_000, now=now)]


def contents(client: Redis) -> bytes:
    """Return all that is in Redis: keys, members, fields, values."""
    return b"\n".join(
        b"%s %s %s" % (key, client.dump(key), repr(_value(client, key)).encode())
        for key in client.scan_iter()
    )


def _value(client: Redis, key: Any) -> object:
    kind = client.type(key)
    if kind == b"hash":
        return client.hgetall(key)
    return client.zrange(key, 0, -1) if kind == b"zset" else client.smembers(key)


def test_the_keys_are_the_documented_ones(client: Redis, attention: RedisAttention) -> None:
    """A memory in attention has exactly the keys that the module names."""
    attention.add("ann", A, now=NOW)
    attention.suppress("ann", A.id, now=NOW)
    ids(attention)

    assert sorted(client.scan_iter()) == [
        b"ebbtide:ann:attention",
        b"ebbtide:ann:keyword:axio",
        b"ebbtide:ann:keyword:refresh",
        b"ebbtide:ann:keyword:token",
        b"ebbtide:ann:memories",
        b"ebbtide:ann:memory:t1%2Fauth-bug",
        b"ebbtide:ann:suppressed",
    ]


def test_the_set_is_scored_by_what_its_members_held(
    client: Redis, attention: RedisAttention
) -> None:
    """The sorted set has the effective salience as of its last reading."""
    attention.add("ann", A, now=NOW)
    attention.add("ann", B, now=NOW)
    attention.top("ann", 1, now=NOW + timedelta(days=10))

    assert client.zscore(SET, "t1%2Fauth-bug") == pytest.approx(54.0)
    assert client.zscore(SET, "t2%2Freport") == pytest.approx(45.0)


@pytest.mark.parametrize("call", [*READINGS, "add", "touch", "unsuppress"])
def test_only_the_set_expires(client: Redis, attention: RedisAttention, call: str) -> None:
    """The sorted set lives for a day from its last use; nothing else ever expires."""
    attention.add("ann", A, now=NOW)
    client.expire(SET, 60)
    CALLS[call](attention)

    lives = {key: client.ttl(key) for key in client.scan_iter()}
    day = lives.pop(SET.encode())
    assert 24 * 3600 - 60 < day <= 24 * 3600
    assert set(lives.values()) == {-1}


@pytest.mark.parametrize("call", [*READINGS, "add", "touch", "unsuppress"])
def test_nothing_is_lost_when_the_set_expires(
    client: Redis, attention: RedisAttention, call: str
) -> None:
    """Whatever is called first, what was in attention is in it after the set has expired."""
    attention.add("ann", A, now=NOW)
    attention.add("ann", B, now=NOW)
    before = ids(attention)
    client.expire(SET, 0)
    CALLS[call](attention)

    assert ids(attention) == before == [A.id, B.id]


def test_an_explanation_does_not_depend_on_the_set(
    client: Redis, attention: RedisAttention
) -> None:
    """A memory is attended also when the set is not built."""
    attention.add("ann", A, now=NOW)
    client.delete(SET)

    found = attention.explain("ann", A.id, now=NOW)
    assert found is not None
    assert found.attended


def test_a_building_that_died_is_done_again(client: Redis, attention: RedisAttention) -> None:
    """What a reader left half built is built by the next one."""
    attention.add("ann", A, now=NOW)
    client.delete(SET)
    client.zadd(SET, {":building:of-one-that-died": -1})

    assert ids(attention) == [A.id]
    assert client.zrangebyscore(SET, "-inf", "(0") == [b":built:40.0"]


def test_another_threshold_builds_the_set_anew(client: Redis, attention: RedisAttention) -> None:
    """An attention with a lower threshold finds what the former one left out."""
    attention.add("ann", Memory("t1/low", 30, NOW), now=NOW)
    before = ids(attention)
    lower = RedisAttention(client, threshold=20.0)

    assert (before, ids(lower), ids(attention)) == ([], ["t1/low"], [])


def test_a_build_keeps_to_the_capacity(client: Redis) -> None:
    """Of more than fit, the highest are in attention after the set was built."""
    attention = RedisAttention(client, capacity=2)
    for base in (50, 90, 60, 70):
        attention.add("ann", Memory(f"t/{base}", base, NOW), now=NOW)
    before = ids(attention)
    client.delete(SET)

    assert ids(attention) == before == ["t/90", "t/70"]


def test_a_large_memory_is_read_in_pieces(client: Redis) -> None:
    """More memories than are read in one go are all found."""
    attention = RedisAttention(client, capacity=2_000)
    for one in range(1_100):
        attention.add("ann", Memory(f"t/{one}", 60, NOW, ("shared",)), now=NOW)

    assert len(attention.refresh_for_context("ann", "what is shared", 2_000, now=NOW)) == 1_100
    assert len(ids(attention)) == 1_100


def test_nobody_breaks_out_of_his_keys(client: Redis) -> None:
    """Whatever users, memories and terms are called, no user changes or sees what another has."""
    attention = RedisAttention(client)
    for number, user in enumerate(USERS):
        attention.add(user, Memory(f"m:{user}", 50 + number, NOW, (f"own{number}",)), now=NOW)
        attention.add(user, Memory(user, 90, NOW), now=NOW)

    for number, user in enumerate(USERS):
        assert ids(attention, user) == [user, f"m:{user}"]
        attention.forget(user, user, now=NOW)
        attention.forget(user, f"m:{user}", now=NOW)
        assert ids(attention, user) == []
        assert len(list(client.scan_iter("*memories"))) == len(USERS) - number - 1
    assert list(client.scan_iter()) == []


def test_a_random_run_leaves_no_other_keys(client: Redis) -> None:
    """Whatever is called, all keys are below those of their user, and of a documented kind."""
    attention, chance = RedisAttention(client, capacity=5), random.Random(7)  # noqa: S311
    for _ in range(400):
        now = NOW + timedelta(days=chance.randrange(90))
        name = f"t:{chance.randrange(12)}"
        memory = Memory(name, chance.randrange(101), now, (f"word{chance.randrange(5)} a:b",))
        changed(attention, chance.choice(CHANGES), memory, now)
        attention.refresh_for_context("ann", "word1 or word2", 3, now=now)

    kinds = {tuple(key.decode().split(":")[:3]) for key in client.scan_iter()}
    words = ("attention", "keyword", "memories", "memory", "suppressed")
    assert kinds == {("ebbtide", "ann", word) for word in words}


def test_what_is_forgotten_is_nowhere(client: Redis, attention: RedisAttention) -> None:
    """No byte of a memory is left when it was forgotten, and no key when it was the last one."""
    attention.add("ann", Memory("t/secret", 60, NOW, ("hidden orchid",)), now=NOW)
    attention.add("ann", B, now=NOW)
    attention.suppress("ann", "t/secret", now=NOW)
    attention.add("ann", Memory("t/secret", 60, NOW, ("golden lotus",)), now=NOW)
    before = contents(client)
    attention.forget("ann", "t/secret", now=NOW)

    gone = (b"orchid", b"hidden", b"golden", b"lotus", b"secret")
    assert [word for word in gone if word in before] == [b"golden", b"lotus", b"secret"]
    assert [word for word in gone if word in contents(client)] == []
    attention.top("ann", 1, now=NOW)
    attention.forget("ann", B.id, now=NOW)
    assert list(client.scan_iter()) == []


def test_the_index_loses_what_no_message_could_lift(
    client: Redis, attention: RedisAttention
) -> None:
    """A faded memory leaves the lists of terms when it is found there, until its next access."""
    attention.add("ann", Memory("t/old", 50, NOW, ("orchid",)), now=NOW)
    later = NOW + timedelta(days=60)
    found = attention.refresh_for_context("ann", "the orchid", 5, now=later)
    left = client.exists("ebbtide:ann:keyword:orchid")
    for _ in range(25):
        attention.touch("ann", "t/old", now=NOW + timedelta(days=30))

    assert (found, left) == ((), 0)
    assert client.smembers("ebbtide:ann:keyword:orchid") == {b"t%2Fold"}


@pytest.mark.parametrize("decoding", [True, False])
def test_a_client_may_decode_or_not(redis_server: RedisServer, *, decoding: bool) -> None:
    """Every method answers the same, whether the client decodes answers or not."""
    with redis_server.client(decode_responses=decoding) as client:
        attention = RedisAttention(client)
        attention.add("ann", A, now=NOW)
        attention.touch("ann", A.id, now=NOW)
        attention.add("ann", B, now=NOW)
        attention.suppress("ann", B.id, now=NOW)
        found = attention.refresh_for_context("ann", "axios", 5, now=NOW)
        told = attention.explain("ann", A.id, now=NOW)

        assert ids(attention) == [A.id] == [one.id for one in found]
        assert told is not None
        assert (told.accesses, told.attended) == (1, True)
        assert attention.suppressed("ann", now=NOW) == (B.id,)


@pytest.mark.parametrize("protocol", [2, 3])
def test_both_protocols_work(redis_server: RedisServer, protocol: int) -> None:
    """Every answer is understood in either protocol of Redis."""
    with redis_server.client(protocol=protocol) as client:
        attention = RedisAttention(client)
        attention.add("ann", A, now=NOW)
        attention.suppress("ann", A.id, now=NOW)

        assert attention.suppressed("ann", now=NOW) == (A.id,)
        assert attention.unsuppress("ann", A.id, now=NOW)
        assert ids(attention) == [A.id]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("created", "yesterday"),
        ("created", "2026-01-01T09:00:00"),
        ("created", "9999-12-31T23:59:59-23:00"),
        ("keywords", "[1]"),
        ("keywords", b"\xff"),
        ("base", "9" * 5_000),
    ],
)
def test_a_damaged_hash_is_skipped(
    client: Redis,
    attention: RedisAttention,
    caplog: pytest.LogCaptureFixture,
    field: str,
    value: str | bytes,
) -> None:
    """A hash that is not what was written is logged and hides nothing else."""
    attention.add("ann", A, now=NOW)
    attention.add("ann", B, now=NOW)
    client.hset("ebbtide:ann:memory:t1%2Fauth-bug", field, value)

    assert ids(attention) == [B.id]
    assert "t1/auth-bug" in caplog.text
    assert attention.explain("ann", A.id, now=NOW) is None


@pytest.mark.parametrize("call", CALLS)
def test_a_server_that_is_away_is_an_attention_error(call: str) -> None:
    """Every method raises `AttentionError`, which tells no secret and not where the server is."""
    away = Redis("localhost", 1, password="s3cret", retry=Retry(NoBackoff(), 0))  # noqa: S106

    with pytest.raises(AttentionError, match=r"Redis could not .* \(ConnectionError\)") as raised:
        CALLS[call](RedisAttention(away))
    assert "localhost" not in str(raised.value)
    assert "s3cret" not in str(raised.value)
    assert raised.value.__suppress_context__


def test_a_key_of_another_kind_is_an_attention_error(
    client: Redis, attention: RedisAttention
) -> None:
    """What Redis refuses is reported without the values that were sent, and changes nothing."""
    client.set("ebbtide:ann:memory:t1%2Fauth-bug", "x")

    with pytest.raises(AttentionError, match="could not keep a memory") as raised:
        attention.add("ann", A, now=NOW)
    assert "axios" not in str(raised.value)
    assert list(client.scan_iter()) == [b"ebbtide:ann:memory:t1%2Fauth-bug"]


@given(
    st.lists(
        st.tuples(st.sampled_from(CHANGES), st.integers(0, 9), st.integers(0, 20)),
        max_size=15,
    )
)
def test_whenever_the_set_expires_the_answers_are_those_of_the_law(
    running_redis: RedisServer, changes: list[tuple[str, int, int]]
) -> None:
    """Below the capacity, order and membership are those of all memories, ranked anew each time."""
    with running_redis.client() as client:
        client.flushall()
        attention = RedisAttention(client)
        model: dict[str, Kept] = {}
        now = NOW
        for change, number, days in changes:
            now += timedelta(days=days)
            memory = Memory(f"t/{number}", 31 + 7 * number, now, (f"word{number % 3}", "shared"))
            changed(attention, change, memory, now)
            model_changed(model, change, memory)
            if days % 3 == 0:
                client.delete(SET)

            message = f"a shared word{number % 2}"
            assert attention.top("ann", 99, now=now) == ranked(model.values(), 40, now=now)
            assert attention.refresh_for_context("ann", message, 99, now=now) == ranked(
                model.values(), 40, now=now, message=message
            )
            hushed = sorted(one for one, kept in model.items() if kept.suppressed)
            assert list(attention.suppressed("ann", now=now)) == hushed


def changed(attention: RedisAttention, change: str, memory: Memory, now: datetime) -> None:
    """Make a change of a memory."""
    if change == "add":
        attention.add("ann", memory, now=now)
    else:
        getattr(attention, change)("ann", memory.id, now=now)


def model_changed(model: dict[str, Kept], change: str, memory: Memory) -> None:
    """Make the same change where all is kept in a mapping."""
    was = model.get(memory.id)
    if change == "add":
        model[memory.id] = replace(was or Kept(memory), memory=memory, withdrawn=False)
    elif was and change == "forget":
        del model[memory.id]
    elif was:
        model[memory.id] = replace(
            was,
            accesses=was.accesses + (change == "touch"),
            suppressed=change == "suppress" or (was.suppressed and change != "unsuppress"),
            withdrawn=was.withdrawn or change == "withdraw",
        )
