"""The graph: nodes, edges and routers, and what a client may give it compiled and is shown."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from itertools import chain
from typing import Any, Literal, TypeAlias, cast

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import get_runtime
from langgraph.types import Send
from pydantic import TypeAdapter

from ..memory.settings import Settings, resolve
from ..memory.tools.toolbox import NAMES
from ..nodes.application_tools import application_tools
from ..nodes.begin_turn import begin_turn
from ..nodes.call_model import acall_model, call_model
from ..nodes.compress import acompress, compress
from ..nodes.persist import persist
from ..nodes.run_tools import arun_tools, run_tools
from ..nodes.turn.parts import AgentParts
from ..nodes.turn.state import AgentState, InputState, MemoryState, unpacked, without_reserved
from ..nodes.turn.values import claimed, sealed, trusted, user_of

_Routed: TypeAlias = list[Send | Literal["run_tools", "persist"]]


class MemoryGraph(StateGraph[AgentState, Settings, MemoryState, MemoryState]):
    """The uncompiled graph of one turn; it knows its parts, for the commands."""

    def __init__(self, parts: AgentParts) -> None:
        """Add the nodes and edges."""
        super().__init__(
            AgentState,
            context_schema=Settings,
            input_schema=MemoryState,
            output_schema=MemoryState,
        )
        self.parts = parts
        self.add_node("begin_turn", Node(parts, begin_turn))
        self.add_node("call_model", Node(parts, call_model, acall_model))
        self.add_node("run_tools", Node(parts, run_tools, arun_tools))
        self.add_node("persist", Node(parts, persist))
        self.add_node("compress", Node(parts, compress, acompress))

        self.add_edge(START, "begin_turn")
        self.add_edge("begin_turn", "call_model")
        targets = ["run_tools", "persist"]
        if parts.tools:
            self.add_node("application_tools", application_tools([*parts.tools.values()]))
            if any(tool.return_direct for tool in parts.tools.values()):
                after = ["call_model", "persist"]
                self.add_conditional_edges("application_tools", self.route_results, after)
            else:
                self.add_edge("application_tools", "call_model")
            targets.append("application_tools")
        self.add_conditional_edges("call_model", self.route_calls, targets)
        self.add_edge("run_tools", "call_model")
        self.add_conditional_edges("persist", self.route_pass, ["compress", END])
        self.add_edge("compress", END)

    def route_calls(self, state: AgentState) -> _Routed:
        """Return the steps after `call_model`.

        Each call of an application's tool is a task of its own, so that resuming after an interrupt
        in one does not run its neighbours again.
        """
        answer = next(reversed(state["messages"]), None)
        if not isinstance(answer, AIMessage) or not (
            answer.tool_calls or answer.invalid_tool_calls
        ):
            return ["persist"]
        theirs = [call for call in answer.tool_calls if call["name"] in self.parts.tools]
        ours = len(answer.tool_calls) + len(answer.invalid_tool_calls) - len(theirs)
        sends: _Routed = [Send("application_tools", [call]) for call in theirs]
        return ["run_tools", *sends] if ours else sends

    def route_results(self, state: AgentState) -> Literal["call_model", "persist"]:
        """Return the step after `application_tools`.

        It is the end if all last calls are of tools whose result is the answer, as `create_agent`
        has it.
        """
        direct = {name for name, tool in self.parts.tools.items() if tool.return_direct}
        answer = next(m for m in reversed(state["messages"]) if isinstance(m, AIMessage))
        calls = [*answer.tool_calls, *answer.invalid_tool_calls]
        return "persist" if all(call["name"] in direct for call in calls) else "call_model"

    def route_pass(self, state: AgentState) -> Literal["compress", "__end__"]:
        """Return the step after `persist`: `compress` if an effort is due, else the end."""
        return "compress" if state["memory"]["position"].get("due") else "__end__"

    def compile(self, *args: Any, **kwargs: Any) -> "MemoryAgent":
        """Compile as LangGraph does; it has no place for a class of our own."""
        agent = super().compile(*args, **kwargs)
        agent.__class__ = MemoryAgent
        agent.context_schema = None  # so that LangGraph leaves the application's context as it is
        # Users see answers without state blocks, in streams and snapshots.
        agent.stream_channels = [n for n in agent.stream_channels_list if n != "raw_answers"]
        return cast("MemoryAgent", agent)


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


class MemoryAgent(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph that takes messages, and whose streams show the state.

    A parent graph hands over `memory` as well, which no client may: it names a session. The context
    of a run stays what the application gave, for its tools; the nodes find our settings in it. The
    assembled prompt is in the `updates` of a stream, and not in its `values`, although LangGraph
    takes one list of keys for both.
    """

    def get_input_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """Return the schema of what a client gives."""
        del config
        return TypeAdapter(InputState).json_schema()

    def get_context_jsonschema(self) -> dict[str, Any]:
        """Return the schema of the settings."""
        return Settings.model_json_schema()

    def stream(
        self,
        input: Any,  # noqa: A002 (LangGraph's name)
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Iterator[Any]:
        """Stream as LangGraph does; `output_keys` decides when it is given.

        Raises `SessionNotFoundError` for whom the thread is not, and `SettingsError` for settings
        that cannot be, before anything is written.
        """
        if _inside():
            yield from super().stream(input, config, **self._keys(kwargs, inside=True))
            return
        saver, thread = self._thread(config)
        checkpoint = saver.get_tuple(thread) if saver else None
        taken = self._taken(input, checkpoint, config, kwargs)
        for chunk in super().stream(taken, config, **self._keys(kwargs, inside=False)):
            yield _without_prompt(chunk, kwargs)

    async def astream(
        self,
        input: Any,  # noqa: A002 (as above)
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        """Stream as LangGraph does, and as `stream` does."""
        taken, inside = input, _inside()
        if not inside:
            saver, thread = self._thread(config)
            checkpoint = await saver.aget_tuple(thread) if saver else None
            taken = self._taken(input, checkpoint, config, kwargs)
        run = super().astream(taken, config, **self._keys(kwargs, inside=inside))
        async with aclosing(cast("AsyncGenerator[Any, None]", run)) as chunks:
            async for chunk in chunks:
                yield chunk if inside else _without_prompt(chunk, kwargs)

    def _thread(
        self, config: RunnableConfig | None
    ) -> tuple[BaseCheckpointSaver[Any] | None, RunnableConfig]:
        """Return what keeps the thread of a run, None for nothing, and its newest config."""
        chosen = ensure_config(merge_configs(self.config, config))["configurable"]
        newest = {key: value for key, value in chosen.items() if not key.startswith("checkpoint_")}
        newest |= {"thread_id": str(chosen.get("thread_id")), "checkpoint_ns": ""}
        saver = self.checkpointer if "thread_id" in chosen else None
        thread: RunnableConfig = {"configurable": newest}
        return saver if isinstance(saver, BaseCheckpointSaver) else None, thread

    def _taken(
        self,
        input: Any,  # noqa: A002 (as above)
        checkpoint: CheckpointTuple | None,
        config: RunnableConfig | None,
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Return the input of a run, with what tools answered beside one that was interrupted.

        Raises `SessionNotFoundError` if the checkpoint is not the user's.
        """
        taken = without_reserved(input)
        settings = resolve(kwargs.get("context"), cast("Any", self.builder).parts.settings)
        user = user_of(settings, ensure_config(merge_configs(self.config, config))["configurable"])
        if checkpoint is None:
            return taken
        claimed(unpacked(checkpoint.checkpoint["channel_values"]), user)
        older = "checkpoint_id" in ensure_config(config)["configurable"]
        if older or not isinstance(taken, Mapping) or "messages" not in taken:
            return taken
        results = _kept_results(checkpoint)
        return {**taken, "messages": [*results, *_listed(taken["messages"])]} if results else taken

    def _keys(self, kwargs: dict[str, Any], *, inside: bool) -> dict[str, Any]:
        """Return the arguments of a run, whose `updates` show the prompt if nothing is around it.

        A server passes the default `output_keys`, which count as none.
        """
        modes = kwargs.get("stream_mode") or self.stream_mode
        if kwargs.get("output_keys") is None and "values" in modes:
            kwargs = {**kwargs, "output_keys": self.output_channels}
        keys = kwargs.get("output_keys")
        if keys == self.output_channels and _both(kwargs) and not inside:
            return {**kwargs, "output_keys": [*keys, "context"]}
        return kwargs


def _kept_results(checkpoint: CheckpointTuple) -> list[ToolMessage]:
    """Return what tools of the application answered beside one that was interrupted.

    LangGraph keeps that for who resumes, and drops it when a new message comes. Results of memory
    tools stay away, as what they changed in the memory does.
    """
    writes = (value for _, key, value in checkpoint.pending_writes or () if key == "messages")
    written = chain.from_iterable(map(_listed, writes))
    return [m for m in written if isinstance(m, ToolMessage) and m.name not in NAMES]


def _listed(messages: Any) -> list[Any]:
    return messages if isinstance(messages, list) else [messages]


def _both(kwargs: Mapping[str, Any]) -> bool:
    """Tell whether a stream has a list of modes with `updates` in it."""
    modes = kwargs.get("stream_mode")
    return isinstance(modes, list | tuple) and "updates" in modes


def _without_prompt(chunk: Any, kwargs: Mapping[str, Any]) -> Any:
    """Return a piece of a stream, without the prompt if it is one of this graph's `values`."""
    if not _both(kwargs):
        return chunk
    is_v2 = kwargs.get("version") == "v2"
    *where, mode, values = (chunk["ns"], chunk["type"], chunk["data"]) if is_v2 else chunk
    if mode != "values" or any(where):
        return chunk
    values = {key: value for key, value in values.items() if key != "context"}
    return {**chunk, "data": values} if is_v2 else (*where, mode, values)


def _inside() -> bool:
    """Tell whether a node of another graph runs this one."""
    try:
        runtime: Any = get_runtime()
    except RuntimeError:
        return False
    return getattr(runtime, "execution_info", None) is not None
