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
    return ToolNode(
        tools,
        name="application_tools",
        handle_tool_errors=True,
        wrap_tool_call=_run_alone,
        awrap_tool_call=_arun_alone,
    )


def _run_alone(request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> Any:
    return _of_messages(fit_call(request, execute))


async def _arun_alone(
    request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Any]]
) -> Any:
    return _of_messages(await afit_call(request, execute))


def _of_messages(result: Any) -> Any:
    """Return a result; a command for what the agent's graph has not is an error of the tool.

    Raises `SettingsError`, which is the tool's result then: LangGraph would drop the keys silently,
    and run the node that it names beside the one that follows the tools.
    """
    for one in result if isinstance(result, list) else [result]:
        if not isinstance(one, Command) or one.graph is not None:
            continue
        unknown = {*one.update} - {"messages"} if isinstance(one.update, dict) else set()
        if unknown:
            raise SettingsError(
                f"the agent's state has no {min(unknown)!r}: give create_agent a state_schema and "
                "EbbtideMiddleware, or update a graph around the agent (graph=Command.PARENT)"
            )
        if one.goto:
            raise SettingsError(
                f"a tool cannot go to {one.goto!r} in the agent itself: a tool with return_direct "
                "ends the turn, and graph=Command.PARENT goes to a node of the graph around it"
            )
    return result


def fit_call(request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> Any:
    """Run a tool, and make its result fit to be kept."""
    return _fit(execute(request))


async def afit_call(
    request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Any]]
) -> Any:
    """Do what `fit_call` does."""
    return _fit(await execute(request))


def _fit(result: Any) -> Any:
    """Return a result, or the messages of a command or a list, without lone surrogates.

    A command has no say in the memory.
    """
    if isinstance(result, BaseMessage):
        return cleaned(result)
    if isinstance(result, list):
        return [_fit(item) for item in result]
    if isinstance(result, Command) and result.graph is None:
        result = given(result, _OURS)
        if isinstance(result.update, dict):
            fit = {key: _fit(value) for key, value in result.update.items()}
            result = replace(result, update=fit)
    return result
