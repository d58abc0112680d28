"""The memory tools: names, schemas, how calls run, and the tools that change or show efforts."""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache
from inspect import signature
from itertools import takewhile
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from ...prompts.loader import render
from ..context.budget import GOAL_TOKENS, LOGS_SHARE, log_limit, part_limit
from ..context.quotes import Quoted, log_quote, place_of_match
from ..dates import day_of
from ..efforts import Effort, EffortState, as_shown, happened, within_limit
from ..errors import AnswerError, ToolError
from ..messages import Message, calls, compact, text, unanswered
from ..names import is_qualified, numbers, parted, qualified, ranges, slug
from ..questions import Asks
from ..record import first_round, memberships
from ..references import reference
from ..running_turn import Outcome, RunningTurn
from ..search.terms import indexed, query_terms
from ..settings import describe
from ..spans import active_before, headed, spans
from ..tool_names import DECIDING, MEMORY_TOOLS
from ..transcript import Logged, offsets, transcript
from .arguments import Text, Texts, Turns
from .read_log import read_log
from .search_efforts import search_efforts
from .summary import summarise

MOST_OPEN = 32
"""Open efforts at most: a bound against a model that opens one for every message."""

STATUS_LISTED = 20
"""Further efforts that `effort_status` lists: a screenful; the others are searched for."""

_EARLIER = 20  # efforts of other sessions that `effort_status` names: a screenful
_SHOWN = 80  # characters of a value that an error repeats: a model may write anything for one


def open_effort(work: RunningTurn, name: str, goal: Text = "", constraints: Texts = ()) -> Outcome:
    """Begin an effort and make it active."""
    name = slug(name)
    if namesake := work.view.effort(name, work.state.events):
        status = namesake.status
        tool = "switch_effort" if status == "open" else "reopen_effort"
        raise ToolError(render("effort_exists", name=repr(name), status=status, tool=tool))
    _check_room(work)
    effort = Effort(name, "open", goal=goal, constraints=constraints)
    event: dict[str, Any] = {"type": "opened", **effort.snapshot()}
    if work.related and (limit := work.settings.recall_hints):
        names = filter(is_qualified, work.related(f"{name} {goal}".strip()))
        unseen = [other for other in names if other not in work.state.summaries]
        stored = work.view.efforts_named(unseen, work.state.events) if unseen else ()
        related = [found.id for found in stored if is_qualified(found.id)][:limit]
        event |= {"related": related} if related else {}
    return work.put(happened(work.state, event)), {"status": "opened", "effort_id": name}


def _check_room(work: RunningTurn) -> None:
    """Raise `ToolError` if no further effort may be open."""
    efforts = work.state.open
    if len(efforts) >= MOST_OPEN:
        idle = min(efforts, key=lambda name: efforts[name]["last_active_turn"])
        count = {"open": len(efforts), "most": MOST_OPEN}
        raise ToolError(render("too_many_open", **count, idle=repr(idle)))


def switch_effort(work: RunningTurn, effort_id: Text = "") -> Outcome:
    """Make another open effort the active one; without a name none is active."""
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
    """Open a concluded effort again; its log continues, and a goal replaces the old one."""
    effort = work.find_own(effort_id)
    if effort.status == "open":
        raise ToolError(render("open_already", effort=repr(effort.id)))
    _check_room(work)
    event = {"type": "reopened", **effort.snapshot()}
    if compression := work.view.compression(effort.id):
        event["compressed"] = compression.turn
    updated = replace(effort, status="open", goal=goal if goal.strip() else effort.goal)
    result = {"status": "reopened", "effort_id": effort.id, "prior_summary": effort.summary}
    result |= updated.aims
    log = work.view.log(effort.id)
    if log and compression:  # quotes stand for it, and its newest turns as far as there is room
        result |= {
            "log": ranges([turn.turn for turn in log]),
            "how": _reading(effort, [turn.turn for turn in log]),
        }
    elif log:  # its newest turns come back into the context
        loaded = _loaded(work, updated, log, _fitting(work, log[::-1], log_limit(work.room)))
        result |= {name: value for name, value in loaded.items() if name != "tokens"}
    return work.put(_updated(happened(work.state, event), effort, updated)), result


def update_goal(
    work: RunningTurn,
    goal: Text = "",
    rationale: Text = "",
    add_constraints: Texts = (),
    drop_constraints: Texts = (),
) -> Outcome:
    """Change the goal and the constraints of the active effort."""
    if work.state.active is None:
        raise ToolError(render("no_goal_to_update", efforts=", ".join(work.state.open) or "none"))
    added, dropped = (
        [words for constraint in constraints if (words := constraint.strip())]
        for constraints in (add_constraints, drop_constraints)
    )
    if not (goal.strip() or added or dropped):
        raise ToolError(render("nothing_to_update"))
    effort = work.find(work.state.active)
    goal = goal if goal.strip() else effort.goal
    changed = replace(effort, goal=goal, constraints=_constraints(effort, added, dropped))
    _check_share(work, changed)
    state = _updated(work.state, effort, changed, rationale)
    return work.put(state), {"status": "updated", "effort_id": effort.id, **changed.aims}


def _check_share(work: RunningTurn, changed: Effort) -> None:
    """Raise a `ToolError` if goals and constraints of the open efforts would not all be shown."""
    efforts = {effort.id: effort for effort in work.known([*work.state.open])}
    before, limit = _purpose_tokens(work, efforts.values()), part_limit("open", work.room)
    tokens = _purpose_tokens(work, {**efforts, changed.id: changed}.values())
    if tokens > max(limit, before):
        raise ToolError(render("purposes_too_long", tokens=tokens, limit=limit))


def _purpose_tokens(work: RunningTurn, efforts: Iterable[Effort]) -> int:
    purposes = [effort.purpose for effort in efforts]
    goals = sum(min(GOAL_TOKENS, work.count(purpose["goal"])) for purpose in purposes)
    return goals + sum(work.count(purpose["constraints"]) for purpose in purposes)


def _constraints(effort: Effort, added: Sequence[str], dropped: Sequence[str]) -> tuple[str, ...]:
    """Return the constraints after a change; `dropped` may be written as the context shows it."""
    current = set(map(as_shown, effort.constraints))
    unknown = next((words for words in dropped if as_shown(words) not in current), None)
    if unknown is not None:
        listed = "; ".join(map(repr, effort.constraints)) or "none"
        which = {"constraint": repr(unknown), "effort": repr(effort.id)}
        raise ToolError(render("unknown_constraint", **which, constraints=listed))
    removed = set(map(as_shown, dropped))
    remaining = [words for words in effort.constraints if as_shown(words) not in removed]
    return tuple(dict.fromkeys([*remaining, *added]))


def _updated(state: EffortState, before: Effort, after: Effort, reason: str = "") -> EffortState:
    """Return the state with an event for each of goal and constraints that changed."""
    for field in ("goal", "constraints"):
        if getattr(after, field) != getattr(before, field):
            event = {"type": f"{field}_updated", **after.snapshot(), "rationale": reason}
            state = happened(state, event)
    return state


def close_effort(work: RunningTurn, effort_id: Text = "") -> Asks[Outcome]:
    """Conclude an effort, by default the active one; if the summary fails it stays open."""
    name = effort_id.strip() or work.state.active
    if not name:
        if not work.state.open:
            raise ToolError(render("nothing_to_close"))
        raise ToolError(render("none_to_close", efforts=", ".join(work.state.open)))
    effort = work.find_open(name)
    log = _own_log(work, effort.id)
    try:
        summarised = yield from summarise(effort, log, work.settings, work.fences)
    except AnswerError as error:
        raise ToolError(render("summary_failed", effort=repr(effort.id), why=error)) from error
    concluded = replace(summarised, tokens=work.count(transcript(log)))
    state = within_limit(happened(work.state, {"type": "concluded", **concluded.snapshot()}))
    result: dict[str, Any] = {"status": "concluded", "effort_id": effort.id}
    result |= {"summary": concluded.summary}
    lapsed = _lapsed(work.state, effort)
    result |= {"lapsed_constraints": lapsed} if lapsed else {}
    return work.put(state), result | ({"active": state.active} if state.active else {})


def _lapsed(state: EffortState, effort: Effort) -> list[str]:
    """Return the constraints that nothing keeps any more: a state block that says them holds."""
    said = "\n".join(state.anchor.values()).casefold()
    return [one for one in effort.constraints if one.strip(" .").casefold() not in said]


def _own_log(work: RunningTurn, effort: str) -> tuple[Logged, ...]:
    """Return what belongs to an effort that is being closed, up to the call that closes it."""
    running = work.view.running
    closing = max((at for at, one in enumerate(running.messages) if one["type"] == "ai"), default=0)
    messages = (*running.messages, *work.results)
    if closing:
        messages = (*messages[:closing], _until_close(messages[closing:]), *messages[closing + 1 :])
    parts = [*spans(messages, active_before(work.state)), (effort, closing, len(messages))]
    now = replace(running, messages=headed(messages, parts, effort))
    past = work.view.turns_of(effort, work.view.log_turns(effort))
    return (*past, now)


def _until_close(closing_round: Sequence[Message]) -> Message:
    """Return the message of a round without the call that closes an effort, and those after it."""
    message, *results = closing_round
    done = {result["data"].get("tool_call_id") for result in results}

    def closes(call: Mapping[str, Any]) -> bool:
        return call.get("name") == "close_effort" and call.get("id") not in done

    before = [*takewhile(lambda call: not closes(call), calls(message))]
    return {**message, "data": {**message["data"], "tool_calls": before}}


def expand_effort(
    work: RunningTurn, effort_id: str, turns: Turns = "", query: Text = ""
) -> Outcome:
    """Bring the raw log of a concluded effort into the context, or renew its place there."""
    effort = work.find_concluded(effort_id)
    log = work.view.log(effort.id)
    if not log:
        raise ToolError(_of_this_turn(work, effort))
    chosen = _choose(work, effort, log, numbers(turns), query)
    loaded = _loaded(work, effort, log, chosen, query)
    turn_numbers, tokens = [turn.turn for turn in chosen], loaded["tokens"]
    event = {"type": "expanded", "effort": effort.id, "turns": turn_numbers, "tokens": tokens}
    if _in_view(work, effort.id, turn_numbers):
        event["again"], loaded["tokens"] = True, 0
        if offset := loaded.pop("offset", 0):
            loaded["how"] = render("matches_at", read=_reading(effort, turn_numbers, offset))
    state = work.state
    entry = state.expanded.get(effort.id)
    if entry is not None and entry["expanded_turn"] != state.turn and "again" not in event:
        event["moved"] = True  # it leaves its former place
    if effort.id not in state.summaries:
        state = happened(state, {"type": "returned", "effort": effort.id})
    state = within_limit(happened(state, event))
    return work.put(state), {"status": "expanded", "effort_id": effort.id, **loaded}


def _of_this_turn(work: RunningTurn, effort: Effort) -> str:
    """Return where the rounds are read of an effort that the running turn concluded."""
    messages = (*work.view.running.messages, *work.results)
    first = first_round(messages)
    begins = (
        max(begin, first)
        for name, begin, _ in spans(messages, active_before(work.state))
        if name == effort.id
    )
    places = offsets(messages)
    offset = next((places[at - 1].end if at else 0 for at in begins), 0)
    return render("nothing_to_expand", effort=repr(effort.id), turn=work.state.turn, offset=offset)


def collapse_effort(work: RunningTurn, effort_id: str) -> Outcome:
    """Take the raw log of an expanded effort out of the context, but not its summary."""
    effort, state = work.find(effort_id), work.state
    if effort.id not in state.expanded:
        listed = ", ".join(state.expanded) or "none"
        raise ToolError(render("not_expanded", effort=repr(effort.id), efforts=listed))
    state = happened(state, {"type": "collapsed", "effort": effort.id, "auto": False})
    return work.put(state), {"status": "collapsed", "effort_id": effort.id}


def _choose(
    work: RunningTurn, effort: Effort, log: Sequence[Logged], requested: frozenset[int], query: str
) -> list[Logged]:
    """Return the turns of a log to show, as many as fit beside those that stand there.

    They are the requested ones, else those with most terms of the query, else those that matter.
    """
    missing = requested - {turn.turn for turn in log}
    if missing:
        turns, has = ranges(sorted(missing))[:_SHOWN], ranges([turn.turn for turn in log])
        which = {"turns": repr(turns), "effort": repr(effort.id)}
        raise ToolError(render("turns_not_in_effort", **which, has=repr(has)))
    chosen = [turn for turn in log if turn.turn in requested]
    if not chosen and (terms := frozenset(query_terms(query))):
        hits = {turn.turn: len(terms.intersection(indexed(transcript([turn])))) for turn in log}
        matching = (turn for turn in log if hits[turn.turn])
        chosen = sorted(matching, key=lambda turn: -hits[turn.turn])
    standing, free = _standing(work, effort), _free_for(work, effort)
    wanted = [turn for turn in chosen or _by_weight(log) if turn.turn not in standing]
    if not wanted or (not chosen and work.count(transcript(wanted)) <= free):
        return chosen or list(log)
    fitting = _fitting(work, wanted, free)
    # Alone a log whose first turn is too long shows its head.
    if free < log_limit(work.room) and work.count(transcript(fitting)) > free:
        which = {"effort": repr(effort.id), "expanded": ", ".join(work.state.expanded)}
        unread = [turn.turn for turn in wanted]
        raise ToolError(render("no_room_for_log", **which, read=_reading(effort, sorted(unread))))
    return fitting


def _by_weight(log: Sequence[Logged]) -> list[Logged]:
    """Return the turns of a log by what they tell of it.

    That is how it began and how it ended, then where it was opened, closed or its goal changed,
    then the others from both ends.
    """
    ends = [turn for pair in zip(log, reversed(log), strict=True) for turn in pair]
    deciding = [
        turn
        for turn in log
        if any(message["data"].get("name") in DECIDING for message in turn.messages)
    ]
    return [*{turn.turn: turn for turn in (*ends[:2], *deciding, *ends)}.values()]


def _standing(work: RunningTurn, effort: Effort) -> frozenset[int]:
    """Return the turns of an effort that calls of this turn have put into the context."""
    entry = work.state.expanded.get(effort.id)
    is_new = entry is not None and entry["expanded_turn"] == work.state.turn
    return frozenset(entry["turns"]) if entry and is_new else frozenset()


def _free_for(work: RunningTurn, effort: Effort) -> int:
    """Return the tokens that the logs which stay leave for that of an effort.

    A log of its own that an earlier turn expanded leaves for the new one.
    """
    left = {name for name, turn in work.plan.logs.items() if not turn} if work.plan else set()
    limit, free = log_limit(work.room), int(LOGS_SHARE * work.room)
    for name, entry in work.state.expanded.items():
        stays = name != effort.id or _standing(work, effort)
        if stays and name not in left:
            tokens = work.count(transcript(work.view.turns_of(name, entry["turns"])))
            # Of a single turn that is too long the log shows its head.
            free -= min(limit, tokens) if len(entry["turns"]) == 1 else tokens
    return max(0, min(limit, free))


def _in_view(work: RunningTurn, effort_id: str, turns: Sequence[int] = ()) -> bool:
    """Tell whether an expanded log, and each of these turns of it, stands in the context."""
    entry, plan = work.state.expanded.get(effort_id), work.plan
    if entry is None or not {*turns} <= {*entry["turns"]}:
        return False
    if plan is None:
        return True
    turn = entry["expanded_turn"]
    # A log expanded since the plan was made is still in the messages of the turns since.
    is_planned = plan.logs.get(effort_id) == turn and turn in plan.turns
    is_cut = turn in plan.short or (turn == plan.after_turn + 1 and plan.rounds is not None)
    return (turn > plan.after_turn or is_planned) and not is_cut


def _fitting(work: RunningTurn, ordered: Sequence[Logged], free: int) -> list[Logged]:
    """Return as many turns as are `free`, the first ones preferred, ascending; at least one."""
    chosen: dict[int, Logged] = {}
    for turn in ordered:
        tokens = work.count(transcript([turn]))
        if turn.turn not in chosen and (tokens <= free or not chosen):
            chosen[turn.turn] = turn
            free -= tokens
    return [chosen[number] for number in sorted(chosen)]


def _loaded(
    work: RunningTurn,
    effort: Effort,
    log: Sequence[Logged],
    chosen: Sequence[Logged],
    query: str = "",
) -> dict[str, Any]:
    """Return the part of a result that describes the turns which come into the context."""
    turns = [turn.turn for turn in chosen]
    whole = work.view.whole_turns_of(effort.id, turns)
    quoted, limit = Quoted(tuple(chosen), whole=whole), log_limit(work.room)
    begin = place_of_match(quoted, query, limit, work.count)
    note = log_quote(effort.id, effort.status, replace(quoted, begin=begin), limit, work.fences)
    result: dict[str, Any] = {"tokens": work.count(text(note)), "turns": ranges(turns)}
    result |= {"offset": begin} if begin else {}
    # What an earlier call of this turn expanded is shown as well.
    shown = {*turns, *_standing(work, effort)}
    omitted = [turn for turn in log if turn.turn not in shown]
    if not omitted:
        return result
    numbers = [turn.turn for turn in omitted]
    least = min(work.count(transcript([turn])) for turn in omitted)
    free = _free_for(work, effort) - work.count(transcript(chosen))
    expands = effort.status == "concluded" and least <= free
    return {
        **result,
        "not_shown": ranges(numbers),
        "how": render(
            "not_shown" if expands else "no_room_for_rest", read=_reading(effort, numbers)
        ),
    }


def _reading(effort: Effort, numbers: Sequence[int], offset: int = 0) -> str:
    """Return the call that reads these turns of an effort."""
    session, _ = parted(effort.id)
    place = f", offset={offset}" if offset else ""
    place += f', session="{session}"' if session else ""
    return f'read_log(turns="{ranges(numbers)}"{place})'


def effort_status(work: RunningTurn, effort_id: Text = "") -> Outcome:
    """List the efforts in the context, then the newest others, and count the remaining ones.

    With a name it is that effort alone, which counts as a reference.
    """
    if effort_id.strip():
        return _status_of(work, work.find(effort_id))
    in_context = [*work.state.open, *work.state.summaries]
    newest = work.view.efforts(len(in_context) + STATUS_LISTED)
    further = [e.id for e in newest.efforts if e.id not in in_context][:STATUS_LISTED]
    stored = work.view.efforts_named([name for name in in_context if not is_qualified(name)], ())
    unlisted = max(0, newest.total - len(stored) - len(further))
    entries = [_entry(work, effort) for effort in work.known([*in_context, *further])]
    result: dict[str, Any] = {"efforts": entries, "more": unlisted}
    result |= {"how": render("more_efforts")} if unlisted else {}
    earlier = [
        {"id": qualified(concluded.owner, concluded.effort.id), "concluded": day_of(concluded.at)}
        for concluded in work.view.archive.elsewhere(work.view.owner, None, _EARLIER)
        if concluded.effort
    ]
    return work, result | ({"earlier_sessions": earlier} if earlier else {})


def _status_of(work: RunningTurn, effort: Effort) -> Outcome:
    """Return the turn after a look at one effort, whose summary comes back if it was evicted."""
    state, result = work.state, {"efforts": [_entry(work, effort)]}
    if effort.status == "concluded" and effort.id not in state.summaries:
        state = happened(state, {"type": "returned", "effort": effort.id})
    event = reference(effort.id, "tool", ["effort_status"])
    return work.put(within_limit(happened(state, event))), result


def _entry(work: RunningTurn, effort: Effort) -> Mapping[str, Any]:
    running = bool(work.view.running.turn) and effort.id in memberships(
        work.state.active, work.state.events
    )
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

Watch: TypeAlias = Callable[[Mapping[str, Any]], Callable[[Message], object]]
"""A function that gets each call before it runs, and returns one that gets the result."""


def schemas() -> list[dict[str, Any]]:
    """Return the tools in OpenAI's function form, which every provider's `bind_tools` takes."""
    return [deepcopy(_schema(name)) for name in _TOOLS]


def run(
    work: RunningTurn,
    calls: Sequence[Mapping[str, Any]],
    app_tools: frozenset[str],
    tell: Callable[[str], object] = lambda _: None,
    watch: Watch = lambda _call: lambda _result: None,
) -> Asks[RunningTurn]:
    """Run these calls in order, and return the turn after them with their results.

    A call of a tool that does not exist gets an error which names `app_tools` too. `tell` gets each
    banner as it happens, `watch` each call. A call that fails changes nothing.
    """
    work = replace(work, results=())
    for call in calls:
        before, watch_result = work.state, watch(call)
        try:
            work, result, artifact = yield from _run_one(work, call, app_tools)
            answer = result_message(call, result, artifact)
        except ToolError as error:
            answer = result_message(call, {"error": str(error)})
        work = replace(work, results=(*work.results, answer))
        watch_result(answer)
        for banner in work.state.banners_since(before):
            tell(banner)
    return work


def waiting(messages: Sequence[Message], app_tools: Collection[str]) -> list[Mapping[str, Any]]:
    """Return the calls that `run` must answer: all without a result but valid ones of the app."""
    return [
        call
        for call in unanswered(messages)
        if call["name"] not in app_tools or call.get("type") == "invalid_tool_call"
    ]


def result_message(
    call: Mapping[str, Any], result: Mapping[str, Any], artifact: Mapping[str, Any] | None = None
) -> Message:
    """Return the tool message that answers a call; a result with an error has status error."""
    data = {"content": compact(result), "tool_call_id": call["id"], "name": call["name"]}
    data |= {"status": "error"} if "error" in result else {}
    data |= {"artifact": artifact} if artifact is not None else {}
    return {"type": "tool", "data": data}


def _run_one(work: RunningTurn, call: Mapping[str, Any], app_tools: frozenset[str]) -> Any:
    """Return the turn after one call, its result, and its artifact, None without quotes."""
    name = call["name"]
    if isinstance(call.get("args"), str) or call.get("type") == "invalid_tool_call":
        written = _short(call.get("args"))
        raise ToolError(render("arguments_no_object", tool=_short(name), arguments=written))
    if name not in _TOOLS:
        tools = ", ".join(sorted(MEMORY_TOOLS | app_tools))
        raise ToolError(render("unknown_tool", tool=_short(name), tools=tools))
    arguments = arguments_of(name)
    try:
        args = arguments.model_validate(call["args"])
    except ValidationError as error:
        names = ", ".join(arguments.model_fields) or "no arguments"
        faults = describe(error)[:500]
        wrong = render("wrong_arguments", tool=name, faults=faults, names=names)
        raise ToolError(wrong) from error
    outcome = _TOOLS[name](work, **dict(args))
    if isinstance(outcome, Generator):
        outcome = yield from outcome
    work, result, *quotes = outcome
    return work, result, {"recalled": [quote.item for quote in quotes]} if quotes else None


@cache
def arguments_of(name: str) -> type[BaseModel]:
    """Return the model of a tool's arguments, which refuses unknown ones."""
    _, *parameters = signature(_TOOLS[name]).parameters.values()
    fields: dict[str, Any] = {
        item.name: (item.annotation, ... if item.default is item.empty else item.default)
        for item in parameters
    }
    return create_model(name, __config__=ConfigDict(extra="forbid"), **fields)


@cache
def _schema(name: str) -> dict[str, Any]:
    parameters = _bare(arguments_of(name).model_json_schema())
    parameters.setdefault("properties", {})
    function = {"name": name, "description": render(f"tools/{name}"), "parameters": parameters}
    return {"type": "function", "function": function}


def _bare(schema: Any) -> Any:
    """Return a schema without titles and empty defaults, which cost tokens in every call."""
    if not isinstance(schema, dict):
        return schema
    return {
        key: _bare(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str)) and (key != "default" or value)
    }


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
