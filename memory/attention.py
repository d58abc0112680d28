"""Attention: which concluded efforts of a user are worth surfacing, in any session.

A memory fades from attention, not from storage: how much it holds is computed by the law in
`fading` whenever it is asked for.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from .fading import (
    DAY,
    Level,
    days_between,
    effective,
    fading_day,
    in_context,
    level,
    share_of,
)
from .terms import terms


@dataclass(frozen=True, slots=True)
class Memory:
    """A concluded effort of a user: its qualified id, and what the law asks of it.

    `base` is its importance, 0-100; `created` is when it was concluded, with a time zone.
    """

    id: str
    base: int
    created: datetime
    keywords: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ranked:
    """A memory in attention, how much it holds of it now, 0-100, and what a message says of it.

    `relevance` is the share of its keywords that the message holds, 0 without a message.
    """

    id: str
    effective: float
    relevance: float = 0.0


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a memory is in attention or not.

    `days` since it was created; `fades` is the first moment in UTC, by whole days since then, at
    which it is below the threshold without further access, None if it never is.
    """

    id: str
    base: int
    days: float
    accesses: int
    effective: float
    level: Level
    fades: datetime | None
    suppressed: bool
    attended: bool


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of a memory: how often it was accessed, and whether it was taken out.

    `attended`: it entered, and no reading has found yet that it must leave.
    """

    memory: Memory
    accesses: int = 0
    suppressed: bool = False
    withdrawn: bool = False
    attended: bool = False

    @property
    def may_enter(self) -> bool:
        """Whether nobody took it out."""
        return not (self.suppressed or self.withdrawn)

    def holds(self, now: datetime) -> float:
        """Return how much it holds of attention, 0-100."""
        memory = self.memory
        return effective(memory.base, days_between(memory.created, now), self.accesses)

    def enters(self, threshold: float, now: datetime) -> bool:
        """Tell whether it is in attention if there is room."""
        return self.may_enter and self.holds(now) >= threshold

    def is_liftable(self, threshold: float, now: datetime) -> bool:
        """Tell whether a message that has all its keywords could lift it to the threshold."""
        return in_context(self.holds(now), 1) >= threshold


class Attention(Protocol):
    """What is in each user's attention; whatever passes `tests/memory/attention` is one.

    Every method takes whose attention and when. A memory is in attention if it is at the threshold
    or above, unless it was suppressed or withdrawn, or did not fit in. What cannot be done raises
    `AttentionError`; nothing is then changed.
    """

    def add(self, user_id: str, memory: Memory, *, now: datetime) -> None:
        """Keep a memory; one that is known is renewed and keeps its accesses and suppression.

        It enters if it is at the threshold or above. If more than the capacity are in attention
        then, the lowest leaves.
        """

    def touch(self, user_id: str, memory_id: str, *, now: datetime) -> None:
        """Count an access; the memory may enter again. An unknown one changes nothing."""

    def top(self, user_id: str, limit: int, *, now: datetime) -> tuple[Ranked, ...]:
        """Return the memories that hold most of attention, ties newest first, then by id.

        Those that have faded leave first.
        """

    def prune(self, user_id: str, *, now: datetime) -> int:
        """Let those leave that have faded, and return how many did."""

    def refresh_for_context(
        self, user_id: str, message: str, limit: int, *, now: datetime
    ) -> tuple[Ranked, ...]:
        """Return what `top` would if a message were the context, of all memories; see `in_context`.

        It is for this call only: nothing enters or leaves. Withdrawn and suppressed ones are left
        out.
        """

    def changed(self, user_id: str) -> bool:
        """Forget what was read before of a user: the archive's table has changed.

        Tell whether it could be forgotten at once.
        """

    def suppress(self, user_id: str, memory_id: str, *, now: datetime) -> bool:
        """Take a memory out of attention until `unsuppress`; tell whether it is known."""

    def unsuppress(self, user_id: str, memory_id: str, *, now: datetime) -> bool:
        """Undo `suppress`: the memory may enter again; tell whether it is known."""

    def suppressed(self, user_id: str, *, now: datetime) -> tuple[str, ...]:
        """Return the ids of the memories that are suppressed, in order."""

    def withdraw(self, user_id: str, memory_id: str, *, now: datetime) -> None:
        """Take out a memory whose effort was reopened, until it is added again."""

    def forget(self, user_id: str, memory_id: str, *, now: datetime) -> None:
        """Delete all that is kept of a memory."""

    def explain(self, user_id: str, memory_id: str, *, now: datetime) -> Explanation | None:
        """Return how a memory stands, None if it is unknown."""


def ranked(
    memories: Iterable[Kept], threshold: float, *, now: datetime, message: str = ""
) -> tuple[Ranked, ...]:
    """Return the memories that are in attention now, or would be beside a message, most first.

    Ties are broken by the newest, then by id. Those that were taken out are left out.
    """
    said = frozenset(terms(message))
    held = ((kept.memory, _beside(kept, said, now)) for kept in memories if kept.may_enter)
    inside = [(memory, found) for memory, found in held if found.effective >= threshold]
    inside.sort(key=lambda one: (-one[1].effective, -one[0].created.timestamp(), one[0].id))
    return tuple(found for _, found in inside)


def _beside(kept: Kept, said: Collection[str], now: datetime) -> Ranked:
    related = share_of(kept.memory.keywords, said) if said else 0.0
    return Ranked(kept.memory.id, in_context(kept.holds(now), related), related)


def explained(kept: Kept, threshold: float, *, attended: bool, now: datetime) -> Explanation:
    """Return how a memory stands at a moment."""
    memory = kept.memory
    fades = fading_day(memory.base, kept.accesses, threshold)
    return Explanation(
        id=memory.id,
        base=memory.base,
        days=days_between(memory.created, now),
        accesses=kept.accesses,
        effective=kept.holds(now),
        level=level(kept.holds(now), threshold),
        fades=None if fades is None else memory.created.astimezone(UTC) + fades * DAY,
        suppressed=kept.suppressed,
        attended=attended,
    )
