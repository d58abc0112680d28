"""The clock, read by nodes and archives only: rules get the time as an argument."""

from datetime import UTC, datetime

UNDATED = "undated"
"""Stands for the time of a turn that was adopted from messages that carry none."""


def stamp() -> str:
    """Return the current time as ISO 8601 in UTC with milliseconds: `2026-01-31T09:30:00.000Z`."""
    return stamped(datetime.now(UTC))


def stamped(moment: datetime) -> str:
    """Return a time in the form of `stamp`; one without a time zone is in UTC.

    >>> stamped(datetime(2026, 1, 31, 9, 30))
    '2026-01-31T09:30:00.000Z'
    """
    moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def day_of(at: str) -> str:
    """Return the date of a time from `stamp`, "undated" for none.

    >>> day_of("2026-01-31T09:30:00.000Z"), day_of("")
    ('2026-01-31', 'undated')
    """
    return at.partition("T")[0] or UNDATED


def minute_of(at: str) -> str:
    """Return the minute of a time from `stamp`, "undated" for none.

    >>> minute_of("2026-01-31T09:30:00.000Z"), minute_of("")
    ('2026-01-31 09:30 UTC', 'undated')
    """
    return f"{at[:16].replace('T', ' ')} UTC" if at else UNDATED
