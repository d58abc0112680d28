"""Bringing the raw log of a concluded effort back into the context, and taking it out again."""

from collections.abc import Sequence

from ..prompts.loader import text as prompt
from . import banners
from .arguments import EffortId, Expand
from .desk import Desk, Outcome
from .effort_quote import quote, share
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
    tokens = desk.count(quote(effort, shown, share(desk), desk.count))
    space, turns = desk.space, [turn.turn for turn in shown]
    event = {"type": "expanded", "effort": effort.id, "turns": turns, "tokens": tokens}
    if effort.id not in space.summaries:
        again = {"type": "returned", "effort": effort.id}
        space = happened(space, again, banners.returned(effort.id))
    space = happened(space, event, banners.expanded(effort.id, tokens))
    space = within_limit(space, desk.settings.summaries_limit)
    result = {"status": "expanded", "effort_id": effort.id, "tokens_loaded": tokens}
    result |= {"turns": ranges(turns)}
    return desk.put(space), result | _rest(effort, log, turns)


def collapse_effort(desk: Desk, args: EffortId) -> Outcome:
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
    if not asked and desk.count(transcript(log)) <= share(desk):
        return list(log)
    return _within_share(
        desk, [turn for turn in log if turn.turn in asked] or _ranked(log, args.query)
    )


def _ranked(log: Sequence[Logged], query: str) -> list[Logged]:
    """Order a log by how many terms of the query a turn holds, else first, last, second, …."""
    wanted = frozenset(asked(query))
    held = {turn.turn: len(wanted.intersection(terms(transcript([turn])))) for turn in log}
    found = [turn for turn in log if held[turn.turn]]
    if found:
        return sorted(found, key=lambda turn: -held[turn.turn])
    ends = [*zip(log, reversed(log), strict=True)]
    return [turn for pair in ends for turn in pair]


def _within_share(desk: Desk, ordered: Sequence[Logged]) -> list[Logged]:
    free = share(desk)
    chosen: dict[int, Logged] = {}
    for turn in ordered:
        tokens = desk.count(transcript([turn]))
        if turn.turn not in chosen and (tokens <= free or not chosen):
            chosen[turn.turn] = turn
            free -= tokens
    return [chosen[number] for number in sorted(chosen)]


def _rest(effort: Effort, log: Sequence[Logged], shown: Sequence[int]) -> dict[str, str]:
    rest = [turn.turn for turn in log if turn.turn not in shown]
    if not rest:
        return {}
    session, _ = parted(effort.id)
    how = prompt("not_shown_elsewhere", session=session) if session else prompt("not_shown")
    return {"not_shown": ranges(rest), "how": how}
