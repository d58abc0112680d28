"""Membership and order for any sequence of operations, against all memories ranked at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore
from redis import Redis

from ebbtide.memory.attention import Attention, Kept, Memory, Ranked, ranked
from ebbtide.memory.redis_attention import RedisAttention
from ebbtide.memory.store_attention import StoreAttention
from tests.memory.remembering import USER, day, memory
from tests.redis_server import RedisServer

Step: TypeAlias = tuple[float, str, str, int, tuple[str, ...]]
"""Days that pass before it, what is done, to which memory, and its base and keywords if added."""

ACTS = ("add", "add", "touch", "touch", "suppress", "unsuppress", "withdraw", "forget", "prune")
WORDS = ("axios", "redis", "refresh token", "token", "the")
NAMES = ("t1/a", "t1/b", "t2/a", "t2/b", "t3/a")
MESSAGE = "axios and a token"
ENTERING = {"add", "touch", "unsuppress"}
SLOW = [HealthCheck.too_slow]

steps: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0.5, 1, 7, 20, 40]),
        st.sampled_from(ACTS),
        st.sampled_from(NAMES),
        st.integers(25, 100),
        st.lists(st.sampled_from(WORDS), max_size=3).map(tuple),
    ),
    max_size=25,
)


@dataclass
class Known:
    """All that was kept of each memory, in a plain dictionary."""

    kept: dict[str, Kept] = field(default_factory=dict)

    def do(self, act: str, subject: Memory) -> None:
        """Do to the dictionary what was done to attention."""
        name, was = subject.id, self.kept.get(subject.id)
        if act == "add":
            known = was or Kept(subject)
            self.kept[name] = replace(known, memory=subject, withdrawn=False)
        elif act == "forget":
            self.kept.pop(name, None)
        elif was:
            changes: dict[str, dict[str, Any]] = {
                "touch": {"accesses": was.accesses + 1},
                "suppress": {"suppressed": True},
                "unsuppress": {"suppressed": False},
                "withdraw": {"withdrawn": True},
            }
            self.kept[name] = replace(was, **changes.get(act, {}))

    def ranked(self, now: float, message: str = "") -> tuple[Ranked, ...]:
        """Rank all of them."""
        return ranked(self.kept.values(), 40.0, now=day(now), message=message)


def do(attention: Attention, act: str, subject: Memory, now: float) -> None:
    """Do one thing to attention."""
    if act == "add":
        attention.add(USER, subject, now=day(now))
    elif act == "prune":
        attention.prune(USER, now=day(now))
    else:
        getattr(attention, act)(USER, subject.id, now=day(now))


@contextmanager
def opened(kind: str | Redis, capacity: int = 200) -> Iterator[Attention]:
    """Open attention over an empty store."""
    if isinstance(kind, Redis):
        kind.flushall()
        yield RedisAttention(kind, capacity=capacity)
    elif kind == "memory":
        yield StoreAttention(InMemoryStore(), capacity=capacity)
    else:
        with SqliteStore.from_conn_string(":memory:") as store:
            yield StoreAttention(store, capacity=capacity)


def differences(kind: str | Redis, drawn: list[Step]) -> list[Step]:
    """Return the steps after which attention is not what ranking all memories gives."""
    known, now, found = Known(), 0.0, []
    with opened(kind) as attention:
        for step in drawn:
            passed, act, name, base, keywords = step
            now += passed
            subject = memory(name, base, now, keywords)
            do(attention, act, subject, now)
            known.do(act, subject)
            beside = attention.refresh_for_context(USER, MESSAGE, 99, now=day(now))
            stands = [attention.explain(USER, one, now=day(now)) for one in NAMES]
            inside = {one.id for one in stands if one and one.attended}
            top = attention.top(USER, 99, now=day(now))
            all_of_them = known.ranked(now)
            if (
                top != all_of_them
                or beside != known.ranked(now, MESSAGE)
                or inside != {one.id for one in all_of_them}
            ):
                found.append(step)
    return found


@settings(suppress_health_check=SLOW, max_examples=150)
@given(steps)
def test_it_is_the_ranking_of_all(drawn: list[Step]) -> None:
    """Below capacity attention is what ranking all memories gives, with a message or without."""
    found = differences("memory", drawn)

    assert found == []


@settings(suppress_health_check=SLOW, max_examples=30)
@given(steps)
def test_it_is_the_ranking_of_all_in_a_database(drawn: list[Step]) -> None:
    """The same holds in a SQLite store."""
    found = differences("sqlite", drawn)

    assert found == []


def lost(kind: str | Redis, drawn: list[Step], capacity: int) -> list[Step]:
    """Return the steps that left attention other than the best of those that were in it.

    In it were those before the step that had not faded, and the one it was about.
    """
    known, now, before, found = Known(), 0.0, set[str](), []
    with opened(kind, capacity) as attention:
        for step in drawn:
            passed, act, name, base, keywords = step
            now += passed
            subject = memory(name, base, now, keywords)
            do(attention, act, subject, now)
            known.do(act, subject)
            asked = {name} if act in ENTERING else set()
            best = [one for one in known.ranked(now) if one.id in before | asked][:capacity]
            top = attention.top(USER, 99, now=day(now))
            if top != tuple(best):
                found.append(step)
            before = {one.id for one in top}
    return found


@settings(suppress_health_check=SLOW, max_examples=150)
@given(steps, st.integers(1, 4))
def test_nothing_above_the_cut_is_lost(drawn: list[Step], capacity: int) -> None:
    """At capacity those stay that hold most at the moment of the cut."""
    found = lost("memory", drawn, capacity)

    assert found == []


@settings(suppress_health_check=SLOW, max_examples=30)
@given(steps, st.integers(1, 4))
def test_nothing_above_the_cut_is_lost_in_a_database(drawn: list[Step], capacity: int) -> None:
    """The same holds in a SQLite store."""
    found = lost("sqlite", drawn, capacity)

    assert found == []


@settings(suppress_health_check=SLOW, max_examples=30)
@given(steps, st.integers(1, 4))
def test_nothing_above_the_cut_is_lost_in_redis(
    running_redis: RedisServer, drawn: list[Step], capacity: int
) -> None:
    """The same holds in Redis."""
    with running_redis.client() as client:
        found = lost(client, drawn, capacity)

    assert found == []
