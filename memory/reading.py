"""Looking at efforts and logs without changing anything."""

from collections.abc import Mapping
from typing import Any

from ..prompts.loader import text as prompt
from .arguments import Nothing, ReadLog
from .desk import Desk, Outcome
from .efforts import Effort
from .errors import ToolError
from .numbers import ranges
from .recall import Recalled
from .record import memberships
from .slices import fit
from .transcript import transcript


def effort_status(desk: Desk, _args: Nothing) -> Outcome:
    """List the open and in-context efforts in full, then the newest others, then how many more."""
    near = [*desk.space.open, *desk.space.summaries]
    newest = desk.view.efforts(len(near) + desk.settings.status_limit)
    others = [effort.id for effort in newest.efforts if effort.id not in near]
    others = others[: desk.settings.status_limit]
    stored = desk.view.efforts_named(near, ())
    more = max(0, newest.total - len(stored) - len(others))
    listed = [_entry(desk, effort) for effort in desk.known([*near, *others])]
    result: dict[str, Any] = {"efforts": listed}
    return desk, result | ({"more": more, "how": prompt("more_efforts")} if more else {})


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
        "summary": effort.summary,
        "raw_tokens": desk.count(transcript(log)) if log else effort.tokens,
        "summary_tokens": desk.count(effort.summary),
        "turns": ranges(turns),
    }


def read_log(desk: Desk, args: ReadLog) -> tuple[Desk, Mapping[str, Any], Recalled]:
    """Return the text of a visible turn from an offset on, as much as the free budget allows."""
    log = desk.view.render(args.turn)
    if not log:
        if desk.view.erased(args.turn):
            raise ToolError(f"turn {args.turn} was erased: its text cannot be read any more")
        raise ToolError(f"turn {args.turn} is not there; the turns are 1-{desk.view.running.turn}")
    if not 0 <= args.offset < len(log):
        raise ToolError(f"offset {args.offset} is outside turn {args.turn}: 0-{len(log) - 1}")
    end = args.offset + fit(log[args.offset :], desk.free, desk.count)
    result = {
        "turn": args.turn,
        "efforts": list(_efforts(desk, args.turn)),
        "text": log[args.offset : end],
        "next_offset": end if end < len(log) else None,
        "length": len(log),
    }
    return desk, result, Recalled(args.turn, args.offset, end)


def _efforts(desk: Desk, turn: int) -> tuple[str, ...]:
    if turn == desk.view.running.turn:
        return memberships(desk.space.active, desk.space.events)
    return next((record.efforts for record in desk.view.turns([turn])), ())
