"""The lines that tell the user what happened to the context; no model reads them.

>>> expanded("auth-bug", 812)
'--- Expanded effort: auth-bug (812 tokens) ---'
"""

import re
from collections.abc import Callable, Sequence

BANNER = re.compile(r"^--- (?:[A-Z][a-z -]* effort|From earlier sessions): .* ---$", re.MULTILINE)
"""The line that every banner of an effort begins with."""

_LISTED = 10
"""Efforts that a banner names: as many as `attention_limit` surfaces by default."""

_NAMED = 60
"""Characters of a name in a banner, which is one line."""


def _line(said: str, below: str = "") -> Callable[..., str]:
    return f"--- {said} ---{below}".format


started = _line("Started effort: {}")
concluded = _line("Concluded effort: {}", "\n{}")
"""With the summary below."""
switched = _line("Switched to effort: {}")
paused = _line("Paused effort: {}")
reopened = _line("Reopened effort: {}")
goal_updated = _line("Updated goal of effort: {}")
constraints_updated = _line("Updated constraints of effort: {}")
expanded = _line("Expanded effort: {} ({} tokens)")
collapsed = _line("Collapsed effort: {} (back to summary)")
auto_collapsed = _line("Auto-collapsed effort: {} (inactive for {} turns)")
evicted = _line("Evicted effort: {} (kept in the archive)")
returned = _line("Returned effort: {}")
compressed = _line("Compressed effort: {} (turns {})")
anchor_cut = _line("Shortened state block: {} tokens, of which {} may be kept")
wordless = _line("Answered without words: only the state block was written")


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
