"""The working context: what is sent to the model, as tiers in their order, within the budget."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ..prompts.loader import text as prompt
from .anchor import keeping
from .desk import Desk
from .expanded_tier import expanded_tier
from .group_tiers import active_tier, ambient_tier, open_tier, seen
from .groups import cut_of
from .leaving_out import LEFT_OUT_TOKENS, with_left_out
from .memory_tier import memory_tier
from .messages import Message, fingerprint
from .notes_tier import notes_tier
from .settings import Settings
from .shares import shares
from .shortening import within
from .tiers import Tier, WorkingContext
from .tokens import REPLY_OVERHEAD, TokenCounter, count_message, count_messages, count_tools

Parts: TypeAlias = dict[str, Tier]


def assemble(desk: Desk, system: str, schemas: Sequence[Mapping[str, Any]]) -> WorkingContext:
    """Build the working context of the running turn; the same inputs give the same bytes.

    It has at most as many tokens as the budget, of which `desk.room` is what instructions and tool
    schemas leave. What was cut stays cut until an effort is opened, switched to, closed,
    compressed, shown or hidden, or the settings change.
    """
    fixed = fixed_tiers(system, schemas, desk.count)
    key = _key(desk)
    parts = _parts(desk, desk.cuts if desk.cuts.get("key") == key else {})
    notes = notes_tier(desk)
    cut_before = any(part.cut is not None for part in parts.values())
    free = desk.room - notes.tokens - (LEFT_OUT_TOKENS if cut_before else 0)
    least = free - (0 if cut_before else LEFT_OUT_TOKENS)
    at_least = int(desk.settings.turn_share * least)
    turn = _turn(desk, max(at_least, free - _sum(parts)))
    if _sum(parts) > free - turn.tokens:
        parts = _fitting(parts, desk, least - turn.tokens)
        turn = _turn(desk, max(at_least, least - _sum(parts)))
    tiers = (*fixed, *with_left_out(parts, desk).values(), notes, turn)
    cuts = {name: part.cut for name, part in parts.items() if part.cut is not None}
    return WorkingContext(tiers, {"key": key, **cuts} if cuts else {})


def fixed_tiers(
    system: str, schemas: Sequence[Mapping[str, Any]], count: TokenCounter
) -> tuple[Tier, Tier]:
    """Return what is sent in any case: the system message, with the reply's overhead, and tools."""
    opening: Message = {"type": "system", "data": {"content": system}}
    said = Tier("system", (opening,), REPLY_OVERHEAD + count_message(opening, count))
    return said, Tier("tools", (), count_tools(schemas, count))


def instructions(application: str, settings: Settings) -> str:
    """Return the system message: Ebbtide's instructions, then the application's own."""
    return "\n\n".join(filter(None, (prompt("system"), keeping(settings), application.strip())))


def _parts(desk: Desk, cuts: Mapping[str, Any]) -> Parts:
    """Return the tiers that can be cut, as they were cut before, in their order."""
    return {
        "memory": memory_tier(desk, frozenset(cuts.get("memory", ()))),
        "expanded": expanded_tier(desk, cuts.get("expanded", {})),
        "open": open_tier(desk, cut_of(cuts.get("open", ()))),
        "ambient": ambient_tier(desk, cut_of(cuts.get("ambient", ()))),
        "active": active_tier(desk, cut_of(cuts.get("active", ()))),
    }


def _fitting(parts: Parts, desk: Desk, free: int) -> Parts:
    """Cut the tiers that are above their share, the least important first, until they fit."""
    for name, share in shares(desk.settings).items():
        if _sum(parts) <= free:
            break
        if parts[name].tokens > share * free:
            target = int(desk.settings.low_water * share * free)
            parts = {**parts, name: parts[name].within(target)}
    return parts


def _turn(desk: Desk, limit: int) -> Tier:
    running = desk.view.running
    shown = within(running, seen(desk, running.messages), limit, desk.count)
    left_out = {"previews": shown.how, "turn": running.turn} if shown.how else {}
    tokens = count_messages(shown.messages, desk.count)
    return Tier("turn", shown.messages, tokens, left_out=left_out, turns=(running.turn,))


def _sum(parts: Parts) -> int:
    return sum(part.tokens for part in parts.values())


def _key(desk: Desk) -> str:
    """Return what names the present cuts: when it changes, everything is laid out anew."""
    space, settings = desk.space, desk.settings
    shown = {name: entry["turns"] for name, entry in space.expanded.items()}
    sizes = (desk.room, settings.ambient_window, settings.window_step, settings.preview_tokens)
    chosen = (*shares(settings).values(), settings.low_water, settings.turn_share)
    compressed = sorted(space.compressed.items())
    known = (space.active, sorted(space.open), compressed, shown, sorted(space.summaries))
    return fingerprint([known, sizes, chosen], 8)
