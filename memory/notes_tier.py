"""The notes before the current turn: goal, anchor, hints, a nudge."""

from collections.abc import Iterator

from ..prompts.loader import text as prompt
from .anchor import anchor_note, limited
from .desk import Desk
from .group_tiers import ambient_turns, purpose
from .hints import hints
from .leaving_out import LEFT_OUT_TOKENS, note_within
from .messages import Message
from .nudges import nudge
from .quotes import fenced
from .shares import NOTES_SHARE
from .tiers import Tier
from .tokens import count_message, count_messages
from .wellformed import note


def notes_tier(desk: Desk) -> Tier:
    """Return the notes, shortened to their share of the room; the last ones give way first."""
    limit = int(desk.room * NOTES_SHARE) - LEFT_OUT_TOKENS
    kept: list[Message] = []
    for message in _notes(desk, limit):
        short = note_within(message, limit, desk.count)
        limit -= count_message(short, desk.count)
        if limit < 0:
            break
        kept.append(short)
    return Tier("notes", tuple(kept), count_messages(kept, desk.count))


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
