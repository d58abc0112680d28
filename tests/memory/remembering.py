"""Memories to keep in attention: made in a word, on days counted from the first of a year."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from ebbtide.memory.attention.law import Attention, Memory, Ranked

START = datetime(2026, 1, 1, 9, tzinfo=UTC)
USER = "ann"


def day(number: float) -> datetime:
    """Return the moment so many days after the start."""
    return START + timedelta(days=number)


def memory(name: str, base: int = 60, created: float = 0, keywords: Iterable[str] = ()) -> Memory:
    """Return a memory that was concluded so many days after the start."""
    return Memory(name, base, day(created), tuple(keywords))


def add_all(attention: Attention, *memories: Memory, user: str = USER) -> None:
    """Add memories of a user, each at the moment it was concluded."""
    for one in memories:
        attention.add(user, one, now=one.created)


def access(attention: Attention, name: str, times: int, today: int = 0) -> None:
    """Access a memory of the user so many times on a day."""
    for _ in range(times):
        attention.touch(USER, name, now=day(today))


def ids(found: Iterable[Ranked]) -> list[str]:
    """Return the ids of what was ranked, in its order."""
    return [one.id for one in found]


def attended(attention: Attention, on: float, user: str = USER) -> list[str]:
    """Return what is in the attention of a user on a day, most first."""
    return ids(attention.top(user, 1_000, now=day(on)))
