"""The memory tools: their names and schemas, how calls are run, and those that change efforts."""

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache
from inspect import signature
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from ...prompts.loader import render
from ..clock import day_of
from ..context.budget import log_limit
from ..context.shortening import log_quote
from ..efforts import Effort, EffortState, as_shown, happened, within_limit
from ..errors import AnswerError, ToolError
from ..messages import Message, compact, unanswered
from ..names import is_qualified, numbers, parted, qualified, ranges, slug
from ..questions import Asks
from ..record import memberships
from ..running_turn import Outcome, RunningTurn
from ..settings import describe
from ..terms import indexed, query_terms
from ..transcript import Logged, transcript
from .arguments import Text, Texts, Turns
from .read_log import read_log
from .search_efforts import search_efforts
from .summary import summarise

MOST_OPEN = 32
"""A bound against a model that opens one for every message; nobody keeps as many apart."""

STATUS_LISTED = 20
"""Further efforts that `effort_status` lists: a screenful; the others are searched for."""

_EARLIER = 20
"""Efforts of other sessions that `effort_status` names."""

_SHOWN = 80
"""Characters of the arguments in a log line, and of a list of turns in an error."""


def open_effort(work: RunningTurn, name: str, goal: Text = "", constraints: Texts = ()) -> Outcome:
    """Begin an effort and make it active."""
    name = slug(name)
    if taken := work.view.effort(name, work.state.events):
        tool = "switch_effort" if taken.status == "open" else "reopen_effort"
        raise ToolError(
            f"an effort {name!r} exists already and is {taken.status}; "
            f"use {tool} to go on with it, or choose another name"
        )
    _refuse_crowd(work)
    effort = Effort(name, "open", goal=goal, constraints=constraints)
    event: dict[str, Any] = {"type": "opened", **effort.snapshot()}
    if work.related and (most := work.settings.recall_hints):
        names = filter(is_qualified, work.related(f"{name} {goal}".strip()))
        away = [other for other in names if other not in work.state.summaries]
        stored = work.view.efforts_named(away, work.state.events) if away else ()
        related = [other.id for other in stored if is_qualified(other.id)][:most]
        event |= {"related": related} if related else {}
    return work.put(happened(work.state, event)), {"status": "opened", "effort_id": name}


def _refuse_crowd(work: RunningTurn) -> None:
    efforts = work.state.open
    if len(efforts) >= MOST_OPEN:
        idle = min(efforts, key=lambda name: efforts[name]["last_active_turn"])
        raise ToolError(
            f"{len(efforts)} efforts are open, and no more than {MOST_OPEN} "
            f"may be; close one first, for example {idle!r}, which was idle longest"
        )


def switch_effort(work: RunningTurn, effort_id: Text = "") -> Outcome:
    """Make another open effort the active one; without a name none is, and all stay open."""
    state = work.state
    if not effort_id.strip():
        if state.active is None:
            return work, {"status": "paused"}
        paused = happened(state, {"type": "paused", "effort": state.active})
        return work.put(paused), {"status": "paused", "effort_id": state.active}
    effort = work.find_open(effort_id)
    if state.active != effort.id:
        state = happened(state, {"type": "switched", "effort": effort.id})
    return work.put(state), {"status": "switched", "effort_id": effort.id, **effort.aims}


def reopen_effort(work: RunningTurn, effort_id: str, goal: Text = "") -> Outcome:
    """Go on with a concluded effort; its log continues, a goal takes the place of the old one."""
    effort = work.find_own(effort_id)
    if effort.status == "open":
        raise ToolError(f"effort {effort.id!r} is open already; use switch_effort to go on with it")
    _refuse_crowd(work)
    event = {"type": "reopened", **effort.snapshot()}
    if compression := work.view.compression(effort.id):
        event["compressed"] = compression.turn
    aimed = replace(effort, goal=goal if goal.strip() else effort.goal)
    result = {"status": "reopened", "effort_id": effort.id, "prior_summary": effort.summary}
    result |= aimed.aims
    if log := work.view.log(effort.id):  # its newest turns stand in the context again
        result |= _brought_back(work, effort, log, _fitting(work, log[::-1]))
    return work.put(_updated(happened(work.state, event), effort, aimed)), result


def update_goal(
    work: RunningTurn,
    goal: Text = "",
    rationale: Text = "",
    add_constraints: Texts = (),
    drop_constraints: Texts = (),
) -> Outcome:
    """Change goal and constraints of the active effort; the change is recorded with its turn."""
    if work.state.active is None:
        listed = ", ".join(work.state.open) or "none"
        raise ToolError(
            "no effort is active, so there is no goal to update; "
            f"use switch_effort or open_effort first; open: {listed}"
        )
    added, dropped = (
        [words for constraint in given if (words := constraint.strip())]
        for given in (add_constraints, drop_constraints)
    )
    if not (goal.strip() or added or dropped):
        raise ToolError("nothing to update: goal, add_constraints and drop_constraints are empty")
    effort = work.find(work.state.active)
    goal = goal if goal.strip() else effort.goal
    changed = replace(effort, goal=goal, constraints=_constraints(effort, added, dropped))
    state = _updated(work.state, effort, changed, rationale)
    return work.put(state), {"status": "updated", "effort_id": effort.id, **changed.aims}


def _constraints(effort: Effort, added: Sequence[str], dropped: Sequence[str]) -> tuple[str, ...]:
    """Return constraints after a change; those that go may be named as the context shows them."""
    known = set(map(as_shown, effort.constraints))
    unknown = next((words for words in dropped if as_shown(words) not in known), None)
    if unknown is not None:
        listed = "; ".join(map(repr, effort.constraints)) or "none"
        raise ToolError(
            f"no constraint {unknown!r} of {effort.id!r} to drop; those that hold: {listed}"
        )
    gone = set(map(as_shown, dropped))
    left = [constraint for constraint in effort.constraints if as_shown(constraint) not in gone]
    return tuple(dict.fromkeys([*left, *added]))


def _updated(state: EffortState, before: Effort, after: Effort, why: str = "") -> EffortState:
    """Return the state with what changed between two states of an effort, if anything did."""
    for field in ("goal", "constraints"):
        if getattr(after, field) != getattr(before, field):
            event = {"type": f"{field}_updated", **after.snapshot(), "rationale": why}
            state = happened(state, event)
    return state


def close_effort(work: RunningTurn, effort_id: Text = "") -> Asks[Outcome]:
    """Conclude an effort, the active one by default; a failed summary leaves it open."""
    name = effort_id.strip() or work.state.active
    if not name:
        listed = ", ".join(work.state.open) or "none"
        raise ToolError(f"no effort is active, so name the one to close; open: {listed}")
    effort = work.find_open(name)
    log = work.view.log(effort.id, running=True)
    try:
        summarised = yield from summarise(effort, log, work.settings, work.count)
    except AnswerError as error:
        raise ToolError(
            f"the summary of {effort.id!r} failed ({error}), so it stays open and nothing changed; "
            "tell the user, and try close_effort again later"
        ) from error
    concluded = replace(summarised, tokens=work.count(transcript(log)))
    state = within_limit(happened(work.state, {"type": "concluded", **concluded.snapshot()}))
    result = {"status": "concluded", "effort_id": effort.id, "summary": concluded.summary}
    return work.put(state), result | ({"active": state.active} if state.active else {})


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
    loaded = _brought_back(work, effort, log, shown)
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
            f"turns {ranges(sorted(missing))[:_SHOWN]!r} are not in effort {effort.id!r}; "
            f"it has {ranges([turn.turn for turn in log])!r}"
        )
    chosen = [turn for turn in log if turn.turn in wanted]
    if not chosen and (terms := frozenset(query_terms(query))):
        hits = {turn.turn: len(terms.intersection(indexed(transcript([turn])))) for turn in log}
        hit = (turn for turn in log if hits[turn.turn])
        chosen = sorted(hit, key=lambda turn: -hits[turn.turn])
    if not chosen and work.count(transcript(log)) <= log_limit(work.room):
        return list(log)
    # As first, last, second, last but one, and so on.
    ends = [turn for pair in zip(log, reversed(log), strict=True) for turn in pair]
    return _fitting(work, chosen or ends)


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


def _fitting(work: RunningTurn, ordered: Sequence[Logged]) -> list[Logged]:
    """Return the first of these turns, one at least, that a log may show together, ascending."""
    free = log_limit(work.room)
    chosen: dict[int, Logged] = {}
    for turn in ordered:
        tokens = work.count(transcript([turn]))
        if turn.turn not in chosen and (tokens <= free or not chosen):
            chosen[turn.turn] = turn
            free -= tokens
    return [chosen[number] for number in sorted(chosen)]


def _brought_back(
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
        **(effort.aims if effort.status == "open" else {}),
        "expanded": _in_view(work, effort.id),
        "summary": render("summary_above") if is_qualified(effort.id) else effort.summary,
        "raw_tokens": work.count(transcript(log)) if log else effort.tokens,
        "summary_tokens": work.count(effort.summary),
        "turns": ranges(turns),
    }


_TOOLS: Mapping[str, Callable[..., Any]] = {
    tool.__name__: tool
    for tool in (
        *(open_effort, close_effort, switch_effort, reopen_effort, update_goal),
        *(expand_effort, collapse_effort, effort_status, search_efforts, read_log),
    )
}

NAMES = frozenset(_TOOLS)
"""The names of the memory tools."""

Watch: TypeAlias = Callable[[Mapping[str, Any]], Callable[[Message], object]]
"""Is told of a call when it begins, and returns what is told its result."""


def schemas() -> list[dict[str, Any]]:
    """Return the tools as every provider's `bind_tools` takes them: OpenAI's function form."""
    return [deepcopy(_schema(name)) for name in _TOOLS]


def run(
    work: RunningTurn,
    calls: Sequence[Mapping[str, Any]],
    others: frozenset[str],
    tell: Callable[[str], object] = lambda _: None,
    watch: Watch = lambda _call: lambda _result: None,
) -> Asks[RunningTurn]:
    """Return the turn after these calls, run one after the other, with their results.

    `others` are the application's tools, which an error names; `tell` is told each banner as it
    happens, `watch` each call, and what that returns its result. A call that fails changes nothing.
    """
    work = replace(work, results=())
    for call in calls:
        before, ended = work.state, watch(call)
        try:
            work, result, artifact = yield from _run_one(work, call, others)
            answer = result_message(call, result, artifact)
        except ToolError as error:
            answer = result_message(call, {"error": str(error)})
        work = replace(work, results=(*work.results, answer))
        ended(answer)
        for banner in work.state.banners_since(before):
            tell(banner)
    return work


def waiting(messages: Sequence[Message], others: Collection[str]) -> list[Mapping[str, Any]]:
    """Return the calls without a result that are run here; `others` are the application's tools."""
    left = unanswered(messages)
    return [c for c in left if c["name"] not in others or c.get("type") == "invalid_tool_call"]


def result_message(
    call: Mapping[str, Any], result: Mapping[str, Any], artifact: Mapping[str, Any] | None = None
) -> Message:
    """Return the tool message that answers a call; a result with an error has status error."""
    data: dict[str, Any] = {"content": compact(result), "tool_call_id": call["id"]}
    data["name"] = call["name"]
    data |= {"status": "error"} if "error" in result else {}
    data |= {"artifact": artifact} if artifact is not None else {}
    return {"type": "tool", "data": data}


def _run_one(work: RunningTurn, call: Mapping[str, Any], others: frozenset[str]) -> Any:
    name = call["name"]
    if isinstance(call.get("args"), str) or call.get("type") == "invalid_tool_call":
        raise ToolError(
            f"the arguments of {_short(name)} are not a JSON object: {_short(call.get('args'))}"
        )
    if name not in _TOOLS:
        known = ", ".join(sorted(NAMES | others))
        raise ToolError(f"there is no tool {_short(name)}; the tools are {known}")
    takes = arguments_of(name)
    try:
        args = takes.model_validate(call["args"])
    except ValidationError as error:
        names = ", ".join(takes.model_fields) or "no arguments"
        raise ToolError(f"{name}: {describe(error)[:500]}; it takes {names}") from error
    outcome = _TOOLS[name](work, **dict(args))
    if isinstance(outcome, Generator):
        outcome = yield from outcome
    work, result, *quoted = outcome
    return work, result, {"recalled": [text.item for text in quoted]} if quoted else None


@cache
def arguments_of(name: str) -> type[BaseModel]:
    """Return the arguments that a tool takes; unknown ones are an error that the model reads."""
    _, *parameters = signature(_TOOLS[name]).parameters.values()
    fields: dict[str, Any] = {
        given.name: (given.annotation, ... if given.default is given.empty else given.default)
        for given in parameters
    }
    return create_model(name, __config__=ConfigDict(extra="forbid"), **fields)


@cache
def _schema(name: str) -> dict[str, Any]:
    parameters = _bare(arguments_of(name).model_json_schema())
    parameters.setdefault("properties", {})
    described = {"name": name, "description": render(f"tools/{name}"), "parameters": parameters}
    return {"type": "function", "function": described}


def _bare(schema: Any) -> Any:
    """Leave out titles and empty defaults, which say nothing and cost tokens in every call."""
    if not isinstance(schema, dict):
        return schema
    return {
        key: _bare(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str)) and (key != "default" or value)
    }


def _short(value: object) -> str:
    written = repr(value)
    return written if len(written) <= _SHOWN else f"{written[:_SHOWN]}..."
