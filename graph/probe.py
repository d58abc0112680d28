"""What an agent of `create_agent` would ask its model, without asking it.

The agent's model node runs alone, so that other middleware makes the request as in a run.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from inspect import getclosurevars
from typing import Any

from langchain.agents.middleware import ModelRequest
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from ..memory.errors import SettingsError

_taken: ContextVar[list[ModelRequest[Any]] | None] = ContextVar("ebbtide_probe", default=None)
"""Takes the request while `probed` runs the model node without the model."""


def taken_by_probe(request: ModelRequest[Any]) -> bool:
    """Take the request if the model node runs for it alone; tell whether it does."""
    requests = _taken.get()
    if requests is not None:
        requests.append(request)
    return requests is not None


def probed(
    agent: CompiledStateGraph[Any, Any, Any, Any],
    config: RunnableConfig,
    state: Mapping[str, Any],
    runtime: Runtime[Any],
) -> tuple[ModelRequest[Any], bool]:
    """Return the request of an agent's next call, and whether its model is the agent's own.

    Of the runtime context and store count. Raises `SettingsError` if a middleware fails, or reads a
    context that is not given.
    """
    node: Any = agent.builder.nodes["model"].runnable
    graph = StateGraph[Any, Any, Any, Any](agent.builder.state_schema, agent.context_schema)
    graph.add_node("model", node).add_edge(START, "model")
    compiled = graph.compile(checkpointer=False, store=runtime.store)
    context = _NoContext() if runtime.context is None else runtime.context
    requests: list[ModelRequest[Any]] = []
    token = _taken.set(requests)
    try:
        _run(compiled, state, config, context)
        request = requests[-1]
    except Exception as error:  # another middleware may raise anything
        raise SettingsError(
            "what the agent sends to its model depends on the run, and another middleware "
            f"failed without one ({type(error).__name__}: {error}): pass the config and the "
            "context= that runs of the thread have"
        ) from error
    finally:
        _taken.reset(token)
    built_with = getclosurevars(node.func).nonlocals.get("model")
    return request, request.model is built_with


def _run(
    graph: CompiledStateGraph[Any, Any, Any, Any], state: Any, config: RunnableConfig, context: Any
) -> None:
    """Run a graph, in its asynchronous form if another middleware has no other."""
    try:
        graph.invoke(state, config, context=context)
    except NotImplementedError:
        run = graph.ainvoke(state, config, context=context)
        with ThreadPoolExecutor(1) as executor:  # this thread may have an event loop that runs
            executor.submit(copy_context().run, asyncio.run, run).result()


class _NoContext:
    """Stands for a context that a command was not given, so that no other is made up for it."""

    def __getattr__(self, name: str) -> Any:
        raise SettingsError(
            f"the command has no context with {name!r}: pass context= as in the runs of the thread"
        )

    __getitem__ = __getattr__


class UnknownModel(BaseChatModel):
    """Stands for the agent's model where no request for it is known."""

    @property
    def _llm_type(self) -> str:
        return "unknown"

    def _generate(self, *_given: Any, **_more: Any) -> Any:
        raise self.error

    @property
    def error(self) -> SettingsError:
        """The error of whoever needs the model."""
        return SettingsError(
            "which model the agent has depends on its request, and none is known here: give "
            "EbbtideMiddleware a summary_model=, an extraction_model= and a compression_model="
        )
