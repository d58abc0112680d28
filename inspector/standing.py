"""What stands in the context after a turn: in which form, and for how many turns yet."""

from collections.abc import Sequence
from typing import Any

from ..memory.archive.protocol import Archive
from ..memory.decay import counted_down
from ..memory.settings import Settings
from ..memory.turn import Session, StoredTurn
from ..nodes.turn.state import efforts_of
from ..nodes.turn.turn import memory_at


def standing(
    archive: Archive, session: Session, turn: StoredTurn, settings: Settings
) -> dict[str, Any]:
    """Return the efforts in the context after a turn, by id.

    Each has its `state`, the turn in which it was `last` mentioned, and in how many turns it
    `leaves` that state if nobody mentions it: an open effort stays.
    """
    efforts = efforts_of(memory_at(archive, session, turn.tip))
    efforts = counted_down(efforts, _in_force(turn.events, settings))
    opened = {name: {"state": "open"} for name in efforts.open}
    summaries = {
        name: _entry("concluded", entry, "leaves_in") for name, entry in efforts.summaries.items()
    }
    logs = {
        name: _entry("expanded", entry, "collapses_in") for name, entry in efforts.expanded.items()
    }
    return {**opened, **summaries, **logs}


def _entry(state: str, entry: Any, key: str) -> dict[str, Any]:
    return {"state": state, "last": entry["last_referenced_turn"], "leaves": entry[key]}


def _in_force(events: Sequence[Any], settings: Settings) -> Settings:
    """Return the settings with the thresholds of the turn's last call."""
    given = [event["thresholds"] for event in events if "thresholds" in event]
    return settings.model_copy(update=given[-1]) if given else settings
