"""The turns of a session, each as one line, in pages."""

from collections.abc import Sequence
from dataclasses import dataclass

from .messages import text
from .record import Record, Status
from .wellformed import NAME

PAGE = 20
"""Turns on one page."""

_SHOWN = 60


@dataclass(frozen=True, slots=True)
class TurnLine:
    """A turn: its number, its efforts, when it was (ISO 8601 in UTC), how the user began it."""

    turn: int
    efforts: tuple[str, ...]
    at: str
    said: str
    status: Status


@dataclass(frozen=True, slots=True)
class TurnPage:
    """Turns of a lineage, the newest first; page 1 has the newest of all."""

    lines: tuple[TurnLine, ...]
    page: int
    pages: int


def turn_line(record: Record) -> TurnLine:
    """Return the line of a turn."""
    asked = (m for m in record.messages if m["type"] == "human" and m["data"].get("name") != NAME)
    said = " ".join(next((text(message) for message in asked), "").split())
    short = said if len(said) <= _SHOWN else f"{said[:_SHOWN]}…"
    return TurnLine(record.turn, record.efforts, record.at, short, record.status)


def pages(turns: int) -> int:
    """Return how many pages there are, at least one.

    >>> [pages(turns) for turns in (0, 20, 21)]
    [1, 1, 2]
    """
    return max(1, -(-turns // PAGE))


def page_of(turn: int, turns: int) -> int:
    """Return the page on which a turn stands.

    >>> [page_of(turn, 25) for turn in (25, 6, 5)]
    [1, 1, 2]
    """
    return (turns - turn) // PAGE + 1


def numbers_on(page: int, turns: int) -> Sequence[int]:
    """Return the turns that stand on a page, ascending.

    >>> [[*numbers_on(page, 25)][:2] for page in (1, 2)]
    [[6, 7], [1, 2]]
    """
    last = turns - (page - 1) * PAGE
    return range(max(1, last - PAGE + 1), last + 1)
