"""The law by which memories fade from attention, counted in days.

    effective = min(100, base * decay * boost)
    decay     = max(0.3, 1 - 0.01 * days)
    boost     = min(1.5, 1 + 0.02 * accesses)

Computed whenever it is asked for, never stored and never by a scheduled job.
"""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

from .terms import terms

Level: TypeAlias = Literal["high", "medium", "low"]

CEILING = 100.0
"""The most that a memory can hold of attention."""

DAILY_DECAY = 0.01
"""What a memory loses a day, a fraction of its base."""

LEAST_DECAY = 0.3
"""What is left of a base after 70 days, and stays."""

DECAYING = round((1.0 - LEAST_DECAY) / DAILY_DECAY)
"""The days after which time takes nothing more: 70."""

BOOST = 0.02
"""What each access adds, a fraction."""

MOST_BOOST = 1.5
"""What 25 accesses give; more give no more."""

CONTEXT_BOOST = 0.2
"""What a message adds that holds all keywords of a memory, a fraction."""

HIGH = 70.0
"""From here on a memory is high in attention; from the threshold on it is in it."""

DAY = timedelta(days=1)


def decay(days: float) -> float:
    """Return what time leaves of a base; days may be a fraction and are never negative.

    >>> decay(20), decay(200), decay(-3)
    (0.8, 0.3, 1.0)
    """
    return max(LEAST_DECAY, 1.0 - DAILY_DECAY * max(0.0, days))


def boost(accesses: int) -> float:
    """Return what accesses make of a base.

    >>> boost(0), boost(10), boost(1000)
    (1.0, 1.2, 1.5)
    """
    return min(MOST_BOOST, 1.0 + BOOST * accesses)


def days_between(created: datetime, now: datetime) -> float:
    """Return the days of 24 hours since a memory was created, 0 if the clock went back behind it.

    Both moments have a time zone.
    """
    # Moments of one zone are subtracted as its clocks show them, which jump in spring and autumn.
    return max(0.0, (now.astimezone(UTC) - created.astimezone(UTC)) / DAY)


def effective(base: int, days: float, accesses: int) -> float:
    """Return how much a memory holds of attention, 0-100.

    >>> effective(50, 20, 0), effective(90, 0, 25)
    (40.0, 100.0)
    """
    return min(CEILING, base * decay(days) * boost(accesses))


def in_context(held: float, related: float) -> float:
    """Return how much a memory holds beside a message, of which `related` is `relevance`.

    >>> in_context(50, 1), in_context(90, 1)
    (60.0, 100.0)
    """
    return min(CEILING, held * (1.0 + CONTEXT_BOOST * related))


def level(held: float, threshold: float) -> Level:
    """Return whether a memory is high or medium in attention, or low: not in it.

    >>> level(70, 40), level(40, 40), level(39.9, 40)
    ('high', 'medium', 'low')
    """
    if held < threshold:
        return "low"
    return "high" if held >= HIGH else "medium"


def fading_day(base: int, accesses: int, threshold: float) -> int | None:
    """Return the first day on which a memory is below the threshold, None if it never is.

    >>> fading_day(50, 0, 40), fading_day(90, 0, 40), fading_day(89, 25, 40)
    (21, 56, None)
    """
    days = range(DECAYING + 1)
    return next((day for day in days if effective(base, day, accesses) < threshold), None)


def relevance(keywords: Sequence[str], message: str) -> float:
    """Return the share of the keywords that are in a message, 0-1; each with all its words.

    >>> relevance(["refresh token", "axios"], "Are the refresh tokens stored?")
    0.5
    """
    return share_of(keywords, frozenset(terms(message)))


def share_of(keywords: Sequence[str], said: Collection[str]) -> float:
    """Return the share of the keywords all of whose terms were said, 0-1.

    >>> share_of(["refresh token", "axios"], {"refresh", "token", "store"})
    0.5
    """
    wanted = [terms(keyword) for keyword in keywords]
    counted = [one for one in wanted if one]
    return sum(all(term in said for term in one) for one in counted) / max(1, len(counted))
