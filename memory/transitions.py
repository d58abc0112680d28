"""What an event changes in the workspace: the same as it happens and when it is replayed."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from . import banners
from .record import Event
from .workspace import Workspace, without


def happened(space: Workspace, event: Event, banner: str = "") -> Workspace:
    """Return the workspace after an event, which it tells with its banner."""
    return applied(space, event).told(event, banner)


def applied(space: Workspace, event: Event) -> Workspace:
    """Return the workspace after an event; events of other kinds change nothing in it."""
    return _TRANSITIONS.get(event["type"], _unchanged)(space, event)


def evicted(space: Workspace, effort_id: str) -> Workspace:
    """Return the workspace without the summary and the log of an effort."""
    return happened(space, {"type": "evicted", "effort": effort_id}, banners.evicted(effort_id))


def within_limit(space: Workspace, limit: int) -> Workspace:
    """Return the workspace with `limit` summaries at most; the longest unreferenced leave.

    Expanded efforts keep theirs as long as another one can leave.
    """
    while len(space.summaries) > limit:
        space = evicted(space, min(space.summaries, key=partial(_place, space)))
    return space


def _place(space: Workspace, name: str) -> tuple[bool, int]:
    return name in space.expanded, space.summaries[name]


def _unchanged(space: Workspace, _event: Event) -> Workspace:
    return space


def _activated(space: Workspace, event: Event) -> Workspace:
    return space.activated(event["effort"])


def _paused(space: Workspace, _event: Event) -> Workspace:
    return replace(space, active=None)


def _reopened(space: Workspace, event: Event) -> Workspace:
    space = _hidden(space, event).activated(event["effort"])
    return _compressed(space, event["effort"], event.get("compressed", 0))


def _concluded(space: Workspace, event: Event) -> Workspace:
    return _shown(_compressed(space.closed(event["effort"]), event["effort"], 0), event)


def _shortened(space: Workspace, event: Event) -> Workspace:
    name = event["effort"]
    return _compressed(space, name, event["turn"]) if name in space.open else space


def _compressed(space: Workspace, name: str, turn: int) -> Workspace:
    """Return the workspace with the turn after which an effort was compressed last, 0 for none."""
    rest = without(space.compressed, name)
    return replace(space, compressed={**rest, name: turn} if turn else rest)


def _collapsed(space: Workspace, event: Event) -> Workspace:
    return replace(space, expanded=without(space.expanded, event["effort"]))


def _shown(space: Workspace, event: Event) -> Workspace:
    name = event["effort"]
    return replace(space, summaries={**without(space.summaries, name), name: space.turn})


def _surfaced(space: Workspace, event: Event) -> Workspace:
    names = event["efforts"]
    kept = {name: turn for name, turn in space.summaries.items() if name not in names}
    return replace(space, summaries={**kept, **dict.fromkeys(names, space.turn)})


def _hidden(space: Workspace, event: Event) -> Workspace:
    return replace(
        space,
        summaries=without(space.summaries, event["effort"]),
        expanded=without(space.expanded, event["effort"]),
    )


def _expanded(space: Workspace, event: Event) -> Workspace:
    name = event["effort"]
    before = space.expanded.get(name, {}) if event.get("again") else {}
    entry = {"expanded_turn": space.turn, "turns": list(event["turns"]), **before}
    entry["last_referenced_turn"] = space.turn
    return replace(
        space,
        expanded={**space.expanded, name: entry},
        summaries={**space.summaries, name: space.turn},
    )


def _referenced(space: Workspace, event: Event) -> Workspace:
    name = event["effort"]
    summary = {name: space.turn} if name in space.summaries else {}
    return replace(
        space,
        open=_renewed(space.open, name, space.turn),
        expanded=_renewed(space.expanded, name, space.turn),
        summaries={**space.summaries, **summary},
    )


def _anchored(space: Workspace, event: Event) -> Workspace:
    return replace(space, anchor=dict(event["anchor"]))


def _renewed(entries: Mapping[str, Any], name: str, turn: int) -> dict[str, Any]:
    if name not in entries:
        return dict(entries)
    return {**entries, name: {**entries[name], "last_referenced_turn": turn}}


_TRANSITIONS: Mapping[str, Callable[[Workspace, Event], Workspace]] = {
    "opened": _activated,
    "switched": _activated,
    "paused": _paused,
    "reopened": _reopened,
    "concluded": _concluded,
    "expanded": _expanded,
    "collapsed": _collapsed,
    "evicted": _hidden,
    "returned": _shown,
    "surfaced": _surfaced,
    "referenced": _referenced,
    "anchored": _anchored,
    "compressed": _shortened,
}
