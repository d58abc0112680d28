"""What nobody references leaves the context: expanded logs soon, summaries later."""

from collections.abc import Iterator

from . import banners
from .efforts import EffortState, evicted, happened
from .settings import Settings


def decayed(state: EffortState, settings: Settings) -> EffortState:
    """Return the state at the end of its turn: faded logs collapsed, old summaries evicted.

    Open efforts stay, and so does the summary of an effort that was expanded in this turn.
    """
    old = [*_forgotten(state, settings.summary_eviction_threshold)]
    for name, turns in [*_faded(state, settings.decay_threshold)]:
        event = {"type": "collapsed", "effort": name, "auto": True}
        state = happened(state, event, banners.auto_collapsed(name, turns))
    for name in old:
        state = evicted(state, name)
    return state


def _faded(state: EffortState, threshold: int) -> Iterator[tuple[str, int]]:
    """Yield the expanded efforts without a reference for `threshold` turns, and since how many.

    >>> entry = {"expanded_turn": 1, "last_referenced_turn": 2, "turns": [1]}
    >>> [[*_faded(EffortState(turn, None, {}, {"a": entry}, {}), 3)] for turn in (4, 5)]
    [[], [('a', 3)]]
    """
    for name, entry in state.expanded.items():
        turns = state.turn - entry["last_referenced_turn"]
        if turns >= threshold:
            yield name, turns


def _forgotten(state: EffortState, threshold: int) -> Iterator[str]:
    """Yield the efforts whose summary had no reference for `threshold` turns; not expanded ones.

    >>> [[*_forgotten(EffortState(turn, None, {}, {}, {"a": 10}), 20)] for turn in (29, 30)]
    [[], ['a']]
    """
    for name, last in state.summaries.items():
        if name not in state.expanded and state.turn - last >= threshold:
            yield name
