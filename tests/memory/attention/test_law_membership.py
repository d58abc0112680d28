"""Membership and order for any sequence of operations, against all memories ranked at once."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.attention.law import (
    Attention,
    Explanation,
    Kept,
    Memory,
    Ranked,
    ranked,
)
from ebbtide.memory.attention.redis import RedisAttention
from tests.draws import examples
from tests.memory.attention.conftest import Place
from tests.memory.remembering import USER, day, memory
from tests.redis_server import RedisServer

Step: TypeAlias = tuple[float, str, str, int, tuple[str, ...]]
"""Days that pass before it, what is done, to which memory, and its base and keywords if added."""

ACTS = ("add", "add", "touch", "touch", "suppress", "unsuppress", "forget", "prune")
WORDS = ("axios", "redis", "refresh token", "token", "the")
NAMES = ("t1/a", "t1/b", "t2/a", "t2/b", "t3/a")
MESSAGE = "axios and a token"
THRESHOLD = 40.0
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

LIVED: list[Step] = [
    *((0, act, "t1/b", 50, ()) for act in ("touch", "suppress", "unsuppress", "forget")),
    *((0, "add", name, base, ("axios",)) for name, base in (("t1/a", 50), ("t1/b", 60))),
    *((days, "prune", "t1/a", 50, ()) for days in (20, 1)),
    (0, "touch", "t1/a", 50, ()),
    *((0, act, "t1/b", 90, ()) for act in ("suppress", "touch", "add", "unsuppress", "suppress")),
    *((0, act, "t1/b", 50, ()) for act in ("forget", "add", "touch")),
    (1, "add", "t1/a", 36, ("redis",)),
    (40, "prune", "t1/a", 50, ()),
    (0, "add", "t1/b", 60, ()),
]
"""What is unknown, fades, comes back, is suppressed and accessed, forgotten, and begins anew."""


@dataclass
class Known:
    """All that was kept of each memory, in a plain dictionary."""

    kept: dict[str, Kept] = field(default_factory=dict)

    def do(self, act: str, subject: Memory) -> bool | None:
        """Do to the dictionary what was done to attention, and return what that should answer."""
        name, was = subject.id, self.kept.get(subject.id)
        if act == "add":
            known = was or Kept(subject)
            self.kept[name] = replace(known, memory=subject)
        elif act == "forget":
            self.kept.pop(name, None)
        elif was:
            changes: dict[str, dict[str, Any]] = {
                "touch": {"accesses": was.accesses + 1},
                "suppress": {"suppressed": True},
                "unsuppress": {"suppressed": False},
            }
            self.kept[name] = replace(was, **changes.get(act, {}))
        return bool(was) if act in ("suppress", "unsuppress") else None

    def faded(self, inside: set[str], now: float) -> int:
        """Return how many of these are below the threshold."""
        return sum(self.kept[name].holds(day(now)) < THRESHOLD for name in inside)

    def explained(self, name: str, inside: set[str], now: float) -> Explanation | None:
        """Explain a memory."""
        if name not in self.kept:
            return None
        return self.kept[name].explained(THRESHOLD, attended=name in inside, now=day(now))

    def ranked(self, now: float, message: str = "") -> tuple[Ranked, ...]:
        """Rank all of them."""
        return ranked(self.kept.values(), THRESHOLD, now=day(now), message=message)


def do(attention: Attention, act: str, subject: Memory, now: float) -> int | None:
    """Do one thing to attention, and return what it answers."""
    about = {"add": (subject,), "prune": ()}.get(act, (subject.id,))
    answer: int | None = getattr(attention, act)(USER, *about, now=day(now))
    return answer


def differences(attention: Attention, drawn: list[Step]) -> list[Step]:
    """Return the steps after which attention is not what ranking all memories gives."""
    known, now, found = Known(), 0.0, []
    inside = set[str]()
    for step in drawn:
        passed, act, name, base, keywords = step
        now += passed
        subject = memory(name, base, now, keywords)
        faded = known.faded(inside, now)
        answer, wanted = do(attention, act, subject, now), known.do(act, subject)
        beside = attention.refresh_for_context(USER, MESSAGE, 99, now=day(now))
        stands = [attention.explain(USER, one, now=day(now)) for one in NAMES]
        top = attention.top(USER, 99, now=day(now))
        all_of_them = known.ranked(now)
        inside = {one.id for one in all_of_them}
        suppressed = sorted(name for name, kept in known.kept.items() if kept.suppressed)
        if (
            answer != (faded if act == "prune" else wanted)
            or top != all_of_them
            or beside != known.ranked(now, MESSAGE)
            or stands != [known.explained(one, inside, now) for one in NAMES]
            or attention.suppressed(USER, now=day(now)) != tuple(suppressed)
            or {*attention.remembered(USER)} != {*known.kept}
        ):
            found.append(step)
    return found


@pytest.mark.thorough
@settings(suppress_health_check=SLOW, max_examples=examples(8))
@given(steps)
@example(LIVED)
def test_it_is_the_ranking_of_all(place: Place, drawn: list[Step]) -> None:
    """Below capacity attention is what ranking all memories gives, with a message or without.

    Each method answers and explains as the law says; reading changes nothing.
    """
    place.empty()
    found = differences(place.attention(), drawn)

    assert found == []


def lost(attention: Attention, drawn: list[Step], capacity: int) -> list[Step]:
    """Return the steps that left attention other than the best of those that were in it.

    In it were those before the step that had not faded, and the one it was about.
    """
    known, now, before, found = Known(), 0.0, set[str](), []
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


@settings(suppress_health_check=SLOW, max_examples=examples(8))
@given(steps, st.integers(1, 4))
@example(LIVED, 1)
def test_nothing_above_the_cut_is_lost(place: Place, drawn: list[Step], capacity: int) -> None:
    """At capacity those stay that hold most at the moment of the cut."""
    place.empty()
    found = lost(place.attention(capacity=capacity), drawn, capacity)

    assert found == []


class Uncached(RedisAttention):
    """Attention whose cache is gone, half gone or full each time that it is read."""

    gone: tuple[str, ...] = ()

    def within_reach(self, user_id: str, *, now: datetime) -> tuple[Kept, ...]:
        """Read after some keys were deleted."""
        for name in self.gone:
            self._client.delete(f"ebbtide:{USER}:{name}")
        return super().within_reach(user_id, now=now)


@settings(suppress_health_check=SLOW, max_examples=examples(8))
@given(steps, st.lists(st.sampled_from(["attention", "memories", "changes"]), max_size=2))
def test_it_is_the_ranking_of_all_whatever_is_evicted(
    sqlite_archive: SqlArchive, running_redis: RedisServer, drawn: list[Step], gone: list[str]
) -> None:
    """The same holds if Redis has lost one key or another before each reading."""
    with running_redis.client() as client:
        Place(sqlite_archive, client).empty()
        attention = Uncached(client, sqlite_archive.attention())
        attention.gone = tuple(gone)
        found = differences(attention, drawn)

    assert found == []
