"""The compiled graph: what a client may give it, whom it answers, and what its streams show."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from itertools import chain
from typing import Any, cast

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import get_runtime
from pydantic import TypeAdapter

from ..memory.settings import Settings, resolve
from ..memory.tools.toolbox import NAMES
from ..nodes.turn.state import InputState, given, unpacked
from ..nodes.turn.values import claimed, user_of


class MemoryAgent(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph that takes messages, and whose streams show the state.

    A parent graph hands over `memory` as well, which no client may: it names a session. The
    context of a run stays what the application gave, for its tools; the nodes find our settings in
    it. The assembled prompt is in the `updates` of a stream, and not in its `values`, although
    LangGraph takes one list of keys for both.
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

        Raises `SessionNotFoundError` for whom the thread is not, before anything is written.
        """
        if _inside():
            yield from super().stream(input, config, **self._keys(kwargs, inside=True))
            return
        thread, taken = self._thread(config), given(input)
        if thread is not None:
            checkpoint = self._saver.get_tuple(thread)
            self._admit(checkpoint, thread, kwargs.get("context"))
            taken = _with_results(taken, checkpoint, ensure_config(config))
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
            thread, taken = self._thread(config), given(input)
            if thread is not None:
                checkpoint = await self._saver.aget_tuple(thread)
                self._admit(checkpoint, thread, kwargs.get("context"))
                taken = _with_results(taken, checkpoint, ensure_config(config))
        run = super().astream(taken, config, **self._keys(kwargs, inside=inside))
        async with aclosing(cast("AsyncGenerator[Any, None]", run)) as chunks:
            async for chunk in chunks:
                yield chunk if inside else _without_prompt(chunk, kwargs)

    @property
    def _saver(self) -> BaseCheckpointSaver[Any]:
        return cast("BaseCheckpointSaver[Any]", self.checkpointer)

    def _thread(self, config: RunnableConfig | None) -> RunnableConfig | None:
        """Return the config of the newest checkpoint of the thread of a run, None without one."""
        chosen = ensure_config(merge_configs(self.config, config))["configurable"]
        if "thread_id" not in chosen or not isinstance(self.checkpointer, BaseCheckpointSaver):
            return None
        newest = {key: value for key, value in chosen.items() if not key.startswith("checkpoint_")}
        newest |= {"thread_id": str(chosen["thread_id"]), "checkpoint_ns": ""}
        return {"configurable": newest}

    def _admit(
        self, checkpoint: CheckpointTuple | None, thread: RunnableConfig, context: object
    ) -> None:
        settings = resolve(context, cast("Any", self.builder).parts.settings)
        state = unpacked(checkpoint.checkpoint["channel_values"]) if checkpoint else {}
        claimed(state, user_of(settings, thread["configurable"]))

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


def _both(kwargs: Mapping[str, Any]) -> bool:
    """Tell whether a stream has a list of modes with `updates` in it."""
    modes = kwargs.get("stream_mode")
    return isinstance(modes, list | tuple) and "updates" in modes


def _without_prompt(chunk: Any, kwargs: Mapping[str, Any]) -> Any:
    """Return a piece of a stream, without the prompt if it is one of this graph's `values`."""
    if not _both(kwargs):
        return chunk
    if kwargs.get("version") == "v2":
        ours = chunk["type"] == "values" and not chunk["ns"]
        return {**chunk, "data": _cut(chunk["data"])} if ours else chunk
    *where, mode, values = chunk
    return (*where, mode, _cut(values)) if mode == "values" and not any(where) else chunk


def _cut(values: Any) -> Any:
    return {key: value for key, value in values.items() if key != "context"}


def _with_results(given: Any, checkpoint: CheckpointTuple | None, config: RunnableConfig) -> Any:
    """Return the input of a run with what tools answered that ran beside one that was interrupted.

    LangGraph keeps that for who resumes, and drops it when a new message comes. Results of memory
    tools stay away, as what they changed in the memory does.
    """
    older = "checkpoint_id" in config["configurable"]
    if checkpoint is None or older or not isinstance(given, Mapping) or "messages" not in given:
        return given
    writes = [value for _, key, value in checkpoint.pending_writes or () if key == "messages"]
    wrote = chain.from_iterable(map(_listed, writes))
    results = [m for m in wrote if isinstance(m, ToolMessage) and m.name not in NAMES]
    new = _listed(given["messages"])
    return {**given, "messages": [*results, *new]} if results else given


def _listed(messages: Any) -> list[Any]:
    return messages if isinstance(messages, list) else [messages]


def _inside() -> bool:
    """Tell whether a node of another graph runs this one."""
    try:
        runtime: Any = get_runtime()
    except RuntimeError:
        return False
    return getattr(runtime, "execution_info", None) is not None
