"""What is in a user's attention in Redis: the sorted set, which is a cache of what the hashes say.

It is built when it is missing, by whoever asks for it. Who builds it marks it first, so that what
others write meanwhile reaches it: they write to it wherever it is. What stands in it and should not
is found when its hash is read, which every reading does. The law of fading is only in `fading`.
"""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from redis import Redis, WatchError
from redis.client import Pipeline

from .attention import Kept, Ranked, ranked
from .redis_keys import CHUNK, FIELDS, Keys, Stored, chunks, plain, quoted, stored

DAY_SECONDS = 24 * 60 * 60
"""How long the sorted set outlives its last use, in seconds."""

_BUILDS = 16
_MARK_BYTES = 8

# A set that was deleted has lost its marks: whoever began to build it must begin again.
_OPEN = """
if redis.call('EXISTS', KEYS[2]) == 0 then redis.call('DEL', KEYS[1]) return 1 end
local built = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not built then redis.call('ZADD', KEYS[1], -1, ARGV[2]) end
redis.call('EXPIRE', KEYS[1], ARGV[3])
return built and 1 or 0
"""
_BUILT = """
if not redis.call('ZSCORE', KEYS[1], ARGV[2]) then return 0 end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(0')
redis.call('ZADD', KEYS[1], -1, ARGV[1])
for i = 4, #ARGV, 2 do redis.call('ZADD', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
"""
_ENTER = """
if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return redis.call('ZCOUNT', KEYS[1], 0, '+inf')
"""
# Of more than may stay, each leaves whose hash is still as it was read.
_LEAVE = """
local left = 0
for i = 2, #KEYS do
  if redis.call('ZCOUNT', KEYS[1], 0, '+inf') <= tonumber(ARGV[1]) then break end
  local version = redis.call('HGET', KEYS[i], 'version') or ''
  if version == ARGV[2 * i - 1] then left = left + redis.call('ZREM', KEYS[1], ARGV[2 * i - 2]) end
end
return left
"""
_FORGOTTEN = "if redis.call('EXISTS', KEYS[2]) == 0 then redis.call('DEL', KEYS[1]) end"


@dataclass(frozen=True, slots=True)
class Members:
    """What is in the attention of a user: at most `capacity` memories that hold the threshold."""

    client: Redis
    keys: Keys
    threshold: float
    capacity: int

    def names(self, now: datetime) -> list[str]:
        """Return the names of the memories, whose number may be above the capacity for a moment."""
        for _ in range(_BUILDS):
            mark = f":building:{secrets.token_hex(_MARK_BYTES)}"
            pipeline = self.client.pipeline()
            sets = (self.keys.attention, self.keys.memories)
            pipeline.eval(_OPEN, len(sets), *sets, self._built, mark, DAY_SECONDS)
            pipeline.zrangebyscore(self.keys.attention, 0, "+inf")
            built, names = pipeline.execute()
            if built:
                return [plain(name) for name in names]
            self._build(mark, now)
        raise WatchError

    def read(self, names: Iterable[str]) -> dict[str, Stored | None]:
        """Return what the hashes of memories hold, by name."""
        found: dict[str, Stored | None] = {}
        for chunk in chunks(names):
            pipeline = self.client.pipeline(transaction=False)
            for name in chunk:
                pipeline.hmget(self.keys.memory(name), FIELDS)
            answers = pipeline.execute()
            found |= {
                name: stored(name, answer) for name, answer in zip(chunk, answers, strict=True)
            }
        return found

    def settle(self, now: datetime) -> tuple[tuple[Ranked, ...], int]:
        """Score the memories anew, let leave what must; return the others, and how many faded."""
        read = self.read(self.names(now))
        inside = ranked((one.kept for one in read.values() if one), self.threshold, now=now)
        scores = {quoted(one.id): one.effective for one in inside}
        lowest = reversed(list(scores)[self.capacity :])
        pipeline = self.client.pipeline()
        self._leave(pipeline, {name: one for name, one in read.items() if name not in scores}, 0)
        self._leave(pipeline, {name: read[name] for name in lowest}, self.capacity)
        if scores:
            pipeline.zadd(self.keys.attention, scores, xx=True)
        faded, *_ = pipeline.execute()
        return inside[: self.capacity], faded

    def enter(self, pipeline: Pipeline, name: str, held: float) -> None:
        """Queue that a memory enters; the answer is how many are here then, -1 if unbuilt."""
        pipeline.eval(_ENTER, 1, self.keys.attention, held, name, DAY_SECONDS)

    def forget(self, pipeline: Pipeline, name: str) -> None:
        """Queue that a memory that was deleted leaves, and all else if it was the last one."""
        pipeline.zrem(self.keys.attention, name)
        pipeline.eval(_FORGOTTEN, 2, self.keys.attention, self.keys.memories)

    @property
    def _built(self) -> str:
        """The mark of a set that is complete; no name has a colon."""
        return f":built:{self.threshold}"

    def _build(self, mark: str, now: datetime) -> None:
        """Fill the set with what the hashes say, unless its mark was lost meanwhile."""
        found: dict[str, Kept] = {}
        for chunk in chunks(self.client.sscan_iter(self.keys.memories, count=CHUNK)):
            read = self.read(plain(name) for name in chunk)
            kepts = {name: one.kept for name, one in read.items() if one}
            found |= {
                name: kept for name, kept in kepts.items() if kept.enters(self.threshold, now)
            }
        highest = ranked(found.values(), self.threshold, now=now)[: self.capacity]
        pairs = [value for one in highest for value in (one.effective, quoted(one.id))]
        self.client.eval(_BUILT, 1, self.keys.attention, self._built, mark, DAY_SECONDS, *pairs)

    def _leave(self, pipeline: Pipeline, read: dict[str, Stored | None], least: int) -> None:
        """Queue that memories leave while more than `least` are here; the answer is how many."""
        versions = {name: one.version if one else "" for name, one in read.items()}
        keys = [self.keys.attention, *(self.keys.memory(name) for name in versions)]
        pairs = [value for pair in versions.items() for value in pair]
        pipeline.eval(_LEAVE, len(keys), *keys, least, *pairs)
