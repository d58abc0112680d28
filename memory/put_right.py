"""Put a memory right that somebody edited: what the archive contradicts is taken out."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .efforts import EffortState
from .names import is_qualified
from .view import ArchiveView


def put_right(efforts: EffortState, view: ArchiveView) -> tuple[EffortState, tuple[str, ...]]:
    """Return the efforts as far as the archive bears them out, and the keys that had to change.

    An effort is open only if it is open at the tip of `view`, expanded and listed only if it is
    concluded; no turn is later than the tip's. What was taken out by hand, such as a summary, stays
    out.
    """
    named = [*{**efforts.open, **efforts.expanded, **efforts.summaries}]
    status = {effort.id: effort.status for effort in view.efforts_named(named, ())}

    def kept(entries: Mapping[str, Any], wanted: str) -> dict[str, Any]:
        existing = (name for name in entries if status.get(name) == wanted)
        return {name: _clipped(name, entries[name], view.tip.turn) for name in existing}

    right = replace(
        efforts,
        open=kept(efforts.open, "open"),
        expanded=kept(efforts.expanded, "concluded"),
        summaries=kept(efforts.summaries, "concluded"),
        compressed=kept(efforts.compressed, "open"),
    )
    if right.active not in {*right.open, None}:
        right = replace(right, active=None)
    names = {"active": "active_effort", "open": "open_efforts"}
    fields = ("active", "open", "expanded", "summaries", "compressed")
    changed = (name for name in fields if getattr(right, name) != getattr(efforts, name))
    return right, tuple(names.get(name, name) for name in changed)


def _clipped(name: str, entry: Any, last: int) -> Any:
    """Return an effort's entry without turns after the last one.

    Logs of other sessions have turns of their own.

    >>> _clipped("a", {"expanded_turn": 9, "turns": [1, 9]}, 4), _clipped("a", 9, 4)
    ({'expanded_turn': 4, 'turns': [1]}, 4)
    """
    if isinstance(entry, int):
        return min(entry, last)
    if isinstance(entry, list):
        return [turn for turn in entry if turn <= last or is_qualified(name)]
    return {key: _clipped(name, value, last) for key, value in entry.items()}
