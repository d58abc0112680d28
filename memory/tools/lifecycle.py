"""The tools that open, switch, reopen and close efforts, and change their goals."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from langchain_core.messages import BaseMessage

from ...prompts.loader import render
from ..context.budget import GOAL_TOKENS, log_limit, part_limit
from ..context.changes import fitting_turns
from ..context.render import quotes_of
from ..efforts import Effort, Efforts, as_shown, happened, within_limit
from ..errors import AnswerError, ToolError
from ..messages import call_id, calls
from ..names import is_qualified, numbers, ranges, slug
from ..questions import Asks
from ..recalled import result_of
from ..running_turn import Outcome, Turn
from ..spans import active_before, headed, spans
from ..state_block import as_users_see
from ..transcript import transcript
from ..turn import StoredTurn
from .arguments import Flag, Text, Texts
from .expand_effort import loaded_turns, reading_call
from .summary import EffortSummary, Importance, summarise, summarised, unfounded

MOST_OPEN = 32
"""Open efforts at most: a bound against a model that opens one for every message."""


def open_effort(work: Turn, name: str, goal: Text = "", constraints: Texts = ()) -> Outcome:
    """Begin an effort and make it active."""
    name = slug(name)
    if namesake := work.view.effort(name, work.efforts.events):
        status = namesake.status
        tool = "switch_effort" if status == "open" else "reopen_effort"
        raise ToolError(render("effort_exists", name=repr(name), status=status, tool=tool))
    _check_room(work)
    effort = Effort(name, "open", goal=goal, constraints=constraints)
    if constraints:
        _check_share(work, effort)
    event: dict[str, Any] = {"type": "opened", **effort.snapshot()}
    if work.related and (limit := work.run.settings.recall_hints):
        names = filter(is_qualified, work.related(f"{name} {goal}".strip()))
        unseen = [other for other in names if other not in work.efforts.summaries]
        stored = work.view.efforts_named(unseen, work.efforts.events) if unseen else ()
        related = [found.id for found in stored if is_qualified(found.id)][:limit]
        event |= {"related": related} if related else {}
    return work.put(happened(work.efforts, event)), {"status": "opened", "effort_id": name}


def _check_room(work: Turn) -> None:
    efforts = work.efforts.open
    if len(efforts) >= MOST_OPEN:
        idle = min(efforts, key=lambda name: efforts[name]["last_active_turn"])
        count = {"open": len(efforts), "most": MOST_OPEN}
        raise ToolError(render("too_many_open", **count, idle=repr(idle)))


def switch_effort(work: Turn, effort_id: Text = "") -> Outcome:
    """Make another open effort the active one; without a name none is active."""
    state = work.efforts
    if not effort_id.strip():
        if state.active is None:
            return work, {"status": "paused"}
        paused = happened(state, {"type": "paused", "effort": state.active})
        return work.put(paused), {"status": "paused", "effort_id": state.active}
    effort = work.find_open(effort_id)
    if state.active != effort.id:
        state = happened(state, {"type": "switched", "effort": effort.id})
    return work.put(state), {"status": "switched", "effort_id": effort.id, **effort.aims}


def reopen_effort(work: Turn, effort_id: str, goal: Text = "") -> Outcome:
    """Open a concluded effort again; its log continues, and a goal replaces the old one.

    Its constraints lapsed when it was concluded: they are named as former ones.
    """
    effort = work.find_own(effort_id)
    if effort.status == "open":
        raise ToolError(render("open_already", effort=repr(effort.id)))
    _check_room(work)
    former, effort = effort.constraints, replace(effort, constraints=())
    event = {"type": "reopened", **effort.snapshot()}
    updated = replace(effort, status="open", goal=goal if goal.strip() else effort.goal)
    if updated.goal != effort.goal:
        _check_share(work, updated)
    result = {"status": "reopened", "effort_id": effort.id, "prior_summary": effort.summary}
    result |= updated.aims | ({"former_constraints": [*former]} if former else {})
    log = work.view.log(effort.id)
    if log and work.view.compression(
        effort.id
    ):  # quotes stand for it, and its newest turns as far as there is room
        result |= {
            "log": ranges([turn.number for turn in log]),
            "how": reading_call(effort, [turn.number for turn in log]),
        }
    elif log:  # its newest turns come back into the context
        loaded = loaded_turns(
            work, updated, log, fitting_turns(log[::-1], log_limit(work.room), work.run.count)
        )
        result |= {name: value for name, value in loaded.items() if name != "tokens"}
    return work.put(_updated(happened(work.efforts, event), effort, updated)), result


def update_goal(
    work: Turn,
    goal: Text = "",
    rationale: Text = "",
    add_constraints: Texts = (),
    drop_constraints: Texts = (),
) -> Outcome:
    """Change the goal and the constraints of the active effort."""
    if work.efforts.active is None:
        raise ToolError(render("no_goal_to_update", efforts=", ".join(work.efforts.open) or "none"))
    added, dropped = (
        [words for constraint in constraints if (words := constraint.strip())]
        for constraints in (add_constraints, drop_constraints)
    )
    if not (goal.strip() or added or dropped):
        raise ToolError(render("nothing_to_update"))
    effort = work.find(work.efforts.active)
    goal = goal if goal.strip() else effort.goal
    current = {*map(as_shown, (*effort.constraints, *(_former(work, effort) if dropped else ())))}
    unknown = next((words for words in dropped if as_shown(words) not in current), None)
    if unknown is not None:
        listed = "; ".join(map(repr, effort.constraints)) or "none"
        which = {"constraint": repr(unknown), "effort": repr(effort.id)}
        raise ToolError(render("unknown_constraint", **which, constraints=listed))
    removed = set(map(as_shown, dropped))
    remaining = [words for words in effort.constraints if as_shown(words) not in removed]
    constraints = tuple(dict.fromkeys([*remaining, *added]))
    changed = replace(effort, goal=goal, constraints=constraints)
    _check_share(work, changed)
    state = _updated(work.efforts, effort, changed, rationale)
    return work.put(state), {"status": "updated", "effort_id": effort.id, **changed.aims}


def _check_share(work: Turn, changed: Effort) -> None:
    """Raise a `ToolError` if goals and constraints of the open efforts would not all be shown."""
    efforts = {effort.id: effort for effort in work.known([*work.efforts.open])}
    before, limit = _purpose_tokens(work, efforts.values()), part_limit("open", work.room)
    tokens = _purpose_tokens(work, {**efforts, changed.id: changed}.values())
    if tokens > max(limit, before):
        raise ToolError(render("purposes_too_long", tokens=tokens, limit=limit))


def _purpose_tokens(work: Turn, efforts: Iterable[Effort]) -> int:
    purposes = [effort.purpose for effort in efforts]
    goals = sum(min(GOAL_TOKENS, work.run.count(purpose["goal"])) for purpose in purposes)
    return goals + sum(work.run.count(purpose["constraints"]) for purpose in purposes)


def _former(work: Turn, effort: Effort) -> tuple[str, ...]:
    """Return the constraints that lapsed when an effort was concluded which is open again."""
    for event in reversed(work.efforts.events):
        if event["type"] == "concluded" and event["effort"] == effort.id:
            return tuple(event.get("constraints", ()))
    opened = work.efforts.open[effort.id]["opened_turn"]
    before = work.view.as_of(opened - 1).efforts_named([effort.id], ())
    return before[0].constraints if before else ()


def _updated(state: Efforts, before: Effort, after: Effort, reason: str = "") -> Efforts:
    """Return the state with an event for each of goal and constraints that changed."""
    for field in ("goal", "constraints"):
        if getattr(after, field) != getattr(before, field):
            event = {"type": f"{field}_updated", **after.snapshot(), "rationale": reason}
            state = happened(state, event)
    return state


def close_effort(  # noqa: PLR0913 (the arguments of the tool)
    work: Turn,
    effort_id: Text = "",
    summary: Text = "",
    keywords: Texts = (),
    importance: Importance = 50,
    *,
    final: Flag = False,  # noqa: ARG001 (`ending` reads it)
) -> Asks[Outcome]:
    """Conclude an effort, by default the active one; if the summary fails it stays open.

    The given summary is taken if something stands in the context for each turn of the log.
    """
    name = effort_id.strip() or work.efforts.active
    if not name:
        if not work.efforts.open:
            raise ToolError(render("nothing_to_close"))
        raise ToolError(render("none_to_close", efforts=", ".join(work.efforts.open)))
    effort = work.find_open(name)
    log = _own_log(work, effort.id)
    concluded = None
    if any(map(str.isalnum, summary)) and _is_represented(work, effort.id):
        given = EffortSummary(summary=summary, keywords=[*keywords], importance=importance)
        concluded = summarised(effort, given, work.run.settings, work.run.count)
        concluded = concluded if _is_founded(work, concluded, log) else None
    try:
        if concluded is None:
            concluded = yield from summarise(effort, log, work.run.settings, work.fences)
    except AnswerError as error:
        raise ToolError(render("summary_failed", effort=repr(effort.id), why=error)) from error
    concluded = replace(concluded, tokens=work.run.count(transcript(log)))
    state = within_limit(happened(work.efforts, {"type": "concluded", **concluded.snapshot()}))
    result: dict[str, Any] = {"status": "concluded", "effort_id": effort.id}
    result |= {"summary": concluded.summary}
    said = "\n".join(work.efforts.anchor.values()).casefold()
    lapsed = [one for one in effort.constraints if one.strip(" .").casefold() not in said]
    result |= {"lapsed_constraints": lapsed} if lapsed else {}
    return work.put(state), result | _still_open(state)


def _is_represented(work: Turn, effort: str) -> bool:
    """Tell whether the context shows each committed turn of an effort, or quotes of it.

    For rounds of the running turn that left stands its index.
    """
    plan, turns, through = work.plan, work.view.log_turns(effort), 0
    if plan is None:
        return not turns
    quotes = quotes_of(work, plan).get(effort)
    made = work.view.compression(effort, plan.quotes.get(effort))
    if made and quotes and not quotes.bare:
        through = made.through
    logged = numbers(plan.logs.get(effort, ""))
    return all(turn <= through or turn in logged or plan.shows(turn) for turn in turns)


def _is_founded(work: Turn, effort: Effort, log: Sequence[StoredTurn]) -> bool:
    """Tell whether a summary names only what the log has; raise a `ToolError` the first time."""
    said = [message for turn in log for message in as_users_see(work.view.messages(turn))]
    wrong = unfounded(effort.summary, said, work.now, *(turn.at for turn in log))
    values = ", ".join(map(repr, wrong))
    error = render("summary_unfounded", effort=repr(effort.id), values=values)
    results = (m for m in (*work.view.running.messages, *work.results) if m.name == "close_effort")
    errors = (str(result_of(result).get("error", "")) for result in results)
    if wrong and not any(one.startswith(error.partition(values)[0]) for one in errors):
        raise ToolError(error)
    return not wrong


def _still_open(state: Efforts) -> dict[str, Any]:
    """Return the active effort, and the open ones if none is active."""
    if state.active or not state.open:
        return {"active": state.active} if state.active else {}
    return {"active": "none", "open": [*state.open]}


def _own_log(work: Turn, effort: str) -> tuple[StoredTurn, ...]:
    """Return what belongs to an effort that is being closed, up to the call that closes it."""
    running = work.view.running
    closing = max((at for at, one in enumerate(running.messages) if one.type == "ai"), default=0)
    messages = (*running.messages, *work.results)
    if closing:
        messages = (*messages[:closing], _until_close(messages[closing:]), *messages[closing + 1 :])
    parts = [*spans(messages, active_before(work.efforts)), (effort, closing, len(messages))]
    now = replace(running, messages=headed(messages, parts, effort))
    past = work.view.turns_of(effort, work.view.log_turns(effort))
    return (*past, now)


def _until_close(closing_round: Sequence[BaseMessage]) -> BaseMessage:
    """Return the message of a round without the call that closes an effort, and those after it."""
    message, *results = closing_round
    done = {call_id(result) for result in results}

    def closes(call: Mapping[str, Any]) -> bool:
        return call.get("name") == "close_effort" and call.get("id") not in done

    before = [*takewhile(lambda call: not closes(call), calls(message))]
    return message.model_copy(update={"tool_calls": before})
