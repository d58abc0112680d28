"""Run the application's own tools in LangGraph's ToolNode, and clean their results."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    RemoveMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.tools import BaseTool
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import (
    TOOL_CALL_ERROR_TEMPLATE,
    ToolCallRequest,
    _infer_handled_types,
)
from langgraph.types import Command

from ..memory.blocks import kind_of
from ..memory.tool_names import MEMORY_TOOLS
from ..prompts.loader import render
from .turn.langchain_messages import accepted, with_tool_name
from .turn.state import unpacked, without_reserved
from .turn.turn import running

_log = logging.getLogger("ebbtide.tools")

_RESERVED = ("memory", "bookkeeping")
"""Keys that no command of a tool may write; a key `context` may be the application's own."""


Leaving: TypeAlias = Callable[[ToolCallRequest, Any], None]
"""Takes what a tool gave, which may leave the agent."""

ToolErrors: TypeAlias = (
    bool | str | type[Exception] | tuple[type[Exception], ...] | Callable[..., str]
)
"""What ToolNode takes as `handle_tool_errors`."""


def application_tools(
    tools: Sequence[BaseTool],
    leaving: Leaving,
    errors: ToolErrors | None = None,
    keys: Collection[str] = (),
) -> ToolNode:
    """Run the application's tools, each call as a task; `errors` as ToolNode takes them.

    `keys` are those of the state, others in a tool's command are logged.
    """

    async def arun(
        request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        result = _staying(as_given(await execute(without_memory_calls(request)), request), keys)
        await asyncio.to_thread(leaving, request, result)
        return result

    def run(request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> Any:
        result = _staying(as_given(execute(without_memory_calls(request)), request), keys)
        leaving(request, result)
        return result

    handling: Any = {} if errors is None else {"handle_tool_errors": _handled(errors)}
    name = "application_tools"
    return ToolNode(tools, name=name, wrap_tool_call=run, awrap_tool_call=arun, **handling)


def _handled(errors: ToolErrors) -> ToolErrors:
    """Return a handler that handles the named types only, as a ToolNode without a wrapper does."""
    if isinstance(errors, bool | str):
        return errors
    told: Callable[..., str] | None = None if isinstance(errors, type | tuple) else errors
    types: Any = errors if told is None else _infer_handled_types(told)

    def handle(error: Exception) -> str:
        if not isinstance(error, types):
            raise error
        return told(error) if told else TOOL_CALL_ERROR_TEMPLATE.format(error=repr(error))

    return handle


def _staying(result: Any, known: Collection[str]) -> Any:
    """Return the result; a command goes to no node of the agent, and unknown keys are logged."""
    if isinstance(result, list):
        return [_staying(item, known) for item in result]
    if not isinstance(result, Command) or result.graph is not None:
        return result
    keys = result.update if isinstance(result.update, dict) else {}
    if unknown := sorted(map(str, {*keys}.difference(known))):
        _log.warning("a tool's command has keys that the state has not: %s", ", ".join(unknown))
    return replace(result, goto=())


def without_memory_calls(request: ToolCallRequest) -> ToolCallRequest:
    """Return a request with the state that the tool would see without the memory.

    It ends with the answer that called the tool: the memory's tools, which ran before, have their
    results behind it, where a tool that hands over to another agent expects its own call.
    """
    answer, own = _memory_results(request)
    if answer is None or not own:
        return request
    ids = {result.tool_call_id for result in own}
    rest = [call for call in answer.tool_calls if call["id"] not in ids]
    content = answer.content
    if isinstance(content, list):
        content = [
            block for block in content if not (kind_of(block) == "call" and ids & _ids_of(block))
        ]
    alone = answer.model_copy(update={"tool_calls": rest, "content": content})
    gone = {*map(id, own)}
    there = (message for message in request.state["messages"] if id(message) not in gone)
    messages = [alone if message is answer else message for message in there]
    return request.override(state={**request.state, "messages": messages})


def as_given(result: Any, request: ToolCallRequest) -> Any:
    """Return what a tool gave as it can be stored; `without_memory_calls` made its request.

    A hand-over has the memory's calls again, each with its result.
    """
    result = cleaned_result(result, request)
    answer, own = _memory_results(request)
    if answer is None or not own or not hands_over(result) or not isinstance(result.update, dict):
        return result
    messages: list[Any] = []
    for message in result.update.get("messages", ()):
        is_answer = getattr(message, "id", None) == answer.id
        messages += [answer, *own] if is_answer else [message]
    return replace(result, update={**result.update, "messages": messages})


def hands_over(result: Any) -> bool:
    """Tell whether the result of a tool hands over to another agent."""
    return isinstance(result, Command) and result.graph == Command.PARENT


def _memory_results(request: ToolCallRequest) -> tuple[AIMessage | None, list[ToolMessage]]:
    state = request.state if isinstance(request.state, Mapping) else {}
    own: list[ToolMessage] = []
    for message in reversed(state.get("messages", ())):
        if isinstance(message, AIMessage):
            return message, own[::-1]
        if isinstance(message, ToolMessage) and message.name in MEMORY_TOOLS:
            own.append(message)
    return None, []


def _ids_of(block: Any) -> set[Any]:
    return {block.get("id"), block.get("call_id")}


def cleaned_result(result: Any, request: ToolCallRequest) -> Any:
    """Return what a tool gave for a call, as it can be stored.

    That is without lone surrogates, without keys that only nodes write, without a result that
    passes for one of the memory's tools, and without removing what no archive has yet.
    """
    if isinstance(result, ToolMessage):
        return with_tool_name(accepted(result), request.tool_call["name"])
    if isinstance(result, BaseMessage):
        return accepted(result)
    if isinstance(result, list):
        return [cleaned_result(item, request) for item in result]
    if isinstance(result, Command) and result.graph is None:
        result = without_reserved(result, _RESERVED)
        if isinstance(result.update, dict):
            update = {key: cleaned_result(value, request) for key, value in result.update.items()}
            if "messages" in update:
                update["messages"] = _keeping_turn(update["messages"], request)
            result = replace(result, update=update)
    return result


def _keeping_turn(given: Any, request: ToolCallRequest) -> list[BaseMessage]:
    """Return a command's messages, which may remove those of earlier turns and no others.

    Those of the running turn are not in the archive yet.
    """
    messages = convert_to_messages(given if isinstance(given, list) else [given])
    removed = {message.id for message in messages if isinstance(message, RemoveMessage)}
    if not removed:
        return messages
    there = request.state["messages"]
    earlier = there[: len(there) - len(running(unpacked(request.state)))]
    kept = [message for message in messages if not isinstance(message, RemoveMessage)]
    if not any(isinstance(message, ToolMessage) for message in kept):  # LangChain asks for none
        call, cleared = request.tool_call, render("cleared_messages")
        kept.append(ToolMessage(cleared, tool_call_id=call["id"], name=call["name"]))
    is_all = REMOVE_ALL_MESSAGES in removed
    gone = [message for message in earlier if is_all or message.id in removed]
    # Two calls may remove one message, which LangGraph refuses if it is not there any more.
    return [*gone, *(RemoveMessage(str(message.id)) for message in gone), *kept]
