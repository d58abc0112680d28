"""The notes before the current turn: goal, anchor, hints, a nudge, what was left out."""

from collections.abc import Iterator, Mapping
from typing import Any

from ..prompts.loader import text as prompt
from .anchor import anchor_note, limited
from .desk import Desk
from .group_tiers import ambient_turns, purpose
from .hints import hints
from .messages import Message, text
from .nudges import nudge
from .quotes import fenced
from .shares import NOTES_SHARE
from .slices import fit
from .tiers import Tier
from .tokens import count_message, count_messages
from .wellformed import note

LEFT_OUT_TOKENS = 120
"""The longest note that says what was left out, in tokens."""

_LISTED = 60


def notes_tier(desk: Desk) -> Tier:
    """Return the notes, shortened to their share of the room; the last ones give way first."""
    limit = int(desk.room * NOTES_SHARE) - LEFT_OUT_TOKENS
    kept: list[Message] = []
    for message in _notes(desk, limit):
        short = _within(message, limit, desk)
        limit -= count_message(short, desk.count)
        if limit < 0:
            break
        kept.append(short)
    return Tier("notes", tuple(kept), count_messages(kept, desk.count))


def with_left_out(notes: Tier, left_out: Mapping[str, Mapping[str, Any]], desk: Desk) -> Tier:
    """Return the notes with one more that says what was left out, and where it is."""
    if not left_out:
        return notes
    said = "; ".join(_said(name, missing, desk) for name, missing in left_out.items())
    message = _within(note(prompt("left_out_note", said=said)), LEFT_OUT_TOKENS, desk)
    tokens = notes.tokens + count_message(message, desk.count)
    return Tier("notes", (*notes.messages, message), tokens)


def _notes(desk: Desk, limit: int) -> Iterator[Message]:
    """Say the goal here and not before the log: it may change, and the prefix may not."""
    for effort in desk.known([desk.space.active] if desk.space.active else []):
        yield note(prompt("active_goal", **purpose(effort)))
    anchor = limited(desk.space.anchor, limit // 2, desk.count)
    yield from anchor_note(anchor, desk.settings)
    lines = hints(desk, ambient_turns(desk))
    if lines:
        yield note(prompt("hints", quote=fenced("hints", "\n".join(lines))))
    line = nudge(desk)
    if line:
        yield note(line)


def _within(message: Message, limit: int, desk: Desk) -> Message:
    """Return a note within `limit` tokens: its head and an ellipsis if it is longer."""
    if count_message(message, desk.count) <= limit:
        return message
    said = text(message)
    around = count_message(note("…]"), desk.count)
    return note(f"{said[: fit(said, max(1, limit - around - 2), desk.count)]}…]")


def _said(name: str, missing: Mapping[str, Any], desk: Desk) -> str:
    what = {
        "memory": "summaries of efforts",
        "expanded": "logs of expanded efforts",
        "open": "other open efforts",
        "ambient": "recent conversation",
        "active": f"the active effort {desk.space.active!r}",
    }[name]
    if "efforts" in missing:
        return f"{missing['summaries']} {what}"
    if "turns" in missing:
        return f"of {what}, turns {missing['turns'][:_LISTED]}"
    if "previews" in missing:
        return f"of {what}, long contents of turns {missing['previews'][:_LISTED]}"
    logs = (f"{effort}: {turns}" for effort, turns in missing.items())
    return f"of {what}, {'; '.join(logs)[:_LISTED]}"
