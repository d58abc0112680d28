"""Rebuilding the anchor from what stands in the context."""

from collections.abc import Sequence

from .anchor import newest
from .quotes import fenced
from .record import Record
from .slices import fit_end
from .tiers import Tier
from .tokens import TokenCounter
from .transcript import transcript

_HISTORY = frozenset({"open", "ambient", "active"})


def visible(tiers: Sequence[Tier]) -> list[int]:
    """Return the turns that stand in a context as real messages, ascending.

    >>> visible([Tier("active", (), 0, turns=(4,)), Tier("ambient", (), 0, turns=(1, 2))])
    [1, 2, 4]
    """
    return sorted({turn for tier in tiers if tier.name in _HISTORY for turn in tier.turns})


def newest_block(records: Sequence[Record]) -> dict[str, str] | None:
    """Return the newest complete state block that the model said in these turns, else None."""
    said = (m for one in reversed(records) for m in reversed(one.messages) if m["type"] == "ai")
    found = (newest(message["data"].get("content", "")) for message in said)
    return next((fields for fields in found if fields), None)


def quoted(records: Sequence[Record], limit: int, count: TokenCounter) -> str:
    """Return these turns as a quote of at most `limit` tokens, its fences aside; the end stays."""
    log = transcript(records)
    return fenced("conversation", log[fit_end(log, limit, count) :])
