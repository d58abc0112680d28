"""Rebuilding the anchor from what stands in the context."""

from collections.abc import Sequence

from .anchor import newest
from .context.timeline import Part
from .quotes import fenced
from .record import Record
from .slices import fit_end
from .tokens import TokenCounter
from .transcript import transcript


def visible(parts: Sequence[Part]) -> list[int]:
    """Return the turns that stand in a context as real messages, ascending.

    >>> visible([Part("turns", (), 0, turn) for turn in (1, 1, 2)])
    [1, 2]
    """
    turns = {part.turn for part in parts if part.name == "turns"}
    return sorted(turn for turn in turns if turn is not None)


def newest_block(records: Sequence[Record]) -> dict[str, str] | None:
    """Return the newest complete state block that the model said in these turns, else None."""
    said = (m for one in reversed(records) for m in reversed(one.messages) if m["type"] == "ai")
    found = (newest(message["data"].get("content", "")) for message in said)
    return next((fields for fields in found if fields), None)


def quoted(records: Sequence[Record], limit: int, count: TokenCounter) -> str:
    """Return these turns as a quote of at most `limit` tokens, its fences aside; the end stays."""
    log = transcript(records)
    return fenced("conversation", log[fit_end(log, limit, count) :])
