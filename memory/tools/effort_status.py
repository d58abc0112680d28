"""The tool that lists efforts, or shows one."""

from collections.abc import Mapping
from typing import Any

from ...prompts.loader import render
from ..efforts import Effort, happened, within_limit
from ..names import is_qualified, ranges
from ..references import reference
from ..running_turn import Outcome, Turn
from ..transcript import transcript
from ..turn import memberships
from .arguments import Text
from .expand_effort import is_in_view

STATUS_LISTED = 20
"""Further efforts that `effort_status` lists: a screenful; the others are searched for."""


def effort_status(work: Turn, effort_id: Text = "") -> Outcome:
    """List the efforts in the context, then the newest others, and count the remaining ones.

    With a name it is that effort alone, which counts as a reference.
    """
    if effort_id.strip():
        effort = work.find(effort_id)
        state = work.efforts
        if effort.status == "concluded" and effort.id not in state.summaries:
            state = happened(state, {"type": "returned", "effort": effort.id})
        event = reference(effort.id, "tool", ["effort_status"])
        if event not in state.events:
            state = happened(state, event)
        return work.put(within_limit(state)), {"efforts": [_entry(work, effort)]}
    in_context = [*work.efforts.open, *work.efforts.summaries]
    newest = work.view.past.efforts(len(in_context) + STATUS_LISTED)
    further = [e.id for e in newest.efforts if e.id not in in_context][:STATUS_LISTED]
    stored = work.view.efforts_named([name for name in in_context if not is_qualified(name)], ())
    unlisted = max(0, newest.total - len(stored) - len(further))
    entries = [_entry(work, effort) for effort in work.known([*in_context, *further])]
    result: dict[str, Any] = {"efforts": entries, "more": unlisted}
    result |= {"how": render("more_efforts")} if unlisted else {}
    return work, result


def _entry(work: Turn, effort: Effort) -> Mapping[str, Any]:
    running = bool(work.view.running.number) and effort.id in memberships(
        work.efforts.active, work.efforts.events
    )
    log = work.view.log(effort.id, running=running) if effort.status == "open" else ()
    turns = [*work.view.log_turns(effort.id), *([work.efforts.turn] if running else [])]
    return {
        "id": effort.id,
        "status": effort.status,
        "active": work.efforts.active == effort.id,
        **(effort.aims if effort.status == "open" else {}),
        "expanded": is_in_view(work, effort.id),
        "summary": render("summary_above") if is_qualified(effort.id) else effort.summary,
        "raw_tokens": work.run.count(transcript(log)) if log else effort.tokens,
        "summary_tokens": work.run.count(effort.summary),
        "turns": ranges(turns),
    }
