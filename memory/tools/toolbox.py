"""The memory tools: their names and schemas, how calls are run, and those that change efforts."""

from collections.abc import Callable, Generator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError

from ...prompts.loader import render
from ..efforts import Effort, EffortState, aims, as_shown, happened, snapshot, within_limit
from ..errors import AnswerError, ToolError
from ..messages import Message, compact
from ..names import is_qualified, slug
from ..questions import Asks
from ..running_turn import Outcome, RunningTurn, banners_since
from ..settings import describe
from ..transcript import reference, transcript
from .arguments import Text, Texts, arguments_of
from .recall import brought_back, collapse_effort, effort_status, expand_effort, fitting, read_log
from .search_efforts import search_efforts
from .summary import summarise

MOST_OPEN = 32
"""A bound against a model that opens one for every message; nobody keeps as many apart."""


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
    event = {"type": "opened", **snapshot(effort), **_related(work, effort)}
    return work.put(happened(work.state, event)), {"status": "opened", "effort_id": name}


def _refuse_crowd(work: RunningTurn) -> None:
    efforts = work.state.open
    if len(efforts) >= MOST_OPEN:
        idle = min(efforts, key=lambda name: efforts[name]["last_active_turn"])
        raise ToolError(
            f"{len(efforts)} efforts are open, and no more than {MOST_OPEN} "
            f"may be; close one first, for example {idle!r}, which was idle longest"
        )


def _related(work: RunningTurn, effort: Effort) -> dict[str, list[str]]:
    """Return what other sessions have on an effort and the context lacks, if anything."""
    most = work.settings.recall_hints
    names = work.related(f"{effort.id} {effort.goal}".strip()) if work.related and most else ()
    away = [name for name in names if is_qualified(name) and name not in work.state.summaries]
    stored = work.view.efforts_named(away, work.state.events) if away else ()
    related = [other.id for other in stored if is_qualified(other.id)][:most]
    return {"related": related} if related else {}


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
    return work.put(state), {"status": "switched", "effort_id": effort.id, **aims(effort)}


def reopen_effort(work: RunningTurn, effort_id: str, goal: Text = "") -> Outcome:
    """Go on with a concluded effort; its log continues, a goal takes the place of the old one."""
    effort = work.find_own(effort_id)
    if effort.status == "open":
        raise ToolError(f"effort {effort.id!r} is open already; use switch_effort to go on with it")
    _refuse_crowd(work)
    event = {"type": "reopened", **snapshot(effort)}
    if compression := work.view.compression(effort.id):
        event["compressed"] = compression.turn
    aimed = _with_goal(effort, goal)
    result = {"status": "reopened", "effort_id": effort.id, "prior_summary": effort.summary}
    result |= aims(aimed)
    if log := work.view.log(effort.id):  # its newest turns stand in the context again
        result |= brought_back(work, effort, log, fitting(work, log[::-1]))
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
    constraints = _constraints(effort, added, dropped)
    changed = replace(_with_goal(effort, goal), constraints=constraints)
    state = _updated(work.state, effort, changed, rationale)
    return work.put(state), {"status": "updated", "effort_id": effort.id, **aims(changed)}


def _with_goal(effort: Effort, goal: str) -> Effort:
    return replace(effort, goal=goal) if goal.strip() else effort


def _constraints(effort: Effort, added: Sequence[str], dropped: Sequence[str]) -> tuple[str, ...]:
    """Return the constraints of an effort without some and with others, word for word.

    Those that go may be named as the context shows them.
    """
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
    new = {**snapshot(after), "rationale": why}
    if after.goal != before.goal:
        state = happened(state, {"type": "goal_updated", **new})
    if after.constraints != before.constraints:
        state = happened(state, {"type": "constraints_updated", **new})
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
    state = within_limit(happened(work.state, {"type": "concluded", **snapshot(concluded)}))
    result = {"status": "concluded", "effort_id": effort.id, "summary": concluded.summary}
    return work.put(state), result | ({"active": state.active} if state.active else {})


@dataclass(frozen=True, slots=True)
class Done:
    """All calls are run: the turn as they left it, and one result per call."""

    work: RunningTurn
    results: tuple[Message, ...]


_TOOLS: Mapping[str, Callable[..., Any]] = {
    tool.__name__: tool
    for tool in (
        open_effort,
        close_effort,
        switch_effort,
        reopen_effort,
        update_goal,
        expand_effort,
        collapse_effort,
        effort_status,
        search_efforts,
        read_log,
    )
}

NAMES = frozenset(_TOOLS)
"""The names of the memory tools."""

Watch: TypeAlias = Callable[[Mapping[str, Any]], Callable[[Message], object]]
"""Is told of a call when it begins, and returns what is told its result."""

_SHOWN = 80
"""Characters of the arguments in a log line."""


def schemas() -> list[dict[str, Any]]:
    """Return the tools as every provider's `bind_tools` takes them: OpenAI's function form."""
    return [deepcopy(_schema(name)) for name in _TOOLS]


def run(
    work: RunningTurn,
    calls: Sequence[Mapping[str, Any]],
    others: frozenset[str],
    tell: Callable[[str], object] = lambda _: None,
    watch: Watch = lambda _call: lambda _result: None,
) -> Asks[Done]:
    """Run calls one after the other, each on the turn that the one before left.

    `others` are the names of the application's tools, for the error about an unknown name; `tell`
    is told each banner as it happens, `watch` each call, and what that returns its result. A call
    that fails leaves the work as it was.
    """
    results: list[Message] = []
    for call in calls:
        before = work.state
        work = replace(work, results=tuple(results))
        ended = watch(call)
        try:
            work, result, artifact = yield from _run_one(work, call, others)
            results.append(result_message(call, result, artifact))
        except ToolError as error:
            results.append(result_message(call, {"error": str(error)}))
        ended(results[-1])
        for banner in banners_since(before, work.state):
            tell(banner)
    return Done(work, tuple(results))


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
    takes = _arguments_of(name)
    try:
        args = takes.model_validate(call["args"])
    except ValidationError as error:
        names = ", ".join(takes.model_fields) or "no arguments"
        raise ToolError(f"{name}: {describe(error)[:500]}; it takes {names}") from error
    outcome = _TOOLS[name](work, **dict(args))
    if isinstance(outcome, Generator):
        outcome = yield from outcome
    work, result, *quoted = outcome
    return work, result, {"recalled": [*map(reference, quoted)]} if quoted else None


@cache
def _arguments_of(name: str) -> type[BaseModel]:
    return arguments_of(_TOOLS[name])


@cache
def _schema(name: str) -> dict[str, Any]:
    parameters = _bare(_arguments_of(name).model_json_schema())
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
