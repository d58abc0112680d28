"""What is quoted in place of turns: the quotes of a compression, a log that is brought back."""

from collections.abc import Sequence
from functools import partial

from ...prompts.loader import render
from ..efforts import one_line
from ..messages import Message, fenced
from ..names import parted, ranges, span, turns_named
from ..salience import Compression, Item, Kind, capped
from ..tokens import TokenCounter, count_message, cut_at_sentence, fit
from ..transcript import Logged, rendered, transcript
from ..valid_history import note

_PARTS = (1.0, 0.85, 0.7, 0.5, 0.25, 0.0)
"""What of the room the items may have, tried in this order."""

_BEFORE = 12
"""Tokens before a quote, its kind and its turn, and of the line break."""

_SMALLEST = 24
"""Tokens of the shortest background that says something."""


def quote(
    compression: Compression, first: int, count: TokenCounter, limit: int | None = None
) -> Message | None:
    """Return what stands for the turns from `first` on, in `limit` tokens; None if nothing fits.

    The oldest items leave first, constraints last, then the background is cut.
    """
    whole = _note(compression, first, compression.current, compression.background)
    if limit is None or count_message(whole, count) <= limit:
        return whole
    room = limit - count_message(_note(compression, first, (), ""), count)
    for share in _PARTS:
        items = capped(compression.current, int(room * share), partial(line_tokens, count))
        free = room - sum(line_tokens(count, item.quote) for item in items)
        background = compression.background
        if count(background) > free:
            background = cut_at_sentence(background, free, count) if free >= _SMALLEST else ""
        for text in (background, ""):
            shown = _note(compression, first, items, text)
            if (items or text) and count_message(shown, count) <= limit:
                return shown
    return None


def line_tokens(count: TokenCounter, quote: str) -> int:
    """Return what a quote takes in the context, with the words before it, at most."""
    return count(in_lines(quote)) + _BEFORE


def in_lines(quote: str) -> str:
    r"""Return a quote with its white space; its further lines are marked, so none can be another.

    >>> in_lines("a  b\nc")
    'a  b\n| c'
    """
    return "\n| ".join(quote.splitlines())


def _note(compression: Compression, first: int, items: Sequence[Item], background: str) -> Message:
    """Return items by what they are, each kind in the order of its turns, then the background.

    That is in one line too, for a model that wrote it may have been misled.
    """
    kinds, lines = [*Kind], []
    for item in sorted(items, key=lambda item: (kinds.index(item.kind), item.turn)):
        kind = "goal at the time" if item.kind is Kind.GOAL else str(item.kind)
        speaker = "" if item.speaker in {"user", ""} else f", {item.speaker}"
        if item.speaker == "record":
            kind = "why the goal changed" if item.kind is Kind.DECISION else kind
            speaker = ", in the assistant's words"
        lines.append(f"{kind}, turn {item.turn}{speaker}: {in_lines(item.quote)}")
    lines += [f"background: {one_line(background)}"] if background else []
    turns, left_out = span(first, compression.through), len(compression.current) - len(items)
    fence = fenced("compressed", "\n".join(lines), effort=compression.effort, turns=turns)
    shown = [render("compressed", effort=compression.effort, turns=turns_named(turns), quote=fence)]
    shown += [render("quotes_left_out", quotes=left_out)] if left_out else []
    return note("\n".join(shown))


def log_quote(
    effort_id: str, status: str, turns: Sequence[Logged], limit: int, count: TokenCounter
) -> str:
    """Quote turns of an effort word for word; a single turn over `limit` tokens as its head."""
    log = transcript(turns)
    if len(turns) == 1 and count(log) > limit:
        whole, (session, _) = rendered(turns[0].messages), parted(effort_id)
        end = fit(whole, limit, count)
        head = {"turn": turns[0].turn, "head": whole[:end], "offset": end}
        head |= {"tokens": count(whole[end:])}
        earlier = render("head_of_earlier_turn", session=session, **head) if session else ""
        log = earlier or render("head_of_turn", **head)
    return fenced("effort", log, id=effort_id, status=status, turns=ranges([t.turn for t in turns]))
