"""Put a memory right that somebody edited: what the archive contradicts is taken out."""

from dataclasses import replace
from typing import Any

from .efforts import EffortState
from .names import is_qualified
from .view import ArchiveView

_BORNE_OUT = {
    "open": ("open_efforts", "open"),
    "expanded": ("expanded", "concluded"),
    "summaries": ("summaries", "concluded"),
    "compressed": ("compressed", "open"),
}
"""The entries of efforts with their key in the state, and the status that they must have."""


def put_right(efforts: EffortState, view: ArchiveView) -> tuple[EffortState, tuple[str, ...]]:
    """Return the efforts as far as the archive bears them out, and the keys that had to change.

    An effort is open only if it is open at the tip of `view`, expanded and listed only if it is
    concluded; no turn is later than the tip's. What was taken out by hand, such as a summary, stays
    out.
    """
    named = [*{**efforts.open, **efforts.expanded, **efforts.summaries}]
    status: dict[str, str] = {}
    for effort in view.efforts_named(named, ()):
        status[effort.id] = effort.status
    right, changed = dict[str, Any](), list[str]()
    for field, (key, wanted) in _BORNE_OUT.items():
        entries, kept = getattr(efforts, field), dict[str, Any]()
        for name, entry in entries.items():
            if status.get(name) == wanted:
                kept[name] = _clipped(name, entry, view.tip.turn)
        if kept != entries:
            right[field] = kept
            changed.append(key)
    if efforts.active not in {*right.get("open", efforts.open), None}:
        right["active"] = None
        changed.insert(0, "active_effort")
    return replace(efforts, **right), tuple(changed)


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
