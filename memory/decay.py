"""What fades: expanded logs that nobody mentions collapse, summaries that nobody mentions leave."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .banners import banner_of
from .efforts import Efforts, happened
from .settings import Settings

PUT_OFF = 5
"""Turns for which what is due to leave may wait for a change of the context, to leave with it.

A summary that leaves alone costs the cached prefix of everything behind it.
"""


def collapsed(state: Efforts, settings: Settings) -> Efforts:
    """Return the state at the end of a turn, without the logs that nobody mentions any more.

    >>> from dataclasses import replace
    >>> from .efforts import EMPTY
    >>> log = {"expanded_turn": 5, "last_referenced_turn": 6, "turns": [1]}
    >>> state = replace(EMPTY, turn=9, expanded={"old": log})
    >>> collapsed(state, Settings(decay_threshold=3)).expanded
    {}
    """
    for name, entry in state.expanded.items():
        if not _left(entry, settings.decay_threshold, state.turn):
            silent = _silent(entry, state.turn)
            event = {"type": "collapsed", "effort": name, "auto": True, "silent": silent}
            state = happened(state, event, banner_of("faded", effort=name, turns=silent))
    return state


def _silent(entry: Mapping[str, Any], turn: int) -> int:
    silent: int = turn - entry["last_referenced_turn"]
    return silent


def _left(entry: Mapping[str, Any], threshold: int, turn: int) -> int:
    return max(0, threshold - _silent(entry, turn))


def due(state: Efforts, settings: Settings, turn: int) -> list[str]:
    """Return the summaries that were due to leave at the end of a turn.

    The summary of an effort whose log is expanded stays.

    >>> from dataclasses import replace
    >>> from .efforts import EMPTY
    >>> lines = {"old": {"last_referenced_turn": 5}, "new": {"last_referenced_turn": 6}}
    >>> state = replace(EMPTY, summaries=lines)
    >>> due(state, Settings(summary_eviction_threshold=20), 25)
    ['old']
    """
    threshold = settings.summary_eviction_threshold
    return [
        name
        for name, entry in state.summaries.items()
        if not _left(entry, threshold, turn) and name not in state.expanded
    ]


def evicted(state: Efforts, settings: Settings, turn: int) -> Efforts:
    """Return the state without the summaries that were due at the end of a turn."""
    for name in due(state, settings, turn):
        silent = _silent(state.summaries[name], turn)
        state = happened(state, {"type": "evicted", "effort": name, "silent": silent})
    return state


def counted_down(state: Efforts, settings: Settings) -> Efforts:
    """Return the state with the turns that logs and summaries have left if nobody mentions them.

    >>> from dataclasses import replace
    >>> from .efforts import EMPTY
    >>> state = replace(EMPTY, turn=9, summaries={"a": {"last_referenced_turn": 5}})
    >>> counted_down(state, Settings(summary_eviction_threshold=20)).summaries
    {'a': {'last_referenced_turn': 5, 'leaves_in': 16}}
    """
    expanded = {
        name: {**entry, "collapses_in": _left(entry, settings.decay_threshold, state.turn)}
        for name, entry in state.expanded.items()
    }
    gone = due(state, settings, state.turn)
    summaries = dict[str, Mapping[str, Any]]()
    for name, entry in state.summaries.items():
        turns = _left(entry, settings.summary_eviction_threshold, state.turn)
        rest = {field: value for field, value in entry.items() if field != "due"}
        is_due = {"due": True} if name in gone else {}
        summaries[name] = {**rest, "leaves_in": turns, **is_due}
    return replace(state, expanded=expanded, summaries=summaries)
