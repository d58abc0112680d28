"""Attention: how memories fade, and the protocol of every store of it.

effective = min(100, base * decay * boost)
    decay     = max(0.3, 1 - 0.01 * days)
    boost     = min(1.5, 1 + 0.02 * accesses)

It is computed on each read, never stored, and by no scheduled job. A memory fades from attention,
not from storage.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Literal, Protocol

from ..search.terms import terms

CAPACITY = 200
"""Memories in a user's attention; the weakest leave. A session is shown ten of them."""

CEILING = 100.0
"""The highest attention of a memory."""

DAILY_DECAY = 0.01
"""The fraction of its base that a memory loses a day."""

LEAST_DECAY = 0.3
"""The fraction of a base that stays after 70 days."""

DECAYING = round((1.0 - LEAST_DECAY) / DAILY_DECAY)
"""The days after which a memory loses nothing more: 70."""

BOOST = 0.02
"""The fraction that each access adds: 25 of them add half of a base."""

MOST_BOOST = 1.5
"""The largest factor by accesses, that of 25 of them."""

CONTEXT_BOOST = 0.2
"""The fraction that a message with all keywords of a memory adds."""

HIGH = 70.0
"""Attention from which on the level of a memory is high; from the threshold on it is medium."""

DAY = timedelta(days=1)


def effective(base: float, days: float, accesses: int) -> float:
    """Return the attention of a memory, 0-100; days may be a fraction.

    >>> effective(50, 20, 0), effective(90, 0, 25), effective(50, -3, 0)
    (40.0, 100.0, 50.0)
    """
    decay = max(LEAST_DECAY, 1.0 - DAILY_DECAY * max(0.0, days))
    boost = min(MOST_BOOST, 1.0 + BOOST * accesses)
    return min(CEILING, base * decay * boost)


def in_context(attention: float, related: float) -> float:
    """Return the attention of a memory beside a message; `related` is their `relevance`.

    >>> in_context(50, 1), in_context(90, 1)
    (60.0, 100.0)
    """
    return min(CEILING, attention * (1.0 + CONTEXT_BOOST * related))


def fading_day(base: int, accesses: int, threshold: float) -> int | None:
    """Return the first day on which a memory is below the threshold, None if it never is.

    >>> fading_day(50, 0, 40), fading_day(90, 0, 40), fading_day(89, 25, 40)
    (21, 56, None)
    """
    days = range(DECAYING + 1)
    return next((day for day in days if effective(base, day, accesses) < threshold), None)


def relevance(keywords: Iterable[str], message_terms: Collection[str]) -> float:
    """Return the share of the keywords all of whose terms a message has, 0-1.

    >>> relevance(["refresh token", "axios"], {"refresh", "token", "store"})
    0.5
    """
    term_lists = [words for keyword in keywords if (words := terms(keyword))]
    matches = sum(all(term in message_terms for term in words) for words in term_lists)
    return matches / max(1, len(term_lists))


@dataclass(frozen=True, slots=True)
class Memory:
    """A concluded effort or a fact of a user, with what its attention is computed from.

    `base` is its importance, 0-100; `created` is when it was concluded or said, with a time zone.
    """

    id: str
    base: int
    created: datetime
    keywords: tuple[str, ...] = ()

    def days(self, now: datetime) -> float:
        """Return the days of 24 hours since it was created, 0 if the clock was set back.

        >>> created = datetime(2026, 1, 1, tzinfo=UTC)
        >>> Memory("t1/a", 50, created).days(datetime(2026, 1, 8, tzinfo=UTC))
        7.0
        """
        # In UTC: times of one zone are subtracted as its clocks show them, which jump in a year.
        return max(0.0, (now.astimezone(UTC) - self.created.astimezone(UTC)) / DAY)


@dataclass(frozen=True, slots=True)
class Ranked:
    """A memory in attention.

    Attributes:
        id: The memory.
        effective: Its strength now, 0-100.
        relevance: The share of its keywords in the message, 0 without a message.
    """

    id: str
    effective: float
    relevance: float = 0.0


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a memory is in attention or not.

    Attributes:
        id: The memory.
        base: Its importance, 0-100.
        days: Its age.
        accesses: How often it was expanded, or found and used.
        effective: Its strength now, 0-100.
        level: `high` from 70 on, `low` below the threshold, otherwise `medium`.
        fades: When it falls below the threshold without another access, None for never.
        suppressed: Whether somebody took it out of attention.
        attended: Whether it is in attention.
        text: The summary of an effort, or the newest wording of a fact or rule; empty if its
            session was deleted, and in what `Attention.explain` returns.
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
    text: str = ""


@dataclass(frozen=True, slots=True)
class Kept:
    """A stored memory: its accesses, and whether it was taken out of attention.

    `attended`: it entered, and no read has found yet that it must leave.
    """

    memory: Memory
    accesses: int = 0
    suppressed: bool = False
    withdrawn: bool = False
    attended: bool = False

    def holds(self, now: datetime) -> float:
        """Return its attention, 0-100."""
        return effective(self.memory.base, self.memory.days(now), self.accesses)

    def explained(self, threshold: float, *, attended: bool, now: datetime) -> Explanation:
        """Explain its attention at a moment.

        >>> now = datetime(2026, 1, 8, tzinfo=UTC)
        >>> Kept(Memory("t1/a", 50, now)).explained(40, attended=True, now=now).level
        'medium'
        """
        memory, value = self.memory, self.holds(now)
        fades = fading_day(memory.base, self.accesses, threshold)
        return Explanation(
            id=memory.id,
            base=memory.base,
            days=memory.days(now),
            accesses=self.accesses,
            effective=value,
            level="low" if value < threshold else "medium" if value < HIGH else "high",
            fades=None if fades is None else memory.created.astimezone(UTC) + fades * DAY,
            suppressed=self.suppressed,
            attended=attended,
        )


def ranked(
    memories: Iterable[Kept], threshold: float, *, now: datetime, message: str = ""
) -> tuple[Ranked, ...]:
    """Return the memories in attention now, with the lift of a message, highest first.

    Of equals the newest is first, then by id. Those taken out of attention are left out.

    >>> now = datetime(2026, 1, 1, tzinfo=UTC)
    >>> [one.id for one in ranked([Kept(Memory(name, 50, now)) for name in "ba"], 40, now=now)]
    ['a', 'b']
    """
    message_terms, inside = frozenset(terms(message)), []
    for item in memories:
        memory, taken_out = item.memory, item.suppressed or item.withdrawn
        related = relevance(memory.keywords, message_terms) if message_terms else 0.0
        attention = in_context(item.holds(now), related)
        if attention >= threshold and not taken_out:
            order = (-attention, -memory.created.timestamp(), memory.id)
            inside.append((order, Ranked(memory.id, attention, related)))
    return tuple(memory for _, memory in sorted(inside, key=itemgetter(0)))


class Attention(Protocol):
    """A store of attention. The tests in `tests/memory/attention` are its contract.

    A memory is in attention if its strength reaches the threshold, unless it was suppressed or
    withdrawn, or 200 memories of the user are stronger. A method that fails raises `AttentionError`
    and changes nothing.
    """

    def add(self, user_id: str, memory: Memory, *, now: datetime) -> None:
        """Store a memory; a known one is renewed and keeps its accesses and suppression.

        It enters at the threshold or above. Over the capacity the lowest memory leaves.
        """

    def touch(self, user_id: str, memory_id: str, *, now: datetime) -> None:
        """Count an access; the memory may enter again. An unknown one changes nothing."""

    def top(self, user_id: str, limit: int, *, now: datetime) -> tuple[Ranked, ...]:
        """Return the memories with the highest attention, ties newest first, then by id.

        Faded ones are taken out first.
        """

    def prune(self, user_id: str, *, now: datetime) -> int:
        """Take faded memories out of attention, and return their number."""

    def refresh_for_context(
        self, user_id: str, message: str, limit: int, *, now: datetime
    ) -> tuple[Ranked, ...]:
        """Return what `top` would return if a message raised the strength of memories.

        Each is raised by up to a fifth, for the share of its keywords in the message. Nothing
        enters or leaves. Withdrawn and suppressed memories are left out.
        """

    def changed(self, user_id: str) -> bool:
        """Drop the cached attention of a user, since the archive's table has changed.

        Return whether it was dropped at once.
        """

    def suppress(self, user_id: str, memory_id: str, *, now: datetime) -> bool:
        """Take a memory out of attention until `unsuppress`; tell whether it is known."""

    def unsuppress(self, user_id: str, memory_id: str, *, now: datetime) -> bool:
        """Undo `suppress`: the memory may enter again; tell whether it is known."""

    def suppressed(self, user_id: str, *, now: datetime) -> tuple[str, ...]:
        """Return the ids of the memories that are suppressed, in order."""

    def remembered(self, user_id: str) -> tuple[str, ...]:
        """Return the ids of all memories of a user, faded ones too, the newest first."""

    def reword(self, user_id: str, memory_id: str, text: str) -> bool:
        """Change the wording of a fact or rule; tell whether it is known."""

    def forget(self, user_id: str, memory_id: str, *, now: datetime) -> None:
        """Delete a memory."""

    def explain(self, user_id: str, memory_id: str, *, now: datetime) -> Explanation | None:
        """Explain the attention of a memory, None if it is unknown."""
