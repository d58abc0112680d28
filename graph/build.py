"""The graph: nodes, edges and router, uncompiled."""

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Literal, TypeAlias, cast

from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import get_runtime
from langgraph.types import Send

from ..memory.settings import Settings
from ..nodes.application_tools import application_tools
from ..nodes.begin_turn import begin_turn
from ..nodes.call_model import acall_model, call_model
from ..nodes.compress import acompress, compress
from ..nodes.persist import persist
from ..nodes.run_tools import arun_tools, run_tools
from ..nodes.turn.parts import AgentParts
from ..nodes.turn.state import AgentState, MemoryState
from ..nodes.turn.values import sealed, trusted
from .compiled import MemoryAgent

_Routed: TypeAlias = list[Send | Literal["run_tools", "persist"]]


def _route_calls(application: Collection[str]) -> Callable[[AgentState], _Routed]:
    """Return the router after `call_model`; `application` names the application's tools.

    Each call of an application's tool is a task of its own, so that resuming after an interrupt in
    one does not run its neighbours again.
    """

    def route(state: AgentState) -> _Routed:
        answer = next(reversed(state["messages"]), None)
        if not isinstance(answer, AIMessage) or not (
            answer.tool_calls or answer.invalid_tool_calls
        ):
            return ["persist"]
        theirs = [call for call in answer.tool_calls if call["name"] in application]
        ours = len(answer.tool_calls) + len(answer.invalid_tool_calls) - len(theirs)
        sends: _Routed = [Send("application_tools", [call]) for call in theirs]
        return ["run_tools", *sends] if ours else sends

    return route


def _route_results(
    direct: Collection[str],
) -> Callable[[AgentState], Literal["call_model", "persist"]]:
    """Return the router after `application_tools`; `direct` names tools whose result is the answer.

    A turn ends with their results if all its last calls are of such tools, as in `create_agent`.
    """

    def route(state: AgentState) -> Literal["call_model", "persist"]:
        answer = next(m for m in reversed(state["messages"]) if isinstance(m, AIMessage))
        calls = [*answer.tool_calls, *answer.invalid_tool_calls]
        return "persist" if all(call["name"] in direct for call in calls) else "call_model"

    return route


def route_pass(state: AgentState) -> Literal["compress", "__end__"]:
    """Return the step after `persist`: `compress` if an effort is due, else the end."""
    return "compress" if state["memory"]["position"].get("due") else "__end__"


_HIDDEN = frozenset({"raw_answers"})
"""What no stream and no snapshot of the state shows: users see answers without state blocks."""


class MemoryGraph(StateGraph[AgentState, Settings, MemoryState, MemoryState]):
    """The uncompiled graph; it knows its parts, for `restore` and for the commands."""

    def __init__(self, parts: AgentParts) -> None:
        """Take the state and context schemas; nodes and edges come with `build`."""
        super().__init__(
            AgentState,
            context_schema=Settings,
            input_schema=MemoryState,
            output_schema=MemoryState,
        )
        self.parts = parts

    def compile(self, *args: Any, **kwargs: Any) -> MemoryAgent:
        """Compile as LangGraph does; it has no place for a class of our own."""
        agent = super().compile(*args, **kwargs)
        agent.__class__ = MemoryAgent
        agent.context_schema = None  # so that LangGraph leaves the application's context as it is
        agent.stream_channels = [name for name in agent.stream_channels_list if name not in _HIDDEN]
        return cast("MemoryAgent", agent)


def build(parts: AgentParts) -> MemoryGraph:
    """Return the graph of one turn."""
    graph = MemoryGraph(parts)
    tools = parts.tools
    graph.add_node("begin_turn", Node(parts, begin_turn))
    graph.add_node("call_model", Node(parts, call_model, acall_model))
    graph.add_node("run_tools", Node(parts, run_tools, arun_tools))
    graph.add_node("persist", Node(parts, persist))
    graph.add_node("compress", Node(parts, compress, acompress))

    graph.add_edge(START, "begin_turn")
    graph.add_edge("begin_turn", "call_model")
    targets = ["run_tools", "persist"]
    if tools:
        graph.add_node("application_tools", application_tools([*tools.values()]))
        direct = [name for name, tool in tools.items() if tool.return_direct]
        if direct:
            after = ["call_model", "persist"]
            graph.add_conditional_edges("application_tools", _route_results(direct), after)
        else:
            graph.add_edge("application_tools", "call_model")
        targets.append("application_tools")
    graph.add_conditional_edges("call_model", _route_calls(tools), targets)
    graph.add_edge("run_tools", "call_model")
    graph.add_conditional_edges("persist", route_pass, ["compress", END])
    graph.add_edge("compress", END)
    return graph


class Node(Runnable[Any, Any]):
    """A node on the state as nodes know it; without an async path it runs on a thread there.

    LangGraph traces it by its name; a `RunnableLambda` would be traced once more inside.
    """

    def __init__(self, parts: AgentParts, sync: Any, async_: Any = None) -> None:
        """Take the paths."""
        self.name, self._sync, self._async, self._parts = sync.__name__, sync, async_, parts

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
        """Run the sync path."""
        del config
        known = trusted(input, self._parts.archive)
        update = self._sync(known, get_runtime(Settings), parts=self._parts)
        return sealed(update, known, self._parts.archive)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
        """Run the async path."""
        if self._async is None:
            return await super().ainvoke(input, config)
        known = await asyncio.to_thread(trusted, input, self._parts.archive)
        update = await self._async(known, get_runtime(Settings), parts=self._parts)
        return await asyncio.to_thread(sealed, update, known, self._parts.archive)
