"""`ebbtide eval` with the strategies of other packages: LangChain's, LangMem's, deepagents'.

python benchmarks/peer_strategies.py --strategy langmem --model openai:gpt-5-mini
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from langchain.agents import AgentState
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import AnyMessage, RemoveMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import Runtime
from peers import LANGMEM_TOKENS

from ebbtide.cli.entry import main
from ebbtide.evaluation.strategies import RECENT, STRATEGIES
from ebbtide.evaluation.strategy_protocol import Context, Strategy, after, as_messages
from ebbtide.evaluation.template import TemplateTurn
from ebbtide.testing import ScriptedModel

KEPT = 2 * RECENT
"""The last messages that are kept: `RECENT` exchanges without tool calls."""


class Middleware(Strategy):
    """LangChain's `SummarizationMiddleware`: sends a summary and the last messages."""

    name = "summarization-middleware"
    note = f"is made to summarise at every point, and keeps {KEPT} messages."

    def _compressed(self, turns: Sequence[TemplateTurn]) -> Context:
        middleware = SummarizationMiddleware(
            self.inputs.model, trigger=("messages", 1), keep=("messages", KEPT)
        )
        messages = [*self.context.messages, *as_messages(after(turns, self.last_turn))]
        state: AgentState[Any] = {"messages": messages}
        update = middleware.before_model(state, Runtime())
        messages = update["messages"] if update else messages
        return Context(tuple(m for m in messages if not isinstance(m, RemoveMessage)))


class LangMem(Strategy):
    """LangMem's `SummarizationNode`: sends a running summary and the messages that fit."""

    name = "langmem"
    note = f"is told to stay within {LANGMEM_TOKENS:,} tokens, and leaves what has less."

    def _set_up(self) -> None:
        node = import_module("langmem.short_term").SummarizationNode
        self._node = node(model=self.inputs.model, max_tokens=LANGMEM_TOKENS)
        self._node_context: dict[str, Any] = {}

    def _compressed(self, turns: Sequence[TemplateTurn]) -> Context:
        # The node's context says which of all turns it has summarised.
        update = self._node.invoke(
            {"messages": [*as_messages(turns)], "context": self._node_context}
        )
        self._node_context = update.get("context", self._node_context)
        return Context(tuple(update["summarized_messages"]))


class DeepAgents(Strategy):
    """A deep agent, whose middleware summarises and keeps the history in files."""

    name = "deepagents"
    note = Middleware.note

    def _set_up(self) -> None:
        summarising = import_module("deepagents.middleware.summarization")
        middleware = summarising.SummarizationMiddleware(
            self.inputs.model,
            backend=import_module("deepagents.backends").StateBackend(),
            trigger=("messages", 1),
            keep=("messages", KEPT),
        )
        self._model = ScriptedModel(["Noted."] * 100)
        self._agent = import_module("deepagents").create_deep_agent(
            self._model, [], middleware=[middleware], checkpointer=InMemorySaver()
        )
        self._answer: list[AnyMessage] = []

    def _compressed(self, turns: Sequence[TemplateTurn]) -> Context:
        removals = [RemoveMessage(id=message.id) for message in self._answer if message.id]
        messages = [*removals, *as_messages(after(turns, self.last_turn))]
        config: Any = {"configurable": {"thread_id": "trial"}}
        self._answer = self._agent.invoke({"messages": messages}, config)["messages"][-1:]
        sent: Any = self._model.prompts[-1]
        return Context(tuple(part for part in sent if not isinstance(part, SystemMessage)))


if __name__ == "__main__":
    STRATEGIES |= {kind.name: kind for kind in (Middleware, LangMem, DeepAgents)}
    sys.argv = ["ebbtide", "eval", *sys.argv[1:]]
    main()
