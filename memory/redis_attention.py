"""Attention in Redis: a cache of scores in front of the archive's table, for many readers.

Users stand in keys, and memories in members and fields, as URLs quote them:

- `ebbtide:<user>:attention`, a sorted set: what is in attention, by what it held when it was read;
- `ebbtide:<user>:memories`, a hash: what the law asks of these, and of what a message could lift;
  its field `*` says with which numbers and when both were written;
- `ebbtide:<user>:changes`, a number that each change of the table raises.

All expire after a day. Writers change the table, then delete; a reader that finds nothing reads the
table, and keeps that only if the number of changes is still the same. So nothing is ever lost here.
"""

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from threading import Lock
from time import monotonic
from typing import Any, Self, TypeVar
from urllib.parse import quote

from redis import Redis, RedisError, WatchError
from redis.backoff import NoBackoff
from redis.retry import Retry

from .archive.memories import SqlAttention
from .attention.law import Kept, Memory

T = TypeVar("T")

_DAY_SECONDS = 24 * 60 * 60
"""After a day without use a user's attention is read from the table again."""

_TIMEOUT = 1.0
"""Seconds that `from_url` waits for an answer, twice: turns must not wait for one that hangs."""

_REST = 10.0
"""Seconds in which a server that failed is not asked again: a turn asks several times."""

_BUILT = "*"
"""The field that no memory has, since `quote` writes it in another way."""

_log = logging.getLogger("ebbtide.attention")


class RedisAttention(SqlAttention):
    """Attention whose readings are cached in Redis; what writes is that of the table.

    Threads, processes and machines may share a server (no cluster), of which any key may be evicted
    or flushed; each archive needs a database of its own there. If it cannot be reached the table
    answers. What changed meanwhile it is told by the next call of the process that changed it;
    until then, a day at most, others may read what was.
    """

    def __init__(self, client: Redis, table: SqlAttention) -> None:
        """Cache what `archive.attention(...)` reads by a client, which may decode or not."""
        super().__init__(table.database, threshold=table.threshold, capacity=table.capacity)
        self._client = client
        self._late: dict[str, object] = {}
        # Without it a change would never be told that comes while those that were told are dropped.
        self._lock, self._away, self._rested = Lock(), False, 0.0

    @classmethod
    def from_url(cls, url: str, table: SqlAttention) -> Self:
        """Return attention cached on the server of a URL such as redis://localhost:6379/0.

        Raises `ValueError` if the URL is none.
        """
        once = Retry(NoBackoff(), 1)
        patience = {"socket_timeout": _TIMEOUT, "socket_connect_timeout": _TIMEOUT}
        return cls(Redis.from_url(url, retry=once, **patience), table)

    def changed(self, user_id: str) -> bool:
        """Delete what was read of a user: the table has changed; False if Redis is not reached."""
        with self._lock:
            self._late[user_id] = object()
        return bool(self._ask(lambda: True))

    def attended(self, user_id: str, *, now: datetime) -> tuple[Kept, ...]:
        """Return what has entered, and did not leave at a reading."""
        return tuple(kept for kept in self.within_reach(user_id, now=now) if kept.attended)

    def within_reach(self, user_id: str, *, now: datetime) -> tuple[Kept, ...]:
        """Return what is attended, and what a message could lift to the threshold."""
        kept = self._ask(lambda: self._cached(user_id, now))
        if kept is None:
            kept = self._ask(lambda: self._built(user_id, now))
        return super().within_reach(user_id, now=now) if kept is None else kept

    def _cached(self, user_id: str, now: datetime) -> tuple[Kept, ...] | None:
        """Return what the cache has; None if it has not all, or was written for other numbers."""
        attention, memories, _ = _keys(user_id)
        pipeline = self._client.pipeline()
        pipeline.zrange(attention, 0, -1)
        pipeline.hgetall(memories)
        found = []
        try:
            members, fields = pipeline.execute()
            inside = {*map(_plain, members)}
            packed = {_plain(name): json.loads(text) for name, text in fields.items()}
            *numbers, at = packed.pop(_BUILT, [0])
            if numbers != [self.threshold, self.capacity, len(inside)] or at > now.timestamp():
                return None
            for name, (memory_id, base, created, keywords, accesses) in packed.items():
                moment = datetime.fromisoformat(created)
                memory = Memory(memory_id, base, moment, tuple(keywords))
                found.append(Kept(memory, accesses, attended=name in inside))
        except (TypeError, ValueError):  # nobody of us wrote that
            return None
        return tuple(found)

    def _built(self, user_id: str, now: datetime) -> tuple[Kept, ...]:
        """Read the table, and cache what it says unless that changes meanwhile."""
        attention, memories, changes = _keys(user_id)
        with self._client.pipeline() as pipeline:
            pipeline.watch(changes)  # type: ignore[no-untyped-call]
            kept = super().within_reach(user_id, now=now)
            fields: dict[Any, Any] = {}
            for one in kept:
                memory, created = one.memory, one.memory.created.isoformat()
                packed = [memory.id, memory.base, created, memory.keywords, one.accesses]
                fields[_quoted(memory.id)] = json.dumps(packed)
            scores = {_quoted(one.memory.id): one.holds(now) for one in kept if one.attended}
            numbers = [self.threshold, self.capacity, len(scores), now.timestamp()]
            pipeline.multi()
            pipeline.delete(attention, memories)
            pipeline.hset(memories, mapping={**fields, _BUILT: json.dumps(numbers)})
            pipeline.expire(memories, _DAY_SECONDS)
            if scores:
                pipeline.zadd(attention, scores)
                pipeline.expire(attention, _DAY_SECONDS)
            with suppress(WatchError):
                pipeline.execute()
        return kept

    def _ask(self, ask: Callable[[], T]) -> T | None:
        """Ask Redis, after telling it of earlier changes; None if it cannot be reached."""
        if monotonic() < self._rested:
            return None
        try:
            self._delete_late()
            answer = ask()
        except RedisError as error:
            with self._lock:
                away, self._away, self._rested = self._away, True, monotonic() + _REST
            if not away:
                kind = type(error).__name__  # its text may name hosts and values
                _log.warning("Redis failed (%s): attention is read from the table meanwhile", kind)
            return None
        self._away = False
        return answer

    def _delete_late(self) -> None:
        """Delete what was read of all users whose table changed, and raise their number."""
        late = dict(self._late)
        if not late:
            return
        pipeline = self._client.pipeline()
        for user_id in late:
            *cached, changes = _keys(user_id)
            pipeline.incr(changes)
            pipeline.expire(changes, _DAY_SECONDS)
            pipeline.delete(*cached)
        pipeline.execute()
        with self._lock:  # another change may have come since
            self._late = {k: mark for k, mark in self._late.items() if late.get(k) is not mark}


def _keys(user_id: str) -> tuple[str, str, str]:
    user = f"ebbtide:{_quoted(user_id)}"
    return f"{user}:attention", f"{user}:memories", f"{user}:changes"


def _quoted(name: str) -> str:
    return quote(name, safe="", errors="surrogatepass")


def _plain(answer: bytes | str) -> str:
    return answer.decode() if isinstance(answer, bytes) else answer
