"""What a user would take instead: each made to compress now, whatever the size of the context."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Literal

from langchain.agents import AgentState
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import AnyMessage, RemoveMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import Runtime

from .errors import StrategyError
from .stand_ins import Listener
from .strategy import RECENT, Context, Stateless, StrategyInputs, after, as_messages, remembered
from .template import TemplateTurn

LANGMEM_TOKENS = 2_000
"""The context that LangMem's node is told to stay within; it does not summarise below that."""

KEPT = 2 * RECENT
"""The messages that the others keep: as many as the recent exchanges have without tools."""

_KEEP: tuple[Literal["messages"], int] = ("messages", KEPT)
_NOW: tuple[Literal["messages"], int] = ("messages", 1)


class Middleware(Stateless):
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


class LangMem(Stateless):
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


class DeepAgents(Stateless):
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
