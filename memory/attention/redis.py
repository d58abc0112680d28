"""Cache the attention of users in Redis, in front of the archive's table.

Keys per user, whose name is quoted as in URLs, after a prefix:

- `ebbtide:<user>:attention`, a sorted set: the ids of the memories in attention, by their score
  when they were written;
- `ebbtide:<user>:memories`, a hash: what scores are computed from, of these and of memories that a
  message could raise; its field `*` has the threshold, the capacity, the size and the time;
- `ebbtide:<user>:changes`, a counter of changes of the table.

All expire after a day. A writer changes the table, deletes what is cached and writes it anew, so
that other readers of Redis see it at once. A reader that finds no cache reads the table. What was
read is cached only if the counter is unchanged, so no change is lost.
"""

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Self, TypeVar
from urllib.parse import quote

try:
    from redis import Redis, RedisError, WatchError
    from redis.backoff import NoBackoff
    from redis.retry import Retry
except ImportError as error:
    problem = f"RedisAttention needs an extra: pip install 'ebbtide[redis]' ({error})"
    raise ImportError(problem) from error

from ..archive.memories import SqlAttention
from ..errors import AttentionError
from ..locks import CACHES
from .law import Kept, Memory

T = TypeVar("T")

_DAY_SECONDS = 24 * 60 * 60
"""Seconds after which a user's attention is read from the table again."""

_TIMEOUT = 1.0
"""Seconds that `from_url` waits for an answer, twice: a turn must not wait for a hanging server."""

_REST = 10.0
"""Seconds for which a failed server is left alone: a turn would wait for it several times."""

_BUILT = "*"
"""A field that no memory can have, since `quote` escapes it."""

_log = logging.getLogger("ebbtide.attention")


class RedisAttention(SqlAttention):
    """A cache of attention in Redis. Writes go to the archive's table.

    Threads, processes and machines may share a server (no cluster), and keys may be evicted or
    flushed; each archive needs a Redis database of its own. While Redis cannot be reached, the
    table is read. If a process changes something meanwhile, its next call deletes the outdated
    cache; until then, for a day at most, other processes may read old values.
    """

    def __init__(self, client: Redis, table: SqlAttention, *, prefix: str = "ebbtide") -> None:
        """Cache reads of `archive.attention(...)` with a client, decoding responses or not."""
        super().__init__(table.database, threshold=table.threshold, capacity=table.capacity)
        self._client, self._prefix = client, prefix
        self._late: dict[str, object] = {}
        self._away, self._rested = False, 0.0

    @classmethod
    def from_url(cls, url: str, table: SqlAttention, *, prefix: str = "ebbtide") -> Self:
        """Return attention cached on the server of a URL such as redis://localhost:6379/0.

        Raises `ValueError` for anything else.
        """
        # Once, at once: the server may have closed an idle connection; else the table answers.
        retry = Retry(NoBackoff(), 1)
        timeouts = {"socket_timeout": _TIMEOUT, "socket_connect_timeout": _TIMEOUT}
        return cls(Redis.from_url(url, retry=retry, **timeouts), table, prefix=prefix)

    def changed(self, user_id: str) -> bool:
        """Rebuild the cache of a user whose table has changed; False if Redis cannot be reached."""
        with CACHES:  # else a change would be lost that comes while earlier ones are dropped
            self._late[user_id] = object()
        return bool(self._ask(lambda: self._written(user_id)))

    def _written(self, user_id: str) -> bool:
        with suppress(AttentionError):  # the next reader reads the table
            self._built(user_id, datetime.now(UTC))
        return True

    def attended(self, user_id: str, *, now: datetime) -> tuple[Kept, ...]:
        """Return the memories in attention as of the last read."""
        return tuple(m for m in self.within_reach(user_id, now=now) if m.attended)

    def within_reach(self, user_id: str, *, now: datetime) -> tuple[Kept, ...]:
        """Return the memories in attention, and those that a message could raise into it."""
        memories = self._ask(lambda: self._cached(user_id, now))
        if memories is None:
            memories = self._ask(lambda: self._built(user_id, now))
        return super().within_reach(user_id, now=now) if memories is None else memories

    def _cached(self, user_id: str, now: datetime) -> tuple[Kept, ...] | None:
        """Return what is cached; None if it is incomplete, or for another threshold or capacity."""
        attention, memories, _ = _keys(self._prefix, user_id)
        pipeline = self._client.pipeline()
        pipeline.zrange(attention, 0, -1)
        pipeline.hgetall(memories)
        cached = []
        try:
            members, fields = pipeline.execute()
            packed = {_decoded(name): json.loads(text) for name, text in fields.items()}
            *numbers, at = packed.pop(_BUILT, [0])
            if numbers != [self.threshold, self.capacity, len(members)] or at > now.timestamp():
                return None
            for memory_id, base, created, keywords, accesses, attended in packed.values():
                moment = datetime.fromisoformat(created)
                memory = Memory(memory_id, base, moment, tuple(keywords))
                cached.append(Kept(memory, accesses, attended=attended))
        except (TypeError, ValueError):  # another program wrote it
            return None
        return tuple(cached)

    def _built(self, user_id: str, now: datetime) -> tuple[Kept, ...]:
        """Read the table, and cache that unless the table changes meanwhile."""
        attention, memories, changes = _keys(self._prefix, user_id)
        with self._client.pipeline() as pipeline:
            pipeline.watch(changes)  # type: ignore[no-untyped-call]  # redis has no types for it
            # A moment before the watch may lack a change that it counted.
            self.database.end_moment()
            stored = super().within_reach(user_id, now=now)
            fields: dict[Any, Any] = {}
            for item in stored:
                memory, created = item.memory, item.memory.created.isoformat()
                values = memory.base, created, memory.keywords, item.accesses, item.attended
                fields[_quoted(memory.id)] = json.dumps([memory.id, *values])
            scores = {_encoded(one.id): one.effective for one in self._inside(stored, now)}
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
        return stored

    def _ask(self, command: Callable[[], T]) -> T | None:
        """Run a command after the deletions still due; None if Redis cannot be reached."""
        if monotonic() < self._rested:
            return None
        try:
            self._delete_late()
            answer = command()
        except RedisError as error:
            with CACHES:
                away, self._away, self._rested = self._away, True, monotonic() + _REST
            if not away:
                kind = type(error).__name__  # its text may name hosts and values
                _log.warning("Redis failed (%s): attention is read from the table meanwhile", kind)
            return None
        self._away = False
        return answer

    def _delete_late(self) -> None:
        """Delete the caches of all users whose table changed, and count the changes."""
        late = dict(self._late)
        if not late:
            return
        pipeline = self._client.pipeline()
        for user_id in late:
            *cached, changes = _keys(self._prefix, user_id)
            pipeline.incr(changes)
            pipeline.expire(changes, _DAY_SECONDS)
            pipeline.delete(*cached)
        pipeline.execute()
        with CACHES:  # another change may have come since
            self._late = {k: mark for k, mark in self._late.items() if late.get(k) is not mark}


def _encoded(memory_id: str) -> bytes:
    return memory_id.encode(errors="surrogatepass")


def _keys(prefix: str, user_id: str) -> tuple[str, str, str]:
    user = f"{prefix}:{_quoted(user_id)}"
    return f"{user}:attention", f"{user}:memories", f"{user}:changes"


def _quoted(name: str) -> str:
    return quote(name, safe="", errors="surrogatepass")


def _decoded(answer: bytes | str) -> str:
    return answer.decode(errors="surrogatepass") if isinstance(answer, bytes) else answer
