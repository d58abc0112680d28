"""The note that says what was left out of the context, and where it is."""

from collections.abc import Mapping
from dataclasses import replace

from ..prompts.loader import text as prompt
from .desk import Desk
from .groups import cut_of
from .messages import Message, text
from .slices import fit
from .tiers import Tier
from .tokens import TokenCounter, count_message
from .wellformed import note

LEFT_OUT_TOKENS = 120
"""The longest such note, in tokens."""

_LISTED = 60


def with_left_out(parts: Mapping[str, Tier], desk: Desk) -> dict[str, Tier]:
    """Return the tiers with a note at the head of the last one that is cut.

    There it stays the same until something is cut anew, and then all after it is new anyway: in the
    notes it would be sent as new text with each turn. `parts` are in the order of the context.
    """
    cut = {name: part for name, part in parts.items() if part.cut and part.left_out}
    if not cut:
        return dict(parts)
    said = "; ".join(_said(name, part, desk) for name, part in cut.items())
    message = note_within(note(prompt("left_out_note", said=said)), LEFT_OUT_TOKENS, desk.count)
    name, last = [*cut.items()][-1]
    tokens = last.tokens + count_message(message, desk.count)
    return {**parts, name: replace(last, messages=(message, *last.messages), tokens=tokens)}


def note_within(message: Message, limit: int, count: TokenCounter) -> Message:
    """Return a note within `limit` tokens: its head and an ellipsis if it is longer."""
    if count_message(message, count) <= limit:
        return message
    said = text(message)
    around = count_message(note("…]"), count)
    return note(f"{said[: fit(said, max(1, limit - around - 2), count)]}…]")


def _said(name: str, part: Tier, desk: Desk) -> str:
    """Say what a tier lacks, in words that stay as they are while the ambient window moves on."""
    missing, what = part.left_out, _what(name, desk)
    if "efforts" in missing:
        return f"{missing['summaries']} {what}"
    if "turns" in missing and name == "ambient":
        return f"of {what}, turns before {cut_of(part.cut).first}"
    if "turns" in missing:
        return f"of {what}, turns {_some(missing['turns'])}"
    if "previews" in missing:
        return f"of {what}, long contents of turns {_some(missing['previews'])}"
    if "compressed" in missing:
        return f"of {what}, older quotes of the compressed turns"
    logs = (f"{effort}: {turns}" for effort, turns in missing.items())
    return f"of {what}, {_some('; '.join(logs))}"


def _what(name: str, desk: Desk) -> str:
    return {
        "memory": "summaries of efforts",
        "expanded": "logs of expanded efforts",
        "open": "other open efforts",
        "ambient": "recent conversation",
        "active": f"the active effort {desk.space.active!r}",
    }[name]


def _some(listed: str) -> str:
    """Return as many of the numbers in a list as there is room for.

    >>> _some(", ".join(map(str, range(3, 90, 2))))
    '3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, …'
    """
    if len(listed) <= _LISTED:
        return listed
    return f"{listed[:_LISTED].rpartition(' ')[0]} …"
