"""The lines that tell the user what happened to the context; no model reads them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

BANNER = re.compile(r"^--- (?:[A-Z][a-z -]* effort|From earlier sessions): .* ---$", re.MULTILINE)
"""The line that every banner of an effort begins with."""

_LISTED = 10
"""Efforts that a banner names: as many as `attention_limit` surfaces by default."""

_NAMED = 60
"""Characters of a name in a banner, which is one line."""


_OF_EVENTS = {
    "opened": "--- Started effort: {effort} ---",
    "concluded": "--- Concluded effort: {effort} ---\n{summary}",
    "switched": "--- Switched to effort: {effort} ---",
    "paused": "--- Paused effort: {effort} ---",
    "reopened": "--- Reopened effort: {effort} ---",
    "goal_updated": "--- Updated goal of effort: {effort} ---",
    "constraints_updated": "--- Updated constraints of effort: {effort} ---",
    "expanded": "--- Expanded effort: {effort} ({tokens} tokens) ---",
    "collapsed": "--- Collapsed effort: {effort} (back to summary) ---",
    "evicted": "--- Evicted effort: {effort} (kept in the archive) ---",
    "returned": "--- Returned effort: {effort} ---",
}
"""By what an event says; of others, what happened says more."""

WORDLESS = "--- Answered without words: only the state block was written ---"


def of(event: Mapping[str, Any]) -> str:
    """Return the banner of an event, empty if it has none of its own.

    >>> of({"type": "expanded", "effort": "auth-bug", "tokens": 812})
    '--- Expanded effort: auth-bug (812 tokens) ---'
    """
    return _OF_EVENTS.get(event["type"], "").format_map(event)


def auto_collapsed(effort: str, turns: int) -> str:
    """Return the banner of a log that nobody mentioned for so many turns."""
    return f"--- Auto-collapsed effort: {effort} (inactive for {turns} turns) ---"


def compressed(effort: str, turns: str) -> str:
    """Return the banner of an effort of which these turns are quoted from now on."""
    return f"--- Compressed effort: {effort} (turns {turns}) ---"


def anchor_cut(tokens: int, limit: int) -> str:
    """Return the banner of a state block that is longer than it may be."""
    return f"--- Shortened state block: {tokens} tokens, of which {limit} may be kept ---"


def adopted(turns: int) -> str:
    """Return the banner of a history that was committed before its next turn."""
    return f"--- Adopted {turns} earlier turn{'' if turns == 1 else 's'} ---"


def unseen(turns: int, branch: str) -> str:
    """Return the banner of a run that begins anew on a thread of which the archive has turns.

    >>> print(unseen(2, "main"))
    --- Began anew: the archive has 2 turns, restore(agent, config, branch='main') goes on there ---
    """
    there = f"{turns} turn{'' if turns == 1 else 's'}, restore(agent, config, branch={branch!r})"
    return f"--- Began anew: the archive has {there} goes on there ---"


def surfaced(ids: Sequence[str]) -> str:
    """Return the banner of summaries of earlier sessions, with ten of their ids at most.

    >>> surfaced(["t1/auth-bug", "t2/css"])
    '--- From earlier sessions: t1/auth-bug, t2/css ---'
    """
    names = [name if len(name) <= _NAMED else f"{name[:_NAMED]}…" for name in ids]
    more = [f"{len(names) - _LISTED} more"] if len(names) > _LISTED else []
    return f"--- From earlier sessions: {', '.join([*names[:_LISTED], *more])} ---"
