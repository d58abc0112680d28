"""Run the application's own tools: LangGraph's ToolNode, its results made fit to be kept."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from ..memory.errors import SettingsError
from .turn.langchain_messages import cleaned
from .turn.state import given

_OURS = ("memory", "raw_answers")
"""What a tool's command cannot change; a key `context` may be the application's."""


def application_tools(tools: Sequence[BaseTool]) -> ToolNode:
    """Return the node that runs the application's tools; a tool that raises gives an error."""

    async def arun(
        request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        return _of_messages(fit(await execute(request)))

    return ToolNode(
        tools,
        name="application_tools",
        handle_tool_errors=True,
        wrap_tool_call=lambda request, execute: _of_messages(fit(execute(request))),
        awrap_tool_call=arun,
    )


def _of_messages(result: Any) -> Any:
    """Return a result; raises `SettingsError`, the tool's result then, for what the graph has not.

    LangGraph would drop its keys silently, and run its node beside the one that follows the tools.
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


def fit(result: Any) -> Any:
    """Return what a tool answered without lone surrogates; a command has no say in the memory."""
    if isinstance(result, BaseMessage):
        return cleaned(result)
    if isinstance(result, list):
        return [fit(item) for item in result]
    if isinstance(result, Command) and result.graph is None:
        result = given(result, _OURS)
        if isinstance(result.update, dict):
            update = {key: fit(value) for key, value in result.update.items()}
            result = replace(result, update=update)
    return result
