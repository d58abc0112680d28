"""Run the application's own tools in LangGraph's ToolNode, and clean their results."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from ..memory.errors import SettingsError
from ..memory.tools.toolbox import NAMES
from .turn.langchain_messages import cleaned
from .turn.state import without_reserved

_RESERVED = ("memory", "bookkeeping")
"""Keys that no command of a tool may write; a key `context` may be the application's own."""


def application_tools(tools: Sequence[BaseTool]) -> ToolNode:
    """Run the application's tools, each call as a task; what a tool raises is its result."""

    async def arun(
        request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        return _checked(cleaned_result(await execute(request), request.tool_call["name"]))

    def run(request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> Any:
        return _checked(cleaned_result(execute(request), request.tool_call["name"]))

    return ToolNode(
        tools,
        name="application_tools",
        handle_tool_errors=True,
        wrap_tool_call=run,
        awrap_tool_call=arun,
    )


def _checked(result: Any) -> Any:
    """Return the result; raise `SettingsError` for a command with an unknown key or a `goto`.

    LangGraph would drop the key silently, and would run the node of `goto` beside the model's. The
    error becomes the tool's result.
    """
    for command in result if isinstance(result, list) else [result]:
        if not isinstance(command, Command) or command.graph is not None:
            continue
        unknown = {*command.update} - {"messages"} if isinstance(command.update, dict) else set()
        if unknown:
            raise SettingsError(
                f"the agent's state has no {min(unknown)!r}: give create_agent a state_schema and "
                "EbbtideMiddleware, or update a graph around the agent (graph=Command.PARENT)"
            )
        if command.goto:
            raise SettingsError(
                f"a tool cannot go to {command.goto!r} in the agent itself: a tool with "
                "return_direct ends the turn, and graph=Command.PARENT goes to a node of the graph "
                "around it"
            )
    return result


def cleaned_result(result: Any, tool: str) -> Any:
    """Return what a tool of this name gave, as it can be stored.

    That is without lone surrogates, without keys that only nodes write, and without a result that
    passes for one of the memory's tools.
    """
    if isinstance(result, ToolMessage):
        return cleaned(_under_its_name(result, tool))
    if isinstance(result, BaseMessage):
        return cleaned(result)
    if isinstance(result, list):
        return [cleaned_result(item, tool) for item in result]
    if isinstance(result, Command) and result.graph is None:
        result = without_reserved(result, _RESERVED)
        if isinstance(result.update, dict):
            update = {key: cleaned_result(value, tool) for key, value in result.update.items()}
            result = replace(result, update=update)
    return result


def _under_its_name(result: ToolMessage, tool: str) -> ToolMessage:
    """Return a result with the name of its tool instead of none or one of the memory's tools."""
    if result.name in NAMES:
        return result.model_copy(update={"name": tool, "artifact": None})
    return result if result.name else result.model_copy(update={"name": tool})
