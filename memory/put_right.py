"""Put a memory right that somebody edited: what the archive contradicts is taken out."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .efforts import Efforts
from .names import is_qualified
from .view import ArchiveView

_BORNE_OUT = {
    "open": ("open_efforts", "open"),
    "expanded": ("expanded", "concluded"),
    "summaries": ("summaries", "concluded"),
}
"""The entries of efforts with their key in the state, and the status that they must have."""


def put_right(
    efforts: Efforts, view: ArchiveView, before: Mapping[str, Any]
) -> tuple[Efforts, tuple[tuple[str, ...], ...]]:
    """Return the efforts as far as the archive bears them out, and what of the state had to change.

    An effort is open only if it is open at the tip of `view` and after the events of the running
    turn, expanded and listed only if it is concluded; no turn is later than the tip's. An open one
    that was taken out by hand is put back as it was `before`; others, such as summaries, stay out.
    """
    named, last = {**efforts.open, **efforts.expanded, **efforts.summaries, **before}, view.tip.turn
    status: dict[str, str] = {}
    for effort in view.efforts_named([*named], efforts.events):
        status[effort.id] = effort.status
    right, wrong = dict[str, Any](), list[tuple[str, ...]]()
    for field, (key, wanted) in _BORNE_OUT.items():
        kept = right[field] = dict[str, Any]()
        for name, entry in getattr(efforts, field).items():
            if status.get(name) != wanted:
                wrong.append((key, name))
                continue
            kept[name] = entry
            if field == "expanded" and not is_qualified(name):  # others have turns of their own
                turns = [turn for turn in entry["turns"] if turn <= last]
                if turns != entry["turns"]:
                    kept[name] = {**entry, "turns": turns}
                    wrong.append((key, name, "turns"))
    missing = [name for name in before if name not in efforts.open and status.get(name) == "open"]
    wrong += [("open_efforts", name) for name in missing]
    whole = {**right["open"], **{name: before[name] for name in missing}}
    right["open"] = dict(sorted(whole.items(), key=lambda item: item[1]["last_active_turn"]))
    if efforts.active not in {*right["open"], None}:
        right["active"] = None
        wrong.insert(0, ("active_effort",))
    return replace(efforts, **right), tuple(wrong)
