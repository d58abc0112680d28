"""Attention kept in Redis, where many processes write at once and no access is lost."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from typing import Self, TypeVar

from redis import Redis, RedisError, WatchError
from redis.backoff import NoBackoff
from redis.client import Pipeline
from redis.retry import Retry
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from .attention import Explanation, Kept, Memory, Ranked, explained, ranked
from .errors import AttentionError
from .fading import index_terms
from .keeping import unquoted
from .redis_index import list_terms, sharing, unlist
from .redis_keys import FIELDS, Keys, Stored, fields, new_version, plain, quoted, stored
from .redis_members import Members

T = TypeVar("T")

_PATIENCE = 1.0
"""Seconds that `from_url` waits for an answer."""

_retrying = Retrying(
    retry=retry_if_exception_type(WatchError),
    stop=stop_after_attempt(100),
    wait=wait_random_exponential(multiplier=0.001, max=0.1),
    reraise=True,
)
"""Tries a change again that another writer of the same memory came between."""


class RedisAttention:
    """Attention in one Redis server, version 6 or newer; see the protocol `Attention`.

    Threads, processes and machines may share it; all should have the same threshold and capacity.
    The keys are listed in `redis_keys`.

    A `redis.Redis` with the defaults waits 5 seconds for an answer and asks ten times more. So that
    a server that hangs does not hold a turn for a minute, `from_url` makes one that gives up
    sooner. If the connection breaks while an access is written and another is written just then,
    the first may be counted twice.

    Let the server evict nothing, or only keys that expire (`volatile-…`). Only the sorted set does,
    a day after its last use; it is built again from the rest. What is forgotten is in no key; the
    server's files lose it when it writes them anew (`BGREWRITEAOF`, `BGSAVE`).
    """

    def __init__(self, client: Redis, *, threshold: float = 40.0, capacity: int = 200) -> None:
        """Keep attention by a client with a pool, which may decode answers or not; not a cluster.

        Up to `capacity` memories of a user are in attention, those at `threshold` (0-100) or above.
        """
        self._client = client
        self._threshold = threshold
        self._capacity = capacity

    @classmethod
    def from_url(cls, url: str, *, threshold: float = 40.0, capacity: int = 200) -> Self:
        """Return attention on the server of a URL such as redis://localhost:6379/0.

        It asks twice and waits a second each time. Raises `ValueError` if the URL is none.
        """
        client = Redis.from_url(
            url,
            socket_timeout=_PATIENCE,
            socket_connect_timeout=_PATIENCE,
            retry=Retry(NoBackoff(), 1),
        )
        return cls(client, threshold=threshold, capacity=capacity)

    def add(self, user_id: str, memory: Memory, *, now: datetime) -> None:
        """Keep a memory, or renew it; it enters if it is at the threshold or above."""

        def renewed(was: Kept | None) -> Kept:
            return replace(was or Kept(memory), memory=memory, withdrawn=False)

        with _reported("keep a memory"):
            self._change(user_id, memory.id, renewed, now)

    def touch(self, user_id: str, memory_id: str, *, now: datetime) -> None:
        """Count an access; the memory may enter again."""
        with _reported("count an access"):
            self._change(
                user_id, memory_id, lambda was: was and replace(was, accesses=was.accesses + 1), now
            )

    def top(self, user_id: str, limit: int, *, now: datetime) -> tuple[Ranked, ...]:
        """Return the memories that hold most of attention; those that have faded leave first."""
        with _reported("tell what is in attention"):
            inside, _ = self._members(user_id).settle(now)
        return inside[: max(0, limit)]

    def prune(self, user_id: str, *, now: datetime) -> int:
        """Let those leave that have faded, and return how many did."""
        with _reported("let leave what has faded"):
            _, faded = self._members(user_id).settle(now)
        return faded

    def refresh_for_context(
        self, user_id: str, message: str, limit: int, *, now: datetime
    ) -> tuple[Ranked, ...]:
        """Return what `top` would if a message were the context, of all memories.

        Only the members are read, and those that share a term and could be lifted so far.
        """
        with _reported("tell what a message relates to"):
            found = self._related(user_id, message, now)
        return ranked(found, self._threshold, now=now, message=message)[: max(0, limit)]

    def suppress(self, user_id: str, memory_id: str, *, now: datetime) -> bool:
        """Take a memory out of attention until `unsuppress`; tell whether it is known."""
        with _reported("suppress a memory"):
            return self._suppress(user_id, memory_id, now, suppressed=True)

    def unsuppress(self, user_id: str, memory_id: str, *, now: datetime) -> bool:
        """Undo `suppress`: the memory may enter again; tell whether it is known."""
        with _reported("undo a suppression"):
            return self._suppress(user_id, memory_id, now, suppressed=False)

    def suppressed(self, user_id: str, *, now: datetime) -> tuple[str, ...]:  # noqa: ARG002 (the protocol's)
        """Return the ids of the memories that are suppressed, in order."""
        with _reported("list what is suppressed"):
            names = self._client.smembers(Keys(user_id).suppressed)
        return tuple(sorted(unquoted(plain(name)) for name in names))

    def withdraw(self, user_id: str, memory_id: str, *, now: datetime) -> None:
        """Take out a memory whose effort was reopened, until it is added again."""
        with _reported("withdraw a memory"):
            self._change(user_id, memory_id, lambda was: was and replace(was, withdrawn=True), now)

    def forget(self, user_id: str, memory_id: str, *, now: datetime) -> None:  # noqa: ARG002 (as above)
        """Delete all that is kept of a memory."""
        keys, name = Keys(user_id), quoted(memory_id)

        def delete(pipeline: Pipeline, was: Stored | None) -> None:
            pipeline.multi()
            pipeline.delete(keys.memory(name))
            pipeline.srem(keys.memories, name)
            pipeline.srem(keys.suppressed, name)
            for term in index_terms(was.kept.memory.keywords) if was else ():
                pipeline.srem(keys.keyword(term), name)
            self._members(user_id).forget(pipeline, name)
            pipeline.execute()

        with _reported("forget a memory"):
            self._watching(user_id, memory_id, delete)

    def explain(self, user_id: str, memory_id: str, *, now: datetime) -> Explanation | None:
        """Return how a memory stands, None if it is unknown."""
        name, members = quoted(memory_id), self._members(user_id)
        with _reported("explain a memory"):
            here = name in members.names(now)
            found = members.read([name])[name]
        if found is None:
            return None
        attended = here and found.kept.enters(self._threshold, now)
        return explained(found.kept, self._threshold, attended=attended, now=now)

    def _members(self, user_id: str) -> Members:
        return Members(self._client, Keys(user_id), self._threshold, self._capacity)

    def _suppress(self, user_id: str, memory_id: str, now: datetime, *, suppressed: bool) -> bool:
        return self._change(
            user_id, memory_id, lambda was: was and replace(was, suppressed=suppressed), now
        )

    def _related(self, user_id: str, message: str, now: datetime) -> list[Kept]:
        """Return the members and what the message could lift; the index loses what it could not."""
        keys, members = Keys(user_id), self._members(user_id)
        listed = sharing(self._client, keys, message)
        read = members.read(dict.fromkeys([*members.names(now), *listed]))
        found = {
            name: one.kept
            for name, one in read.items()
            if one and one.kept.is_liftable(self._threshold, now)
        }
        idle = {name: terms for name, terms in listed.items() if name not in found}
        unlist(self._client, keys, idle, read)
        return list(found.values())

    def _change(
        self,
        user_id: str,
        memory_id: str,
        change: Callable[[Kept | None], Kept | None],
        now: datetime,
    ) -> bool:
        """Change what is kept of a memory in one step; tell whether there is anything now."""
        version, members = new_version(), self._members(user_id)

        def write(pipeline: Pipeline, was: Stored | None) -> int | None:
            kept = change(was.kept if was else None)
            if kept is None:
                return None
            if was and was.version == version:  # written, only the answer was lost
                return 0
            pipeline.multi()
            _queue(pipeline, members, was, Stored(kept, version), now)
            size: int = pipeline.execute()[-1]
            return size

        size = self._watching(user_id, memory_id, write)
        if size is not None and not 0 <= size <= self._capacity:
            with suppress(RedisError):  # the change is made; the next reading settles the rest
                members.settle(now)
        return size is not None

    def _watching(
        self, user_id: str, memory_id: str, write: Callable[[Pipeline, Stored | None], T]
    ) -> T:
        """Read a memory and write what follows from it, again if another writer came between."""
        key, name = Keys(user_id).memory(quoted(memory_id)), quoted(memory_id)

        def once() -> T:
            with self._client.pipeline() as pipeline:
                pipeline.watch(key)  # type: ignore[no-untyped-call]
                return write(pipeline, stored(name, pipeline.hmget(key, FIELDS)))

        return _retrying(once)


def _queue(
    pipeline: Pipeline, members: Members, was: Stored | None, written: Stored, now: datetime
) -> None:
    """Queue what one memory's change changes; the last answer is how many are in attention then."""
    keys, kept, name = members.keys, written.kept, quoted(written.kept.memory.id)
    listed = kept.is_liftable(members.threshold, now)
    former = index_terms(was.kept.memory.keywords) if was else ()
    terms = dict.fromkeys(former, False) | dict.fromkeys(index_terms(kept.memory.keywords), listed)
    pipeline.hset(keys.memory(name), mapping=fields(written))
    pipeline.sadd(keys.memories, name)
    if kept.suppressed:
        pipeline.sadd(keys.suppressed, name)
    else:
        pipeline.srem(keys.suppressed, name)
    list_terms(pipeline, keys, name, terms)
    if kept.enters(members.threshold, now):
        members.enter(pipeline, name, kept.holds(now))
    else:
        pipeline.zrem(keys.attention, name)


@contextmanager
def _reported(what: str) -> Iterator[None]:
    """Raise `AttentionError` for what Redis raises, whose texts may name hosts and values."""
    try:
        yield
    except RedisError as error:
        raise AttentionError(
            f"Redis could not {what} ({type(error).__name__}): check the server and the client"
        ) from None
