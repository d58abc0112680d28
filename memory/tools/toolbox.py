"""The memory tools: their names, their schemas, and how calls to them are run."""

from collections.abc import Callable, Generator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeAlias

from pydantic import ValidationError

from ...prompts.loader import text as prompt
from ..errors import ToolError
from ..messages import Message
from ..questions import Asks
from ..running_turn import RunningTurn, banners_since
from ..settings import describe
from ..transcript import compact, reference
from .arguments import (
    Active,
    Arguments,
    Collapse,
    Expand,
    Nothing,
    Open,
    ReadLog,
    Reopen,
    Search,
    UpdateGoal,
)
from .lifecycle import close_effort, open_effort, reopen_effort, switch_effort, update_goal
from .recall import collapse_effort, effort_status, expand_effort, read_log
from .search import search_efforts


@dataclass(frozen=True, slots=True)
class Done:
    """All calls are run: the turn as they left it, and one result per call."""

    work: RunningTurn
    results: tuple[Message, ...]


_TOOLS: Mapping[str, tuple[type[Arguments], Callable[[RunningTurn, Any], Any]]] = {
    "open_effort": (Open, open_effort),
    "close_effort": (Active, close_effort),
    "switch_effort": (Active, switch_effort),
    "reopen_effort": (Reopen, reopen_effort),
    "update_goal": (UpdateGoal, update_goal),
    "expand_effort": (Expand, expand_effort),
    "collapse_effort": (Collapse, collapse_effort),
    "effort_status": (Nothing, effort_status),
    "search_efforts": (Search, search_efforts),
    "read_log": (ReadLog, read_log),
}

NAMES = frozenset(_TOOLS)
Watch: TypeAlias = Callable[[Mapping[str, Any]], Callable[[Message], object]]
"""Is told of a call when it begins, and returns what is told its result."""

_SHOWN = 80
"""Characters of the arguments in a log line."""


def schemas() -> list[dict[str, Any]]:
    """Return the tools as every provider's `bind_tools` takes them: OpenAI's function form."""
    return [deepcopy(_schema(name, arguments)) for name, (arguments, _) in _TOOLS.items()]


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
        before = work.space
        work = replace(work, results=tuple(results))
        ended = watch(call)
        try:
            work, result, artifact = yield from _run_one(work, call, others)
            results.append(result_message(call, result, artifact))
        except ToolError as error:
            results.append(result_message(call, {"error": str(error)}))
        ended(results[-1])
        for banner in banners_since(before, work.space):
            tell(banner)
    return Done(work, tuple(results))


def result_message(
    call: Mapping[str, Any], result: Mapping[str, Any], artifact: Mapping[str, Any] | None = None
) -> Message:
    """Return the tool message that answers a call; a result with an error has status error."""
    data: dict[str, Any] = {"content": compact(result), "tool_call_id": call["id"]}
    data["name"] = call["name"]
    if "error" in result:
        data["status"] = "error"
    if artifact is not None:
        data["artifact"] = artifact
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
    arguments, tool = _TOOLS[name]
    outcome = tool(work, _validated(arguments, name, call["args"]))
    if isinstance(outcome, Generator):
        outcome = yield from outcome
    work, result, *quoted = outcome
    return work, result, {"recalled": [reference(one) for one in quoted]} if quoted else None


def _validated(arguments: type[Arguments], name: str, args: Mapping[str, Any]) -> Arguments:
    try:
        return arguments.model_validate(args)
    except ValidationError as error:
        takes = ", ".join(arguments.model_fields) or "no arguments"
        raise ToolError(f"{name}: {describe(error)[:500]}; it takes {takes}") from error


@cache
def _schema(name: str, arguments: type[Arguments]) -> dict[str, Any]:
    parameters = _bare(arguments.model_json_schema())
    parameters.pop("description", None)
    parameters.setdefault("properties", {})
    described = {"name": name, "description": prompt(f"tools/{name}"), "parameters": parameters}
    return {"type": "function", "function": described}


def _bare(schema: Any) -> Any:
    """Leave out titles and empty defaults, which say nothing and cost tokens in every call."""
    if isinstance(schema, dict):
        return {key: _bare(value) for key, value in schema.items() if not _is_idle(key, value)}
    return schema


def _is_idle(key: str, value: Any) -> bool:
    return (key == "title" and isinstance(value, str)) or (key == "default" and not value)


def _short(value: object) -> str:
    written = repr(value)
    return written if len(written) <= _SHOWN else f"{written[:_SHOWN]}..."
