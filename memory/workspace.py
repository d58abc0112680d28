"""The part of the graph's state that the memory tools change, as a frozen value."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .record import Event


@dataclass(frozen=True, slots=True)
class Workspace:
    """Efforts of the running turn by where they stand, with the events and banners of the turn.

    `open`: id -> opened_turn, last_active_turn, last_referenced_turn, most recently active last.
    `expanded`: id -> expanded_turn, last_referenced_turn, turns. `summaries`: id ->
    last_referenced_turn, in the order in which they came. `anchor`: field -> text. `compressed`:
    id of an open effort -> the turn after which it was compressed last.
    """

    turn: int
    active: str | None
    open: Mapping[str, Mapping[str, int]]
    expanded: Mapping[str, Mapping[str, Any]]
    summaries: Mapping[str, int]
    anchor: Mapping[str, str] = field(default_factory=dict)
    compressed: Mapping[str, int] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    banners: tuple[str, ...] = ()

    def told(self, event: Event, banner: str = "") -> "Workspace":
        """Return the workspace with one more event, and its banner if it has one."""
        banners = (*self.banners, banner) if banner else self.banners
        return replace(self, events=(*self.events, event), banners=banners)

    def activated(self, effort_id: str) -> "Workspace":
        """Return the workspace with this effort open and active, its place in time renewed."""
        fresh = {"opened_turn": self.turn, "last_referenced_turn": self.turn}
        entry = {**fresh, **self.open.get(effort_id, {}), "last_active_turn": self.turn}
        return replace(
            self, active=effort_id, open={**without(self.open, effort_id), effort_id: entry}
        )

    def closed(self, effort_id: str) -> "Workspace":
        """Return the workspace without this open effort; if it was active, none is."""
        active = None if self.active == effort_id else self.active
        return replace(self, open=without(self.open, effort_id), active=active)


def without(mapping: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return a copy of the mapping without one key."""
    return {name: value for name, value in mapping.items() if name != key}
