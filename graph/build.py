"""The graph: nodes, edges and routers; compiled, the input it accepts and the streams it gives."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from inspect import getdoc
from typing import Any, Literal, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import get_runtime
from langgraph.types import Send
from pydantic import TypeAdapter

from ..memory.messages import answered
from ..memory.settings import Settings
from ..nodes.application_tools import ToolErrors, application_tools
from ..nodes.assemble_context import assemble_context
from ..nodes.begin_turn import begin_turn
from ..nodes.call_model import acall_model, call_model
from ..nodes.compress import acompress, compress
from ..nodes.decay import decay
from ..nodes.detect_references import detect_references
from ..nodes.memory_tools import amemory_tools, memory_tools
from ..nodes.persist import persist
from ..nodes.turn.parts import AgentParts, name_of
from ..nodes.turn.state import (
    AgentState,
    InputState,
    MemoryState,
    extended,
    repacked,
)
from ..nodes.turn.turn import read_state
from .checkpoints import complete
from .entry import entered
from .hand_over import leaving

_NODES: Mapping[Callable[..., dict[str, Any]], Callable[..., Any] | None] = {
    begin_turn: None,
    compress: acompress,
    assemble_context: None,
    call_model: acall_model,
    memory_tools: amemory_tools,
    detect_references: None,
    decay: None,
    persist: None,
}
"""The nodes, those that call a model with their async form; `application_tools` is a `ToolNode`."""


class MemoryGraph(StateGraph[AgentState, Settings, MemoryState, MemoryState]):
    """The uncompiled graph of one turn; commands read its `parts`."""

    def __init__(
        self,
        parts: AgentParts,
        tool_errors: ToolErrors | None = None,
        state_schema: type | None = None,
    ) -> None:
        """Add the nodes and edges; the state has the keys of the application's schema as well."""
        inside, outside = (extended(kind, state_schema) for kind in (AgentState, MemoryState))
        super().__init__(
            inside, context_schema=Settings, input_schema=outside, output_schema=outside
        )
        self.parts = parts
        for node, async_ in _NODES.items():
            self._add(node.__name__, Node(parts, node, async_), node)
        tools = application_tools(
            [*parts.tools.values()], leaving(parts), tool_errors, inside.__annotations__.keys()
        )
        self._add("application_tools", tools, application_tools)

        self.add_edge(START, "begin_turn")
        after = ["compress", "assemble_context"]
        self.add_conditional_edges("begin_turn", self.route_pass, after)
        self.add_edge("compress", "assemble_context")
        self.add_edge("assemble_context", "call_model")
        after = ["memory_tools", "application_tools", "detect_references"]
        self.add_conditional_edges("call_model", self.route_calls, after)
        after = ["application_tools", "assemble_context", "detect_references"]
        self.add_conditional_edges("memory_tools", self.route_rest, after)
        if any(tool.return_direct for tool in parts.tools.values()):
            after = ["assemble_context", "detect_references"]
            self.add_conditional_edges("application_tools", self.route_results, after)
        else:
            self.add_edge("application_tools", "assemble_context")
        self.add_edge("detect_references", "decay")
        self.add_edge("decay", "persist")
        self.add_edge("persist", END)

    def _add(self, name: str, runnable: Runnable[Any, Any], described: Any) -> None:
        """Add a node, described to people in Studio by the first line of a docstring."""
        description = str(getdoc(described)).partition("\n")[0]
        self.add_node(name, runnable, metadata={"description": description})

    def route_pass(self, state: AgentState) -> Literal["compress", "assemble_context"]:
        """Return the step after `begin_turn`: `compress` if a pass is due."""
        return "compress" if state["bookkeeping"].get("due") else "assemble_context"

    def route_calls(self, state: InputState) -> list[Send | str]:
        """Return the steps after `call_model`: the memory's calls and invalid ones come first.

        What an application put behind the last round, in mid-turn, is answered: `memory_tools`
        has nothing to do then, and leads to the next call.
        """
        answer, results = _last_round(state["messages"])
        calls = [*answer.tool_calls, *answer.invalid_tool_calls]
        if not calls:
            return ["detect_references"]
        done = {result.tool_call_id for result in results}
        waiting = [call for call in calls if call["id"] not in done]
        names, invalid = {call["name"] for call in waiting}, answer.invalid_tool_calls
        if names - self.parts.tools.keys() or any(call in waiting for call in invalid):
            return ["memory_tools"]
        is_last = next(reversed(state["messages"]), None) is answer
        then = "detect_references" if is_last else "memory_tools"
        return self._sends(state) or [then]

    def route_rest(self, state: InputState) -> list[Send | str]:
        """Return the steps after `memory_tools`: the application's calls of the same message.

        A `close_effort` beside the whole answer ends the turn.
        """
        is_over = answered(state["messages"])
        return self._sends(state) or ["detect_references" if is_over else "assemble_context"]

    def _sends(self, state: InputState) -> list[Send | str]:
        """Return a task for each waiting call of an application's tool.

        Resuming after an interrupt in one does not run the others again.
        """
        answer, results = _last_round(state["messages"])
        done = {result.tool_call_id for result in results}
        return [
            Send("application_tools", [call])
            for call in answer.tool_calls
            if call["name"] in self.parts.tools and call["id"] not in done
        ]

    def route_results(self, state: InputState) -> Literal["assemble_context", "detect_references"]:
        """Return the step after `application_tools`.

        As in LangChain's `create_agent`, the turn ends if all tools of the last answer are
        `return_direct`.
        """
        direct = {name for name, tool in self.parts.tools.items() if tool.return_direct}
        answer, _ = _last_round(state["messages"])
        calls = [*answer.tool_calls, *answer.invalid_tool_calls]
        is_over = all(call["name"] in direct for call in calls)
        return "detect_references" if is_over else "assemble_context"

    def compile(self, *args: Any, **kwargs: Any) -> "MemoryAgent":
        """Compile as LangGraph does, to a `MemoryAgent`."""
        agent = super().compile(*args, **kwargs)
        agent.__class__ = MemoryAgent  # LangGraph has no argument for the class
        agent.context_schema = None  # with a schema, LangGraph would convert the run's context
        return cast("MemoryAgent", agent)


class Node(Runnable[Any, Any]):
    """A node that is given the state as one dictionary, and whose update goes to its channels.

    Without an async function, the sync one runs on a thread. It is a `Runnable` because LangGraph
    would trace a `RunnableLambda` twice.
    """

    def __init__(self, parts: AgentParts, sync: Any, async_: Any = None) -> None:
        """Take the node's sync function, and the async one if it calls a model."""
        self.name, self._sync, self._async, self._parts = sync.__name__, sync, async_, parts

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002 (LangGraph's name)
        """Run the sync function."""
        del config
        runtime = get_runtime(Settings)
        state = read_state(input, runtime, self._parts)
        update = self._sync(state, runtime, parts=self._parts)
        return repacked(update, self._parts, state, runtime.context)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002 (LangGraph's name)
        """Run the async function."""
        if self._async is None:
            return await super().ainvoke(input, config)
        runtime = get_runtime(Settings)  # reading may read the archive
        state = await asyncio.to_thread(read_state, input, runtime, self._parts)
        update = await self._async(state, runtime, parts=self._parts)
        return repacked(update, self._parts, state, runtime.context)


def _last_round(messages: Sequence[BaseMessage]) -> tuple[AIMessage, list[ToolMessage]]:
    """Return the last answer, an empty one if there is none, and the results after it."""
    results: list[ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            return message, results
        if isinstance(message, ToolMessage):
            results.append(message)
    return AIMessage(""), results


class MemoryAgent(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph whose input is messages.

    A parent graph passes `memory` and `bookkeeping` as well; what a client passes is dropped. The
    context of a run stays as the application passed it, for its tools; the nodes read the settings
    out of it. The assembled prompt is in the `updates` of a stream and not in its `values`,
    although LangGraph takes one list of keys for both.
    """

    @property
    def _parts(self) -> AgentParts:
        parts: AgentParts = cast("Any", self.builder).parts
        return parts

    def __repr__(self) -> str:
        """Return the model, where the data is, and the settings that are no defaults."""
        parts = self._parts
        model = name_of(parts.model) or type(parts.model).__name__
        given = f"model={model!r}, archive={parts.archive!r}, settings={parts.settings!r}"
        return f"{type(self).__name__}({given})"

    def get_input_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """Return the JSON schema of the input."""
        del config
        return TypeAdapter(InputState).json_schema()

    def get_context_jsonschema(self) -> dict[str, Any]:
        """Return the JSON schema of the settings."""
        return Settings.model_json_schema()

    def stream(
        self,
        input: Any,  # noqa: A002 (LangGraph's name)
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Iterator[Any]:
        """Stream as LangGraph does; `output_keys`, if passed, chooses the keys.

        Raises, before anything is run, `SessionNotFoundError` if the thread is another user's,
        `SettingsError` for invalid settings, and `InputError` if no message is new.
        """
        if _inside():
            yield from super().stream(input, config, **self._keys(kwargs, inside=True))
            return
        saver, place = self._place(config)
        found = saver.get_tuple(place) if saver else None
        if saver and found is None and complete(saver, place["configurable"]["thread_id"]):
            found = saver.get_tuple(place)
        given, named = entered(input, found, self._parts, place, kwargs.get("context"))
        named = merge_configs(config, named)
        for chunk in super().stream(given, named, **self._keys(kwargs, inside=False)):
            yield _without_prompt(chunk, kwargs)

    async def astream(
        self,
        input: Any,  # noqa: A002 (as above)
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        """Stream as `stream` does."""
        given, named, inside = input, config, _inside()
        if not inside:
            saver, place = self._place(config)
            found = await saver.aget_tuple(place) if saver else None
            thread = place["configurable"].get("thread_id", "")
            if saver and found is None and await asyncio.to_thread(complete, saver, thread):
                found = await saver.aget_tuple(place)
            read = partial(entered, input, found, self._parts, place, kwargs.get("context"))
            given, named = await asyncio.to_thread(read)
            named = merge_configs(config, named)
        run = super().astream(given, named, **self._keys(kwargs, inside=inside))
        async with aclosing(cast("AsyncGenerator[Any, None]", run)) as chunks:
            async for chunk in chunks:
                yield chunk if inside else _without_prompt(chunk, kwargs)

    def _place(
        self, config: RunnableConfig | None
    ) -> tuple[BaseCheckpointSaver[Any] | None, RunnableConfig]:
        """Return the checkpointer, None without a thread, and the checkpoint a run goes on from."""
        chosen = ensure_config(merge_configs(self.config, config))["configurable"]
        thread = {"checkpoint_ns": "", **chosen}
        if "thread_id" in chosen:
            thread["thread_id"] = str(chosen["thread_id"])
        place: RunnableConfig = {"configurable": thread}
        is_kept = "thread_id" in chosen and isinstance(self.checkpointer, BaseCheckpointSaver)
        return cast("Any", self.checkpointer if is_kept else None), place

    def _keys(self, kwargs: dict[str, Any], *, inside: bool) -> dict[str, Any]:
        """Return the arguments of a run, with the prompt among the keys of its `updates`.

        Inside a parent graph there is no prompt. A server passes the default `output_keys`, so
        those count as none passed.
        """
        modes = kwargs.get("stream_mode") or self.stream_mode
        if kwargs.get("output_keys") is None and "values" in modes:
            kwargs = {**kwargs, "output_keys": self.output_channels}
        keys = kwargs.get("output_keys")
        if keys == self.output_channels and _has_updates(kwargs) and not inside:
            return {**kwargs, "output_keys": [*keys, "context"]}
        return kwargs


def _has_updates(kwargs: Mapping[str, Any]) -> bool:
    """Tell whether a stream has several modes, one of them `updates`."""
    modes = kwargs.get("stream_mode")
    return isinstance(modes, list | tuple) and "updates" in modes


def _without_prompt(chunk: Any, kwargs: Mapping[str, Any]) -> Any:
    """Return a chunk of a stream; take the prompt out of this graph's own `values`."""
    if not _has_updates(kwargs):
        return chunk
    is_v2 = kwargs.get("version") == "v2"
    *namespace, mode, values = (chunk["ns"], chunk["type"], chunk["data"]) if is_v2 else chunk
    if mode != "values" or any(namespace):
        return chunk
    shown = dict(values)
    shown.pop("context", None)
    return {**chunk, "data": shown} if is_v2 else (*namespace, mode, shown)


def _inside() -> bool:
    """Tell whether a node of another graph runs this one."""
    try:
        runtime: Any = get_runtime()
    except RuntimeError:
        return False
    return getattr(runtime, "execution_info", None) is not None
