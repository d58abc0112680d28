"""The lines that tell the user what happened to the context; no model reads them."""

import re
from collections.abc import Sequence

BANNER = re.compile(r"^--- (?:[A-Z][a-z -]* effort|From earlier sessions): .* ---$", re.MULTILINE)
"""The line that every banner of an effort begins with."""

_LISTED = 10
"""Efforts that a banner names: as many as `attention_limit` surfaces by default."""

_NAMED = 60
"""Characters of a name in a banner, which is one line."""


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


def started(effort_id: str) -> str:
    """Return the banner of an opened effort."""
    return f"--- Started effort: {effort_id} ---"


def concluded(effort_id: str, summary: str) -> str:
    """Return the banner of a concluded effort, with its summary below."""
    return f"--- Concluded effort: {effort_id} ---\n{summary}"


def switched(effort_id: str) -> str:
    """Return the banner of an effort that became active."""
    return f"--- Switched to effort: {effort_id} ---"


def paused(effort_id: str) -> str:
    """Return the banner of an effort that stays open and is active no longer."""
    return f"--- Paused effort: {effort_id} ---"


def reopened(effort_id: str) -> str:
    """Return the banner of a concluded effort that goes on."""
    return f"--- Reopened effort: {effort_id} ---"


def expanded(effort_id: str, tokens: int) -> str:
    """Return the banner of an effort whose raw log is back in the context.

    >>> expanded("auth-bug", 812)
    '--- Expanded effort: auth-bug (812 tokens) ---'
    """
    return f"--- Expanded effort: {effort_id} ({tokens} tokens) ---"


def collapsed(effort_id: str) -> str:
    """Return the banner of an expanded effort that went back to its summary."""
    return f"--- Collapsed effort: {effort_id} (back to summary) ---"


def auto_collapsed(effort_id: str, turns: int) -> str:
    """Return the banner of an expanded effort that nobody referenced for some turns.

    >>> auto_collapsed("auth-bug", 3)
    '--- Auto-collapsed effort: auth-bug (inactive for 3 turns) ---'
    """
    return f"--- Auto-collapsed effort: {effort_id} (inactive for {turns} turns) ---"


def evicted(effort_id: str) -> str:
    """Return the banner of a summary that left the context."""
    return f"--- Evicted effort: {effort_id} (kept in the archive) ---"


def returned(effort_id: str) -> str:
    """Return the banner of a summary that came back to the context."""
    return f"--- Returned effort: {effort_id} ---"


def surfaced(ids: Sequence[str]) -> str:
    """Return the banner of summaries of earlier sessions, with ten of their ids at most.

    >>> surfaced(["t1/auth-bug", "t2/css"])
    '--- From earlier sessions: t1/auth-bug, t2/css ---'
    """
    names = [name if len(name) <= _NAMED else f"{name[:_NAMED]}…" for name in ids]
    more = [f"{len(names) - _LISTED} more"] if len(names) > _LISTED else []
    return f"--- From earlier sessions: {', '.join([*names[:_LISTED], *more])} ---"


def compressed(effort_id: str, turns: str) -> str:
    """Return the banner of an open effort of which older turns were compressed.

    >>> compressed("auth-bug", "3-17")
    '--- Compressed effort: auth-bug (turns 3-17) ---'
    """
    return f"--- Compressed effort: {effort_id} (turns {turns}) ---"


def anchor_cut(tokens: int, limit: int) -> str:
    """Return the banner of a state block that was longer than it may be.

    >>> anchor_cut(512, 400)
    '--- Shortened state block: 512 tokens, of which 400 may be kept ---'
    """
    return f"--- Shortened state block: {tokens} tokens, of which {limit} may be kept ---"


def wordless() -> str:
    """Return the banner of an answer that is nothing but a state block, so that users see none."""
    return "--- Answered without words: only the state block was written ---"


def goal_updated(effort_id: str) -> str:
    """Return the banner of an effort whose goal changed."""
    return f"--- Updated goal of effort: {effort_id} ---"


def constraints_updated(effort_id: str) -> str:
    """Return the banner of an effort whose constraints changed."""
    return f"--- Updated constraints of effort: {effort_id} ---"
