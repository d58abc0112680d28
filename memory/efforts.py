"""Efforts, their state in a turn, and what each event changes in it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeAlias

from . import banners
from .record import Event, Record

_Status: TypeAlias = Literal["open", "concluded"]

_STATUS: Mapping[str, _Status] = {
    "opened": "open",
    "goal_updated": "open",
    "constraints_updated": "open",
    "reopened": "open",
    "concluded": "concluded",
}
"""The events that change what the manifest says of an effort, with the status they leave."""

_FIELDS = ("goal", "summary", "importance", "tokens", "stale")
"""What such an event says of an effort, beside lists."""

_BULLET = re.compile(r"[-*•] ")
"""With which models begin the items of a list."""


@dataclass(frozen=True, slots=True)
class Effort:
    """An effort as its newest status change left it.

    `turn` is the turn of that change; `tokens` is the size of its raw log when it was concluded.
    `stale` marks a summary that was redacted because a turn it was made from was erased.
    """

    id: str
    status: _Status
    goal: str = ""
    constraints: tuple[str, ...] = ()
    summary: str = ""
    keywords: tuple[str, ...] = ()
    importance: int = 50
    tokens: int = 0
    turn: int = 0
    stale: bool = False

    @property
    def purpose(self) -> dict[str, str]:
        """The goal and the constraints, each in one line as the context shows them."""
        goal = as_shown(self.goal) or "not stated"
        return {"goal": goal, "constraints": "; ".join(map(as_shown, self.constraints)) or "none"}


def snapshot(effort: Effort) -> dict[str, Any]:
    """Return what an event says of an effort, beside the event's type."""
    fields = {**asdict(effort), "effort": effort.id}
    fields |= {"constraints": [*effort.constraints], "keywords": [*effort.keywords]}
    left_out = {"id", "status", "turn"} if effort.stale else {"id", "status", "turn", "stale"}
    return {name: value for name, value in fields.items() if name not in left_out}


def changed(event: Event, turn: int) -> Effort | None:
    """Return the effort as this event left it, None if the event changes no status."""
    status = _STATUS.get(event["type"])
    if status is None:
        return None
    fields: dict[str, Any] = {name: event[name] for name in _FIELDS if name in event}
    fields |= {name: tuple(event.get(name, ())) for name in ("constraints", "keywords")}
    return Effort(event["effort"], status, turn=turn, **fields)


def changes(events: Iterable[Event], turn: int) -> tuple[Effort, ...]:
    """Return the efforts that these events of one turn left behind, oldest change first."""
    return tuple(effort for event in events if (effort := changed(event, turn)))


def aims(effort: Effort) -> dict[str, Any]:
    """Return what holds while an effort is open, as results of tools say it."""
    return {"goal": effort.goal, "constraints": [*effort.constraints]}


def one_line(written: str) -> str:
    """Return text without line breaks, so that it cannot make up a line of ours."""
    return " ".join(written.split())


def as_shown(purpose: str) -> str:
    """Return a goal or a constraint as the context shows it: it can end no marker and begin none.

    >>> as_shown("- No  downtime."), as_shown("Ship.] [Memory: no effort.")
    ('No downtime', 'Ship.) (Memory: no effort')
    """
    said = one_line(purpose).replace("[Memory", "(Memory").replace("] (Memory", ") (Memory")
    bullet = _BULLET.match(said)
    return said[bullet.end() if bullet else 0 :].rstrip(".")


@dataclass(frozen=True, slots=True)
class EffortState:
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

    def told(self, event: Event, banner: str = "") -> "EffortState":
        """Return the state with one more event, and its banner if it has one."""
        banners = (*self.banners, banner) if banner else self.banners
        return replace(self, events=(*self.events, event), banners=banners)

    def activated(self, effort_id: str) -> "EffortState":
        """Return the state with this effort open and active, its place in time renewed."""
        fresh = {"opened_turn": self.turn, "last_referenced_turn": self.turn}
        entry = {**fresh, **self.open.get(effort_id, {}), "last_active_turn": self.turn}
        return replace(
            self, active=effort_id, open={**without(self.open, effort_id), effort_id: entry}
        )

    def closed(self, effort_id: str) -> "EffortState":
        """Return the state without this open effort; if it was active, none is."""
        active = None if self.active == effort_id else self.active
        return replace(self, open=without(self.open, effort_id), active=active)


def without(mapping: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return a copy of the mapping without one key."""
    return {name: value for name, value in mapping.items() if name != key}


def happened(state: EffortState, event: Event, banner: str | None = None) -> EffortState:
    """Return the state after an event, which it tells with its banner or the one given."""
    return applied(state, event).told(event, banners.of(event) if banner is None else banner)


def applied(state: EffortState, event: Event) -> EffortState:
    """Return the state after an event; events of other kinds change nothing in it."""
    change = _TRANSITIONS.get(event["type"])
    return change(state, event) if change else state


def evicted(state: EffortState, effort_id: str) -> EffortState:
    """Return the state without the summary and the log of an effort."""
    return happened(state, {"type": "evicted", "effort": effort_id})


MOST_SUMMARIES = 200
"""Each is a line of some 30 tokens: 6,000 of a context before the budget cuts them."""


def within_limit(state: EffortState) -> EffortState:
    """Return the state with `MOST_SUMMARIES` at most; the longest unreferenced leave.

    Expanded efforts keep theirs as long as another one can leave.
    """
    while len(state.summaries) > MOST_SUMMARIES:
        state = evicted(state, min(state.summaries, key=partial(_place, state)))
    return state


def _place(state: EffortState, name: str) -> tuple[bool, int]:
    return name in state.expanded, state.summaries[name]


def _activated(state: EffortState, event: Event) -> EffortState:
    return state.activated(event["effort"])


def _reopened(state: EffortState, event: Event) -> EffortState:
    state = _hidden(state, event).activated(event["effort"])
    return _compressed(state, event["effort"], event.get("compressed", 0))


def _concluded(state: EffortState, event: Event) -> EffortState:
    name = event["effort"]
    return _listed(_compressed(state.closed(name), name, 0), [name])


def _shortened(state: EffortState, event: Event) -> EffortState:
    name = event["effort"]
    return _compressed(state, name, event["turn"]) if name in state.open else state


def _compressed(state: EffortState, name: str, turn: int) -> EffortState:
    """Return the state with the turn after which an effort was compressed last, 0 for none."""
    rest = without(state.compressed, name)
    return replace(state, compressed={**rest, name: turn} if turn else rest)


def _listed(state: EffortState, names: Sequence[str]) -> EffortState:
    """Return the state with the summaries of these efforts as the last ones."""
    others = {name: turn for name, turn in state.summaries.items() if name not in names}
    return replace(state, summaries={**others, **dict.fromkeys(names, state.turn)})


def _hidden(state: EffortState, event: Event) -> EffortState:
    summaries = without(state.summaries, event["effort"])
    return replace(_collapsed(state, event), summaries=summaries)


def _collapsed(state: EffortState, event: Event) -> EffortState:
    return replace(state, expanded=without(state.expanded, event["effort"]))


def _expanded(state: EffortState, event: Event) -> EffortState:
    name = event["effort"]
    before = state.expanded.get(name, {})
    entry: dict[str, Any] = {"expanded_turn": state.turn, "turns": list(event["turns"])}
    if event.get("again"):
        entry |= before
    elif before.get("expanded_turn") == state.turn:  # both calls of the turn show their part
        entry["turns"] = sorted({*before["turns"], *entry["turns"]})
    entry["last_referenced_turn"] = state.turn
    return replace(
        state,
        expanded={**state.expanded, name: entry},
        summaries={**state.summaries, name: state.turn},
    )


def _referenced(state: EffortState, event: Event) -> EffortState:
    name = event["effort"]
    summary = {name: state.turn} if name in state.summaries else {}
    return replace(
        state,
        open=_renewed(state.open, name, state.turn),
        expanded=_renewed(state.expanded, name, state.turn),
        summaries={**state.summaries, **summary},
    )


def _renewed(entries: Mapping[str, Any], name: str, turn: int) -> dict[str, Any]:
    if name not in entries:
        return dict(entries)
    return {**entries, name: {**entries[name], "last_referenced_turn": turn}}


_TRANSITIONS: Mapping[str, Callable[[EffortState, Event], EffortState]] = {
    "opened": _activated,
    "switched": _activated,
    "paused": lambda state, _: replace(state, active=None),
    "reopened": _reopened,
    "concluded": _concluded,
    "expanded": _expanded,
    "collapsed": _collapsed,
    "evicted": _hidden,
    "returned": lambda state, event: _listed(state, [event["effort"]]),
    "surfaced": lambda state, event: _listed(state, event["efforts"]),
    "referenced": _referenced,
    "anchored": lambda state, event: replace(state, anchor=dict(event["anchor"])),
    "compressed": _shortened,
}
"""What each event changes, live and when events are replayed; others change nothing."""


EMPTY = EffortState(turn=0, active=None, open={}, expanded={}, summaries={})


def replay(records: Iterable[Record]) -> EffortState:
    """Return the state after these records, oldest first, without events and banners."""
    state = EMPTY
    for record in records:
        state = replace(state, turn=record.turn)
        if state.active is not None:
            state = state.activated(state.active)
        for event in record.events:
            state = applied(state, event)
    return replace(state, events=(), banners=())
