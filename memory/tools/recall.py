"""Bringing logs back into the context, and reading turns and efforts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...prompts.loader import render
from ..clock import day_of
from ..context.budget import log_limit
from ..context.shortening import log_quote
from ..efforts import Effort, aims, happened, within_limit
from ..errors import ToolError
from ..messages import compact
from ..names import is_qualified, numbers, parted, qualified, ranges, session_name, turns_named
from ..record import Record, memberships
from ..running_turn import Outcome, RunningTurn
from ..terms import asked, indexed
from ..tokens import fit
from ..transcript import Logged, Recalled, rendered, transcript
from ..view import ArchiveView
from .arguments import Number, Text, Turns

_SHOWN_TURNS = 80
"""Characters of a list of turns in an error."""

_SHOWN = 160
"""Characters of a name, or of a list of turns, in an error."""

_AT_ONCE = 50
"""Turns that one call reads at most; the result says how to go on."""

_LEAST = 100
"""A turn behind others is cut only if so many tokens of it can be shown."""

_EARLIER = 20
"""Efforts of other sessions that `effort_status` names."""

STATUS_LISTED = 20
"""Further efforts that `effort_status` lists: a screenful; the others are searched for."""


def expand_effort(
    work: RunningTurn, effort_id: str, turns: Turns = "", query: Text = ""
) -> Outcome:
    """Show the raw log of a concluded effort in the context; again only renews it."""
    effort = work.find_concluded(effort_id)
    log = work.view.log(effort.id)
    if not log:
        raise ToolError(
            f"no earlier turn of {effort.id!r} is stored; what was said in this turn is in view"
        )
    shown = _to_show(work, effort, log, numbers(turns), query)
    loaded = brought_back(work, effort, log, shown)
    in_log, tokens = [turn.turn for turn in shown], loaded["tokens_loaded"]
    event = {"type": "expanded", "effort": effort.id, "turns": in_log, "tokens": tokens}
    if _in_view(work, effort.id, in_log):
        event["again"], loaded["tokens_loaded"] = True, 0
    state = work.state
    if effort.id not in state.summaries:
        state = happened(state, {"type": "returned", "effort": effort.id})
    state = within_limit(happened(state, event))
    return work.put(state), {"status": "expanded", "effort_id": effort.id, **loaded}


def collapse_effort(work: RunningTurn, effort_id: str) -> Outcome:
    """Take the raw log of an expanded effort out of the context; its summary stays."""
    effort, state = work.find(effort_id), work.state
    if effort.id not in state.expanded:
        listed = ", ".join(state.expanded) or "none"
        raise ToolError(f"effort {effort.id!r} is not expanded; expanded: {listed}")
    state = happened(state, {"type": "collapsed", "effort": effort.id, "auto": False})
    return work.put(state), {"status": "collapsed", "effort_id": effort.id}


def _to_show(
    work: RunningTurn, effort: Effort, log: Sequence[Logged], wanted: frozenset[int], query: str
) -> list[Logged]:
    """Return the turns asked for, else those with most terms of the query, else first and last."""
    missing = wanted - {turn.turn for turn in log}
    if missing:
        raise ToolError(
            f"turns {ranges(sorted(missing))[:_SHOWN_TURNS]!r} are not in effort {effort.id!r}; "
            f"it has {ranges([turn.turn for turn in log])!r}"
        )
    chosen = [turn for turn in log if turn.turn in wanted]
    if not chosen and (terms := frozenset(asked(query))):
        hits = {turn.turn: len(terms.intersection(indexed(transcript([turn])))) for turn in log}
        hit = (turn for turn in log if hits[turn.turn])
        chosen = sorted(hit, key=lambda turn: -hits[turn.turn])
    if not chosen and work.count(transcript(log)) <= log_limit(work.room):
        return list(log)
    # As first, last, second, last but one, and so on.
    ends = [turn for pair in zip(log, reversed(log), strict=True) for turn in pair]
    return fitting(work, chosen or ends)


def _in_view(work: RunningTurn, effort_id: str, turns: Sequence[int] = ()) -> bool:
    """Tell whether an expanded log, these turns of it if any are named, stands in the context."""
    entry, line = work.state.expanded.get(effort_id), work.line
    if entry is None or not {*turns} <= {*entry["turns"]}:
        return False
    at = entry["expanded_turn"]
    if line is None:
        return True
    stands = at > line.built or (line.logs.get(effort_id) == at and at in line.turns)
    return stands and at not in line.short


def fitting(work: RunningTurn, ordered: Sequence[Logged]) -> list[Logged]:
    """Return the first of these turns, one at least, that a log may show together, ascending."""
    free = log_limit(work.room)
    chosen: dict[int, Logged] = {}
    for turn in ordered:
        tokens = work.count(transcript([turn]))
        if turn.turn not in chosen and (tokens <= free or not chosen):
            chosen[turn.turn] = turn
            free -= tokens
    return [chosen[number] for number in sorted(chosen)]


def brought_back(
    work: RunningTurn, effort: Effort, log: Sequence[Logged], shown: Sequence[Logged]
) -> dict[str, Any]:
    """Return what a result says of the turns of a log that it brings into the context."""
    quote = log_quote(effort.id, effort.status, shown, log_limit(work.room), work.count)
    turns = [turn.turn for turn in shown]
    result = {"tokens_loaded": work.count(quote), "turns": ranges(turns)}
    others = [turn.turn for turn in log if turn.turn not in turns]
    if not others:
        return result
    session, _ = parted(effort.id)
    how = render("not_shown_elsewhere", session=session) if session else render("not_shown")
    return {**result, "not_shown": ranges(others), "how": how}


def effort_status(work: RunningTurn) -> Outcome:
    """List the open and in-context efforts in full, then the newest others, then how many more."""
    near = [*work.state.open, *work.state.summaries]
    newest = work.view.efforts(len(near) + STATUS_LISTED)
    others = [effort.id for effort in newest.efforts if effort.id not in near][:STATUS_LISTED]
    stored = work.view.efforts_named([name for name in near if not is_qualified(name)], ())
    more = max(0, newest.total - len(stored) - len(others))
    listed = [_entry(work, effort) for effort in work.known([*near, *others])]
    result: dict[str, Any] = {"efforts": listed}
    result |= {"more": more, "how": render("more_efforts")} if more else {}
    earlier = [
        {"id": qualified(concluded.owner, concluded.effort.id), "concluded": day_of(concluded.at)}
        for concluded in work.view.archive.concluded_elsewhere(work.view.owner, _EARLIER)
        if concluded.effort
    ]
    return work, result | ({"earlier_sessions": earlier} if earlier else {})


def _entry(work: RunningTurn, effort: Effort) -> Mapping[str, Any]:
    now = work.view.running.turn
    running = bool(now) and effort.id in memberships(work.state.active, work.state.events)
    log = work.view.log(effort.id, running=running) if effort.status == "open" else ()
    turns = [*work.view.log_turns(effort.id), *([work.state.turn] if running else [])]
    return {
        "id": effort.id,
        "status": effort.status,
        "active": work.state.active == effort.id,
        **(aims(effort) if effort.status == "open" else {}),
        "expanded": _in_view(work, effort.id),
        "summary": render("summary_above") if is_qualified(effort.id) else effort.summary,
        "raw_tokens": work.count(transcript(log)) if log else effort.tokens,
        "summary_tokens": work.count(effort.summary),
        "turns": ranges(turns),
    }


def read_log(
    work: RunningTurn, turns: Turns, offset: Number = 0, session: Text = ""
) -> tuple[Any, ...]:
    """Return the text of visible turns from an offset on, as much as the free budget allows.

    What is not there is named, an error if nothing is. With a session they are turns of its newest
    branch; what is quoted is the record as it is there.
    """
    view = work.view.session(session) if session else work.view
    if view is None:
        raise ToolError(
            f"no earlier session {session[:_SHOWN]!r}; a session is the part before the slash "
            "of an id such as 't1/auth-bug', without it turns of this session are read"
        )
    wanted = sorted(numbers(turns))
    if not wanted:
        raise ToolError('no turns are named; write them like "3-5,8"')
    newest = max(view.running.turn, view.tip.turn)
    within = [turn for turn in wanted if 1 <= turn <= newest]
    found, later = _readable(work, view, within)
    named = {} if view is work.view else {"session": session_name(view.owner)}
    absent = [turn for turn in wanted if turn not in found and turn not in later]
    missing = _why_missing(absent, newest, **named)
    if not found:
        raise ToolError(missing)
    begin = offset if wanted[0] in found else 0
    parts, end = _texts(work, view, [*found.values()], begin)
    last = parts[-1][1].turn
    left = [turn for turn in within if turn > last or (turn == last and end)]
    reads_on = {"turns": ranges(left), **({"offset": end} if end else {}), **named}
    result = {
        **named,
        "turns": [part for part, _ in parts],
        **({"missing": missing} if missing else {}),
        "next": reads_on if left else None,
    }
    return work, result, *(quoted for _, quoted in parts)


def _texts(
    work: RunningTurn, view: ArchiveView, turns: Sequence[Logged], offset: int
) -> tuple[list[tuple[Mapping[str, Any], Recalled]], int]:
    """Return the turns that there is room for, and where the last one is cut, 0 if it is whole."""
    parts: list[tuple[Mapping[str, Any], Recalled]] = []
    free = work.free
    for turn in turns:
        log = rendered(turn.messages)
        if not 0 <= offset < len(log):
            raise ToolError(f"offset {offset} is outside turn {turn.turn}: 0-{len(log) - 1}")
        efforts = [*turn.efforts]
        place: dict[str, Any] = {}
        if view is not work.view and isinstance(turn, Record):
            efforts = [qualified(view.owner, name) for name in efforts]
            place = {"session": session_name(view.owner), "branch": turn.branch}
        at = turn.at[:16].replace("T", " ") or "now"
        head = {"turn": turn.turn, "at": at, "efforts": efforts}
        free -= work.count(compact(head))
        end = offset + fit(log[offset:], max(1, free), work.count)
        if parts and end < len(log) and free < _LEAST:
            break
        free -= work.count(log[offset:end])
        quoted = Recalled(turn.turn, offset, end, **place)
        parts.append(({**head, "text": log[offset:end]}, quoted))
        if end < len(log):
            return parts, end
        offset = 0
    return parts, 0


def _readable(
    work: RunningTurn, view: ArchiveView, numbers: Sequence[int]
) -> tuple[dict[int, Logged], frozenset[int]]:
    """Return the first turns of these that can be read, the running one included, and the rest."""
    now, upto = view.running, 0
    turns: dict[int, Logged] = {}
    while not turns and upto < len(numbers):
        first, upto = upto, upto + _AT_ONCE
        turns = {turn.turn: turn for turn in view.turns(numbers[first:upto]) if turn.messages}
        if now.turn in numbers[first:upto]:
            efforts = memberships(work.state.active, work.state.events)
            turns[now.turn] = replace(now, efforts=efforts)
    return turns, frozenset(numbers[upto:])


def _why_missing(turns: Sequence[int], newest: int, session: str = "") -> str:
    """Say which turns were erased, and which are not there; empty if none is missing."""
    where = f" of session {session!r}" if session else ""
    erased = [turn for turn in turns if 1 <= turn <= newest]
    absent = [turn for turn in turns if not 1 <= turn <= newest]
    why = []
    if erased:
        was = "was erased: its" if len(erased) == 1 else "were erased: their"
        named = turns_named(ranges(erased)[:_SHOWN])
        why.append(f"{named}{where} {was} text cannot be read any more")
    if absent:
        verb = "is" if len(absent) == 1 else "are"
        named = turns_named(ranges(absent)[:_SHOWN])
        why.append(f"{named}{where} {verb} not there; the turns are 1-{newest}")
    return "; ".join(why)
