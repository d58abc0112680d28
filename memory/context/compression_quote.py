"""A compression as the context shows it: quotes with their turns, then the background."""

from collections.abc import Iterator, Sequence
from functools import partial

from ...prompts.loader import text as prompt
from ..messages import Message
from ..numbers import span, turns_named
from ..quotes import fenced
from ..salience import Compression, Item, Kind, capped
from ..tokens import TokenCounter, count_message, cut_at_sentence
from ..wellformed import note

_PARTS = (1.0, 0.85, 0.7, 0.5, 0.25, 0.0)
"""What of the room the items may have, tried in this order."""

_CONTINUED = "\n| "
"""What the further lines of a quote begin with."""

_BEFORE = 12
"""Tokens before a quote, its kind and its turn, and of the line break."""

_SMALLEST = 24
"""Tokens of the shortest background that says something."""


def quote(
    made: Compression, first: int, count: TokenCounter, limit: int | None = None
) -> Message | None:
    """Return what stands for the turns from `first` on, in `limit` tokens; None if nothing fits.

    The oldest items leave first, constraints last, then the background is cut.
    """
    whole = _note(made, first, made.current, made.background)
    if limit is None or count_message(whole, count) <= limit:
        return whole
    frame = count_message(_note(made, first, (), ""), count)
    for part in _PARTS:
        items = capped(made.current, int((limit - frame) * part), partial(line_tokens, count))
        rest = limit - frame - sum(line_tokens(count, item.quote) for item in items)
        for background in (_cut(made.background, rest, count), ""):
            shown = _note(made, first, items, background)
            if (items or background) and count_message(shown, count) <= limit:
                return shown
    return None


def line_tokens(count: TokenCounter, quote: str) -> int:
    """Return what a quote takes in the context, with the words before it, at most."""
    return count(_CONTINUED.join(quote.splitlines())) + _BEFORE


def _note(made: Compression, first: int, items: Sequence[Item], background: str) -> Message:
    said = "\n".join([*map(_line, _ordered(items)), *_background(background)])
    turns, left = span(first, made.through), len(made.current) - len(items)
    fence = fenced("compressed", said, effort=made.effort, turns=turns)
    shown = [prompt("compressed", effort=made.effort, turns=turns_named(turns), quote=fence)]
    missing = [prompt("quotes_left_out", quotes=left)] if left else []
    return note("\n".join([*shown, *missing]))


def _ordered(items: Sequence[Item]) -> list[Item]:
    """Return items by what they are, each kind in the order of its turns."""
    kinds = [*Kind]
    return sorted(items, key=lambda item: (kinds.index(item.kind), item.turn))


def _line(item: Item) -> str:
    """Write an item with its white space; its further lines are marked, so none can be another."""
    recorded = item.speaker == "record"
    said = ", in the assistant's words" if recorded else f", {item.speaker}"
    said = said if item.speaker not in {"user", ""} else ""
    kind = "goal at the time" if item.kind is Kind.GOAL else str(item.kind)
    kind = "why the goal changed" if recorded and item.kind is Kind.DECISION else kind
    return f"{kind}, turn {item.turn}{said}: {_CONTINUED.join(item.quote.splitlines())}"


def _background(background: str) -> Iterator[str]:
    """Write the background in one line too, for a model that wrote it may have been misled."""
    if background:
        yield f"background: {' '.join(background.split())}"


def _cut(background: str, limit: int, count: TokenCounter) -> str:
    if count(background) <= limit:
        return background
    return cut_at_sentence(background, limit, count) if limit >= _SMALLEST else ""
