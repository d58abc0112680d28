"""Bringing the raw log of a concluded effort back into the context, and taking it out again."""

from collections.abc import Sequence
from typing import Any

from ..prompts.loader import text as prompt
from . import banners
from .arguments import Collapse, Expand
from .context.turns import log_limit, log_quote
from .desk import Desk, Outcome
from .efforts import Effort
from .errors import ToolError
from .numbers import numbers, ranges
from .qualified import parted
from .terms import asked, terms
from .transcript import Logged, transcript
from .transitions import happened, within_limit

_SHOWN = 80


def expand_effort(desk: Desk, args: Expand) -> Outcome:
    """Show the raw log of a concluded effort in the context; again only renews it."""
    effort = desk.find_concluded(args.effort_id)
    log = desk.view.log(effort.id)
    if not log:
        raise ToolError(
            f"no earlier turn of {effort.id!r} is stored; what was said in this turn is in view"
        )
    shown = _chosen(desk, effort, log, args)
    loaded = brought_back(desk, effort, log, shown)
    space, turns, tokens = desk.space, [turn.turn for turn in shown], loaded["tokens_loaded"]
    event = {"type": "expanded", "effort": effort.id, "turns": turns, "tokens": tokens}
    again = in_view(desk, effort.id, turns)
    if again:
        event["again"] = True
    if effort.id not in space.summaries:
        returned = {"type": "returned", "effort": effort.id}
        space = happened(space, returned, banners.returned(effort.id))
    space = happened(space, event, banners.expanded(effort.id, tokens))
    space = within_limit(space, desk.settings.summaries_limit)
    loaded |= {"tokens_loaded": 0} if again else {}
    return desk.put(space), {"status": "expanded", "effort_id": effort.id, **loaded}


def collapse_effort(desk: Desk, args: Collapse) -> Outcome:
    """Take the raw log of an expanded effort out of the context; its summary stays."""
    effort, space = desk.find(args.effort_id), desk.space
    if effort.id not in space.expanded:
        listed = ", ".join(space.expanded) or "none"
        raise ToolError(f"effort {effort.id!r} is not expanded; expanded: {listed}")
    event = {"type": "collapsed", "effort": effort.id, "auto": False}
    space = happened(space, event, banners.collapsed(effort.id))
    return desk.put(space), {"status": "collapsed", "effort_id": effort.id}


def _chosen(desk: Desk, effort: Effort, log: Sequence[Logged], args: Expand) -> list[Logged]:
    asked = numbers(args.turns)
    missing = asked - {turn.turn for turn in log}
    if missing:
        raise ToolError(
            f"turns {ranges(sorted(missing))[:_SHOWN]!r} are not in effort {effort.id!r}; "
            f"it has {ranges([turn.turn for turn in log])!r}"
        )
    chosen = [turn for turn in log if turn.turn in asked] or _matching(log, args.query)
    if not chosen and desk.count(transcript(log)) <= log_limit(desk.room):
        return list(log)
    return fitting(desk, chosen or _ends(log))


def in_view(desk: Desk, effort_id: str, turns: Sequence[int] = ()) -> bool:
    """Tell whether an expanded log, these turns of it if any are named, stands in the context."""
    entry, line = desk.space.expanded.get(effort_id), desk.line
    if entry is None or not {*turns} <= {*entry["turns"]}:
        return False
    at = entry["expanded_turn"]
    if line is None:
        return True
    stands = at > line.built or (line.logs.get(effort_id) == at and at in line.turns)
    return stands and at not in line.short


def _matching(log: Sequence[Logged], query: str) -> list[Logged]:
    """Return the turns that hold a term of the query, those with most of them first."""
    wanted = frozenset(asked(query))
    held = {turn.turn: len(wanted.intersection(terms(transcript([turn])))) for turn in log}
    return sorted((turn for turn in log if held[turn.turn]), key=lambda turn: -held[turn.turn])


def _ends(log: Sequence[Logged]) -> list[Logged]:
    """Return a log as first, last, second, last but one, and so on."""
    return [turn for pair in zip(log, reversed(log), strict=True) for turn in pair]


def fitting(desk: Desk, ordered: Sequence[Logged]) -> list[Logged]:
    """Return the first of these turns, one at least, that a log may show together, ascending."""
    free = log_limit(desk.room)
    chosen: dict[int, Logged] = {}
    for turn in ordered:
        tokens = desk.count(transcript([turn]))
        if turn.turn not in chosen and (tokens <= free or not chosen):
            chosen[turn.turn] = turn
            free -= tokens
    return [chosen[number] for number in sorted(chosen)]


def brought_back(
    desk: Desk, effort: Effort, log: Sequence[Logged], shown: Sequence[Logged]
) -> dict[str, Any]:
    """Return what a result says of the turns of a log that it brings into the context."""
    quote = log_quote(effort.id, effort.status, shown, log_limit(desk.room), desk.count)
    turns = [turn.turn for turn in shown]
    return {"tokens_loaded": desk.count(quote), "turns": ranges(turns)} | _rest(effort, log, turns)


def _rest(effort: Effort, log: Sequence[Logged], shown: Sequence[int]) -> dict[str, str]:
    rest = [turn.turn for turn in log if turn.turn not in shown]
    if not rest:
        return {}
    session, _ = parted(effort.id)
    how = prompt("not_shown_elsewhere", session=session) if session else prompt("not_shown")
    return {"not_shown": ranges(rest), "how": how}
