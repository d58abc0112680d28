"""Attention: what fades and how fast, and what every store of it must do.

effective = min(100, base * decay * boost)
    decay     = max(0.3, 1 - 0.01 * days)
    boost     = min(1.5, 1 + 0.02 * accesses)

Computed whenever it is asked for, never stored and never by a scheduled job. A memory fades from
attention, not from storage.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Literal, Protocol

from ..terms import terms

CAPACITY = 200
"""Memories in a user's attention; the weakest leave. A session is shown ten of them."""

CEILING = 100.0
"""The most that a memory can hold of attention."""

DAILY_DECAY = 0.01
"""What a memory loses a day, a fraction of its base."""

LEAST_DECAY = 0.3
"""What is left of a base after 70 days, and stays."""

DECAYING = round((1.0 - LEAST_DECAY) / DAILY_DECAY)
"""The days after which time takes nothing more: 70."""

BOOST = 0.02
"""What each access adds, a fraction: 25 of them add half of a base."""

MOST_BOOST = 1.5
"""What 25 accesses give; more give no more."""

CONTEXT_BOOST = 0.2
"""What a message adds that holds all keywords of a memory, a fraction."""

HIGH = 70.0
"""From here on a memory is high in attention; from the threshold on it is in it."""

DAY = timedelta(days=1)


def effective(base: int, days: float, accesses: int) -> float:
    """Return how much a memory holds of attention, 0-100; days may be a fraction.

    >>> effective(50, 20, 0), effective(90, 0, 25), effective(50, -3, 0)
    (40.0, 100.0, 50.0)
    """
    decay = max(LEAST_DECAY, 1.0 - DAILY_DECAY * max(0.0, days))
    boost = min(MOST_BOOST, 1.0 + BOOST * accesses)
    return min(CEILING, base * decay * boost)


def in_context(held: float, related: float) -> float:
    """Return how much a memory holds beside a message; `related` is their `relevance`.

    >>> in_context(50, 1), in_context(90, 1)
    (60.0, 100.0)
    """
    return min(CEILING, held * (1.0 + CONTEXT_BOOST * related))


def fading_day(base: int, accesses: int, threshold: float) -> int | None:
    """Return the first day on which a memory is below the threshold, None if it never is.

    >>> fading_day(50, 0, 40), fading_day(90, 0, 40), fading_day(89, 25, 40)
    (21, 56, None)
    """
    days = range(DECAYING + 1)
    return next((day for day in days if effective(base, day, accesses) < threshold), None)


def relevance(keywords: Iterable[str], said: Collection[str]) -> float:
    """Return the share of the keywords all of whose terms were said, 0-1.

    >>> relevance(["refresh token", "axios"], {"refresh", "token", "store"})
    0.5
    """
    asked = [wanted for keyword in keywords if (wanted := terms(keyword))]
    return sum(all(term in said for term in wanted) for wanted in asked) / max(1, len(asked))


@dataclass(frozen=True, slots=True)
class Memory:
    """A concluded effort of a user: its qualified id, and what the law asks of it.

    `base` is its importance, 0-100; `created` is when it was concluded, with a time zone.
    """

    id: str
    base: int
    created: datetime
    keywords: tuple[str, ...] = ()

    def days(self, now: datetime) -> float:
        """Return the days of 24 hours since it was created, 0 if the clock went back behind it."""
        # Moments of one zone are subtracted as its clocks show them, which jump twice a year.
        return max(0.0, (now.astimezone(UTC) - self.created.astimezone(UTC)) / DAY)


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
    level: Literal["high", "medium", "low"]
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
        return effective(self.memory.base, self.memory.days(now), self.accesses)

    def enters(self, threshold: float, now: datetime) -> bool:
        """Tell whether it is in attention if there is room."""
        return self.may_enter and self.holds(now) >= threshold

    def is_liftable(self, threshold: float, now: datetime) -> bool:
        """Tell whether a message that has all its keywords could lift it to the threshold."""
        return in_context(self.holds(now), 1) >= threshold

    def explained(self, threshold: float, *, attended: bool, now: datetime) -> Explanation:
        """Return how it stands at a moment."""
        memory, held = self.memory, self.holds(now)
        fades = fading_day(memory.base, self.accesses, threshold)
        return Explanation(
            id=memory.id,
            base=memory.base,
            days=memory.days(now),
            accesses=self.accesses,
            effective=held,
            level="low" if held < threshold else "medium" if held < HIGH else "high",
            fades=None if fades is None else memory.created.astimezone(UTC) + fades * DAY,
            suppressed=self.suppressed,
            attended=attended,
        )


def ranked(
    memories: Iterable[Kept], threshold: float, *, now: datetime, message: str = ""
) -> tuple[Ranked, ...]:
    """Return the memories that are in attention now, or would be beside a message, most first.

    Ties are broken by the newest, then by id. Those that were taken out are left out.
    """
    said, inside = frozenset(terms(message)), []
    for kept in memories:
        memory = kept.memory
        related = relevance(memory.keywords, said) if said else 0.0
        held = in_context(kept.holds(now), related)
        if kept.may_enter and held >= threshold:
            order = (-held, -memory.created.timestamp(), memory.id)
            inside.append((order, Ranked(memory.id, held, related)))
    return tuple(memory for _, memory in sorted(inside, key=itemgetter(0)))


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
