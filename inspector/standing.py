"""What stands in the context after a turn: in which form, and for how many turns yet."""

from collections.abc import Sequence
from typing import Any

from ..memory.archive.protocol import Archive
from ..memory.decay import counted_down
from ..memory.settings import Settings
from ..memory.turn import Session, StoredTurn
from ..nodes.turn.state import efforts_of
from ..nodes.turn.turn import memory_at
from .words import leaving


def standing(
    archive: Archive, session: Session, turn: StoredTurn, settings: Settings
) -> dict[str, Any]:
    """Return the efforts in the context after a turn, by id.

    Each has its `state`, the turn in which it was `last` mentioned, and when it `leaves` that state
    if nobody mentions it.
    """
    efforts = efforts_of(memory_at(archive, session, turn.tip))
    efforts = counted_down(efforts, _in_force(turn.events, settings))
    forms = (
        ("open", efforts.open, ""),
        ("concluded", efforts.summaries, "leaves_in"),
        ("expanded", efforts.expanded, "collapses_in"),
    )
    return {
        name: {
            "state": state,
            "last": entry["last_referenced_turn"],
            "leaves": leaving(state, entry.get(left, 0)),
        }
        for state, entries, left in forms
        for name, entry in entries.items()
    }


def _in_force(events: Sequence[Any], settings: Settings) -> Settings:
    """Return the settings with the thresholds of the turn's last call."""
    given = [event["thresholds"] for event in events if "thresholds" in event]
    return settings.model_copy(update=given[-1]) if given else settings
