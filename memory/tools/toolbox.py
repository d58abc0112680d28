"""The memory's tools together: their schemas, and how calls of them run."""

import json
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from inspect import signature
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage, ToolMessage
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from ...prompts.loader import render
from ..errors import ToolError
from ..messages import compact, unanswered
from ..questions import Asks
from ..running_turn import Turn
from ..settings import describe
from ..tool_names import MEMORY_TOOLS
from .effort_status import effort_status
from .expand_effort import collapse_effort, expand_effort
from .lifecycle import close_effort, open_effort, reopen_effort, switch_effort, update_goal
from .read_log import read_log
from .search_efforts import search_efforts

_SHOWN = 80  # characters of a value that an error repeats: a model may write anything for one

_TOOLS: Mapping[str, Callable[..., Any]] = {
    tool.__name__: tool
    for tool in (
        *(open_effort, close_effort, switch_effort, reopen_effort, update_goal),
        *(expand_effort, collapse_effort, effort_status, search_efforts, read_log),
    )
}

Watch: TypeAlias = Callable[[Mapping[str, Any]], Callable[[BaseMessage], object]]
"""A function that gets each call before it runs, and returns one that gets the result."""


def schemas() -> list[dict[str, Any]]:
    """Return the tools in OpenAI's function form, which every provider's `bind_tools` takes."""
    return [json.loads(_schema(name)) for name in _TOOLS]  # an adapter may change what it is given


def run(
    work: Turn,
    calls: Sequence[Mapping[str, Any]],
    app_tools: frozenset[str],
    tell: Callable[[str], object] = lambda _: None,
    watch: Watch = lambda _call: lambda _result: None,
) -> Asks[Turn]:
    """Run these calls in order, and return the turn after them with their results.

    A call of a tool that does not exist gets an error which names `app_tools` too. `tell` gets each
    banner as it happens, `watch` each call. A call that fails changes nothing.
    """
    work = replace(work, results=())
    for call in calls:
        before, watch_result = work.efforts, watch(call)
        try:
            work, result, artifact = yield from _run_one(work, call, app_tools)
            answer = result_message(call, result, artifact)
        except ToolError as error:
            answer = result_message(call, {"error": str(error)})
        work = replace(work, results=(*work.results, answer))
        watch_result(answer)
        for banner in work.efforts.banners_since(before):
            tell(banner)
    return work


def waiting(messages: Sequence[BaseMessage], app_tools: Collection[str]) -> list[Mapping[str, Any]]:
    """Return the calls that `run` must answer: all without a result but valid ones of the app."""
    return [
        call
        for call in unanswered(messages)
        if call["name"] not in app_tools or call.get("type") == "invalid_tool_call"
    ]


def result_message(
    call: Mapping[str, Any], result: Mapping[str, Any], artifact: Mapping[str, Any] | None = None
) -> BaseMessage:
    """Return the tool message that answers a call; a result with an error has status error."""
    data: dict[str, Any] = {"status": "error"} if "error" in result else {}
    data |= {"artifact": artifact} if artifact is not None else {}
    content, name = compact(result), call["name"]
    return ToolMessage(content, tool_call_id=call["id"], name=name, **data)


def _run_one(work: Turn, call: Mapping[str, Any], app_tools: frozenset[str]) -> Any:
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
def _schema(name: str) -> str:
    parameters = _bare(arguments_of(name).model_json_schema())
    parameters.setdefault("properties", {})
    function = {"name": name, "description": render(f"tools/{name}"), "parameters": parameters}
    return json.dumps({"type": "function", "function": function})


def _bare(schema: Any) -> Any:
    """Return a schema without titles and defaults, which cost tokens in every call."""
    if not isinstance(schema, dict):
        return schema
    return {
        key: _bare(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str)) and key != "default"
    }


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
