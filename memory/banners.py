"""Banners: lines that tell the user what happened to the context. Models never see them."""

import re
from typing import Any

from .transcript import clipped

BANNER = re.compile(
    r"--- (?:[A-Z][a-z -]{1,40} effort|From earlier sessions): [^\r\n]{1,1000}? ---(?!-)"
)
"""The first line of every banner about efforts, also within a line, as people quote it."""

_LISTED = 10  # efforts named in one banner: as many as `attention_limit` surfaces by default
_NAMED = 60  # characters of a name, or of the beginning of a text, so that each takes one line

_LINES = {
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
    "surfaced": "--- From earlier sessions: {listed} ---",
    "adopted": "--- Adopted {turns} earlier turn{s} ---",
    # These belong to no single event.
    "faded": "--- Auto-collapsed effort: {effort} (inactive for {turns} turns) ---",
    "shortened": "--- Compressed effort: {effort} (turns {turns}) ---",
    "left_out": "--- Out of view of effort: {effort} ({quotes} older quote{s} left out for lack of "
    "space, read_log reads them) ---",
    "not_compressed": "--- Could not compress effort: {effort} (tried again later) ---",
    "anchor_cut": "--- Shortened state block: it had {tokens} tokens, the limit is {limit} ---",
    "wordless": "--- Empty answer: the model wrote only its state block ---",
    "rounds": "--- Stopped calling tools: the limit of {limit} rounds is reached ---",
    "unsent": "--- Not sent: {attachments} ---",
    "too_large": "{attachments} (needs a context_budget of {budget} tokens)",
    "refused": "{attachments} (the model does not take this kind)",
    "application_left_out": "--- Not sent: {turns} system message{s} of the application, for lack "
    "of room: {listed} ---",
    "cleared": "--- Cleared the messages: the archive still has the conversation, "
    "delete_session(agent, config) deletes it ---",
    "put_right": "--- Corrected the memory: {places} ---",
    "lost": "--- Continued from the archive: the state named a turn that does not exist ---",
    "lost_rounds": "--- Lost rounds: those that left the messages of this turn are no longer in "
    "the archive, and the turn continues without them ---",
    "taken_along": "--- Stored with this turn: {turns} earlier message{s} that no turn had ---",
    "at_once": "--- Two turns at once: this is turn {turn} ({branch}), the other is turn {other} "
    "({beside}) on another branch, and both are kept ---",
    "unseen": "--- Started over: the archive has {turns} turn{s} of this thread, "
    "restore(agent, config, branch={branch!r}) continues from there ---",
}


def banner_of(kind: str, /, **fields: Any) -> str:
    """Return the banner of an event, or an empty text.

    >>> banner_of("expanded", effort="auth-bug", tokens=812)
    '--- Expanded effort: auth-bug (812 tokens) ---'
    """
    line, names = _LINES.get(kind, ""), fields.get("efforts", ())
    listed = [clipped(name, _NAMED) for name in names[:_LISTED]]
    if len(names) > _LISTED:
        listed.append(f"{len(names) - _LISTED} more")
    plural = "" if 1 in (fields.get("turns"), fields.get("quotes")) else "s"
    return line.format_map({**fields, "listed": ", ".join(listed), "s": plural})
