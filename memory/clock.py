"""The clock: nodes and archives read it, rules are told the time."""

from datetime import UTC, datetime


def stamp() -> str:
    """Return the time as ISO 8601 in UTC, to the millisecond: `2026-01-31T09:30:00.000Z`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def day_of(at: str) -> str:
    """Return the day of a time in that form.

    >>> day_of("2026-01-31T09:30:00.000Z")
    '2026-01-31'
    """
    return at.partition("T")[0]
