"""The clock, read by nodes and archives only: rules get the time as an argument."""

from datetime import UTC, datetime


def stamp() -> str:
    """Return the current time as ISO 8601 in UTC with milliseconds: `2026-01-31T09:30:00.000Z`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def day_of(at: str) -> str:
    """Return the date of a time from `stamp`.

    >>> day_of("2026-01-31T09:30:00.000Z")
    '2026-01-31'
    """
    return at.partition("T")[0]
