"""Looking at efforts and logs without changing anything."""

from collections.abc import Mapping
from typing import Any

from ..prompts.loader import text as prompt
from .arguments import Nothing, ReadLog
from .clock import day_of
from .desk import Desk, Outcome
from .efforts import Effort
from .errors import ToolError
from .numbers import ranges
from .qualified import is_qualified, qualified, session_name
from .recall import Recalled
from .record import memberships
from .slices import fit
from .transcript import transcript
from .view import View

_SHOWN = 160

_EARLIER = 20
"""Efforts of other sessions that `effort_status` names."""


def effort_status(desk: Desk, _args: Nothing) -> Outcome:
    """List the open and in-context efforts in full, then the newest others, then how many more."""
    near = [*desk.space.open, *desk.space.summaries]
    newest = desk.view.efforts(len(near) + desk.settings.status_limit)
    others = [effort.id for effort in newest.efforts if effort.id not in near]
    others = others[: desk.settings.status_limit]
    own = [name for name in near if not is_qualified(name)]
    stored = desk.view.efforts_named(own, ())
    more = max(0, newest.total - len(stored) - len(others))
    listed = [_entry(desk, effort) for effort in desk.known([*near, *others])]
    result: dict[str, Any] = {"efforts": listed}
    result |= {"more": more, "how": prompt("more_efforts")} if more else {}
    earlier = [
        {"id": qualified(one.owner, one.effort.id), "concluded": day_of(one.at)}
        for one in desk.view.concluded_elsewhere(_EARLIER)
        if one.effort
    ]
    return desk, result | ({"earlier_sessions": earlier} if earlier else {})


def _entry(desk: Desk, effort: Effort) -> Mapping[str, Any]:
    now = desk.view.running.turn
    running = bool(now) and effort.id in memberships(desk.space.active, desk.space.events)
    log = desk.view.log(effort.id, running=running) if effort.status == "open" else ()
    turns = [*desk.view.log_turns(effort.id), *([desk.space.turn] if running else [])]
    return {
        "id": effort.id,
        "status": effort.status,
        "active": desk.space.active == effort.id,
        **({"goal": effort.goal} if effort.status == "open" else {}),
        "expanded": effort.id in desk.space.expanded,
        "summary": prompt("summary_above") if is_qualified(effort.id) else effort.summary,
        "raw_tokens": desk.count(transcript(log)) if log else effort.tokens,
        "summary_tokens": desk.count(effort.summary),
        "turns": ranges(turns),
    }


def read_log(desk: Desk, args: ReadLog) -> tuple[Desk, Mapping[str, Any], Recalled]:
    """Return the text of a visible turn from an offset on, as much as the free budget allows.

    With a session it is a turn of its newest branch; what is quoted is the record as it is there.
    """
    view = _view(desk, args.session)
    log = view.render(args.turn)
    if not log:
        raise ToolError(_gone(desk, view, args.turn))
    if not 0 <= args.offset < len(log):
        raise ToolError(f"offset {args.offset} is outside turn {args.turn}: 0-{len(log) - 1}")
    end = args.offset + fit(log[args.offset :], desk.free, desk.count)
    where = _where(desk, view, args.turn)
    result = {
        "turn": args.turn,
        **({"session": where["session"]} if where else {}),
        "efforts": list(_efforts(desk, view, args.turn)),
        "text": log[args.offset : end],
        "next_offset": end if end < len(log) else None,
        "length": len(log),
    }
    return desk, result, Recalled(args.turn, args.offset, end, **where)


def _where(desk: Desk, view: View, turn: int) -> dict[str, str]:
    """Name the record of another session: the session, and the branch that the turn is on."""
    if view is desk.view:
        return {}
    branch = next((record.branch for record in view.turns([turn])), view.tip.branch)
    return {"session": session_name(view.owner), "branch": branch}


def _view(desk: Desk, session: str) -> View:
    """Return the view that sees a session, the desk's own if none is named."""
    found = desk.view.session(session) if session else desk.view
    if found is None:
        raise ToolError(
            f"no earlier session {session[:_SHOWN]!r}; a session is the part before the slash of "
            "an id such as 't1/auth-bug', without it turns of this session are read"
        )
    return found


def _gone(desk: Desk, view: View, turn: int) -> str:
    where = "" if view is desk.view else f" of session {session_name(view.owner)!r}"
    if view.erased(turn):
        return f"turn {turn}{where} was erased: its text cannot be read any more"
    newest = max(view.running.turn, view.tip.turn)
    return f"turn {turn}{where} is not there; the turns are 1-{newest}"


def _efforts(desk: Desk, view: View, turn: int) -> tuple[str, ...]:
    if view is desk.view and turn == view.running.turn:
        return memberships(desk.space.active, desk.space.events)
    names = next((record.efforts for record in view.turns([turn])), ())
    return names if view is desk.view else tuple(qualified(view.owner, name) for name in names)
