"""The strategies by name: ours, and those of other packages."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias

from langchain.agents import AgentState
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import AnyMessage, RemoveMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import Runtime

from .failures import StrategyError
from .ours import BUDGET, EbbtideAgent, Listener, ProtectedCore, SelectiveSalience
from .strategy import (
    RECENT,
    Context,
    Strategy,
    StrategyInputs,
    after,
    as_messages,
    recent,
    remembered,
)
from .template import TemplateTurn

LANGMEM_TOKENS = 2_000
"""The context that LangMem's node is told to stay within; it does not summarise below that."""

KEPT = 2 * RECENT
"""The messages that the others keep: as many as the recent exchanges have without tools."""

_KEEP: tuple[Literal["messages"], int] = ("messages", KEPT)
_NOW: tuple[Literal["messages"], int] = ("messages", 1)


class _Stateless:
    """What a strategy is that is told nothing: it knows the goal from the conversation alone."""

    def initialize(self, goal: str, constraints: Sequence[str]) -> None:
        """Take no note of it."""

    def update_goal(self, goal: str, rationale: str) -> None:
        """Take no note of it."""


class Middleware(_Stateless):
    """LangChain's `SummarizationMiddleware`: a summary, and the last messages."""

    name = "summarization-middleware"

    def __init__(self, means: StrategyInputs) -> None:
        """Make the middleware, so that it summarises at every call."""
        self._middleware = SummarizationMiddleware(means.model, trigger=_NOW, keep=_KEEP)
        self._messages: list[AnyMessage] = []
        self._seen = 0

    @remembered
    def compress(self, turns: Sequence[TemplateTurn]) -> Context:
        """Return what the middleware leaves of the context before and the new turns."""
        said = [*self._messages, *as_messages(after(turns, self._seen))]
        self._seen = turns[-1].turn_id
        state: AgentState[Any] = {"messages": said}
        update = self._middleware.before_model(state, Runtime())
        left = update["messages"] if update else said
        self._messages = [one for one in left if not isinstance(one, RemoveMessage)]
        return Context(tuple(self._messages))


class LangMem(_Stateless):
    """LangMem's `SummarizationNode`: a running summary, and what fits beside it."""

    name = "langmem"

    def __init__(self, means: StrategyInputs) -> None:
        """Make the node; raises `StrategyError` without the package."""
        node = _imported(self.name, "langmem.short_term").SummarizationNode
        self._node = node(model=means.model, max_tokens=LANGMEM_TOKENS)
        self._context: dict[str, Any] = {}

    @remembered
    def compress(self, turns: Sequence[TemplateTurn]) -> Context:
        """Return the node's messages for all turns; it knows which it has summarised."""
        said = {"messages": [*as_messages(turns)], "context": self._context}
        update = self._node.invoke(said)
        self._context = update.get("context", self._context)
        return Context(tuple(update["summarized_messages"]))


class DeepAgents(_Stateless):
    """A deep agent, with its own middleware that summarises and keeps the history in files."""

    name = "deepagents"

    def __init__(self, means: StrategyInputs) -> None:
        """Make the agent, so that it summarises at every call; a listener is its model."""
        package = _imported(self.name, "deepagents")
        summarising = _imported(self.name, "deepagents.middleware.summarization")
        backend = _imported(self.name, "deepagents.backends").StateBackend()
        self._listener = Listener()
        middleware = summarising.SummarizationMiddleware(
            means.model, backend=backend, trigger=_NOW, keep=_KEEP
        )
        self._agent = package.create_deep_agent(
            self._listener, [], middleware=[middleware], checkpointer=InMemorySaver()
        )
        self._answer: list[AnyMessage] = []
        self._seen = 0

    @remembered
    def compress(self, turns: Sequence[TemplateTurn]) -> Context:
        """Return what the agent would send, its instructions aside."""
        gone = [RemoveMessage(id=one.id) for one in self._answer if one.id]
        said = [*gone, *as_messages(after(turns, self._seen))]
        self._seen = turns[-1].turn_id
        config = {"configurable": {"thread_id": "one"}}
        self._answer = self._agent.invoke({"messages": said}, config)["messages"][-1:]
        heard: Any = [one for one in self._listener.heard if not isinstance(one, SystemMessage)]
        return Context(tuple(heard))


def _imported(name: str, module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise StrategyError.missing(name, module.partition(".")[0]) from error


class FullHistory(_Stateless):
    """Sends all that was said; nothing is lost, and nothing is saved."""

    name = "full-history"

    def __init__(self, _means: StrategyInputs) -> None:
        """Need nothing."""

    @remembered
    def compress(self, turns: Sequence[TemplateTurn]) -> Context:
        """Return everything."""
        return Context(as_messages(turns))


class RollingWindow(_Stateless):
    """Sends the last exchanges and forgets the others."""

    name = "rolling-window"

    def __init__(self, _means: StrategyInputs) -> None:
        """Need nothing."""

    @remembered
    def compress(self, turns: Sequence[TemplateTurn]) -> Context:
        """Return the last exchanges."""
        return Context(as_messages(recent(turns)))


Maker: TypeAlias = Callable[[StrategyInputs], Strategy]
"""Makes a strategy for one trial."""

OURS: Mapping[str, Maker] = {
    FullHistory.name: FullHistory,
    RollingWindow.name: RollingWindow,
    ProtectedCore.name: ProtectedCore,
    SelectiveSalience.name: SelectiveSalience,
    EbbtideAgent.name: EbbtideAgent,
}
"""What is measured if no strategy is named."""

PEERS: Mapping[str, Maker] = {made.name: made for made in (Middleware, LangMem, DeepAgents)}
"""What is measured beside them if it is named."""

STRATEGIES: Mapping[str, Maker] = {**OURS, **PEERS}

NOTES: Mapping[str, str] = {
    RollingWindow.name: f"keeps the last {RECENT} exchanges.",
    ProtectedCore.name: f"quotes by rules, beside the last {RECENT} exchanges; asks no model.",
    SelectiveSalience.name: f"has a model quote, beside the last {RECENT} exchanges.",
    EbbtideAgent.name: (
        f"has a context of {BUDGET:,} tokens, and compresses in its own time; its quotes are "
        "compared with what was said in the turns that it has compressed."
    ),
    Middleware.name: f"is made to summarise at every point, and keeps {KEPT} messages.",
    LangMem.name: f"is told to stay within {LANGMEM_TOKENS:,} tokens, and leaves what has less.",
    DeepAgents.name: f"is made to summarise at every point, and keeps {KEPT} messages.",
}
"""What one has to know of a strategy to read its scores."""

_PACKAGES = {LangMem.name: "langmem", DeepAgents.name: "deepagents"}


def chosen(names: Sequence[str]) -> dict[str, Maker]:
    """Return strategies by name, ours without any; raises `StrategyError` if one cannot be."""
    for name in names:
        if name not in STRATEGIES:
            raise StrategyError.unknown(name, STRATEGIES)
        package = _PACKAGES.get(name)
        if package and find_spec(package) is None:
            raise StrategyError.missing(name, package)
    return {name: STRATEGIES[name] for name in names or OURS}
