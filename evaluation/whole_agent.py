"""The whole Ebbtide agent as a strategy: it lives through the conversation as one effort."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

from ..graph.agent import create_memory_agent
from ..graph.commands.look import show_context
from ..graph.commands.threads import Agent, Thread, opened
from ..memory.archive.sql import DiskArchive
from ..memory.archive.transfer import read
from ..memory.record import Owner
from ..nodes.turn.langchain_messages import from_dicts
from .failures import StrategyError
from .quoting import NAME
from .stand_ins import Reciter
from .strategy import Context, StrategyInputs, after, remembered
from .template import TemplateTurn

BUDGET = 4_000
"""The agent's whole context in tokens, if none was set; instructions and tools are about 1,150."""

_CONFIG: RunnableConfig = {"configurable": {"thread_id": "trial"}, "recursion_limit": 100}
_NOT_SAID = {"system", "tools"}
_NO_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}


class EbbtideAgent:
    """Runs each exchange as a turn of the agent, which compresses when it is its own time.

    The seconds of a compression are those of all turns since the last one. What a pass dropped as
    fabricated stands in the agent's own log, and is not counted here.
    """

    name = "ebbtide"

    def __init__(self, means: StrategyInputs) -> None:
        """Keep the archive in the folder of the trial."""
        self._means, chosen = means, means.settings
        unset = "context_budget" not in chosen.model_fields_set
        self._settings = chosen.model_copy(update={"context_budget": BUDGET}) if unset else chosen
        self._archive = DiskArchive(means.folder, durable=False)
        self._saver = InMemorySaver()
        self._reciter = Reciter()
        self._pending: list[AIMessage] = []
        self._outputs: dict[str, deque[str]] = {}
        self._turns: dict[int, int] = {}
        self._seen = self._passes = 0

    def initialize(self, goal: str, constraints: Sequence[str]) -> None:
        """Open an effort with this goal and these constraints, in the first turn."""
        said = {"name": NAME, "goal": goal, "constraints": [*constraints]}
        self._pending.append(_call("open_effort", said))

    def update_goal(self, goal: str, rationale: str) -> None:
        """Change the effort's goal, in the next turn."""
        said = {"goal": goal, "rationale": rationale}
        self._pending.append(_call("update_goal", said, self._seen))

    @remembered
    def compress(self, turns: Sequence[TemplateTurn]) -> Context:
        """Live through the turns since the last time; return what the next call would send."""
        agent = self._agent(turns)
        for question, answers in _exchanges(after(turns, self._seen)):
            self._reciter.learn([*self._pending, *self._said(answers)])
            self._pending = []
            state = agent.invoke({"messages": question.content}, _CONFIG)
            self._turns[state["memory"]["turn"]] = answers[-1].turn_id
        self._seen = turns[-1].turn_id
        shown = show_context(agent, _CONFIG)
        parts = [part for part in shown.parts if part.name not in _NOT_SAID]
        messages: Any = from_dicts([message for part in parts for message in part.messages])
        thread = opened(agent, _CONFIG, agent.get_state(_CONFIG), None)
        return self._context(tuple(messages), thread)

    def _context(self, messages: tuple[Any, ...], thread: Thread) -> Context:
        calls = self._new_calls(thread.owner)
        made = self._archive.compression(thread.owner, thread.tip, NAME)
        if made is None:
            return Context(messages, calls=calls)
        return Context(
            messages,
            quotes=tuple(item.quote for item in made.current),
            through=self._turns[made.through],
            fallbacks=int(made.method == "protected-core"),
            calls=calls,
        )

    def _new_calls(self, owner: Owner) -> tuple[Mapping[str, Any], ...]:
        """Return the calls of the passes since the last time, from the archive's log."""
        passes = read(self._archive, owner).extractions
        new, self._passes = passes[self._passes :], len(passes)
        return tuple(call for one in new for call in one["told"]["calls"])

    def _agent(self, turns: Sequence[TemplateTurn]) -> Agent:
        """Return the agent with the tools that were called so far; what it knows is stored."""
        model, embedder = self._means.model, self._means.embedder
        names = sorted({turn.tool_call.name for turn in turns if turn.tool_call})
        return create_memory_agent(
            self._reciter,
            tools=[self._tool(name) for name in names],
            archive=self._archive,
            checkpointer=self._saver,
            settings=self._settings,
            summary_model=model,
            extraction_model=model,
            compression_model=model,
            embeddings=embedder.model if embedder else None,
        )

    def _tool(self, name: str) -> BaseTool:
        """Return a tool that gives the outputs of the template, one after the other."""

        def give(**_arguments: object) -> str:
            return self._outputs[name].popleft()

        return StructuredTool.from_function(
            give, name=name, description=name, args_schema=_NO_SCHEMA
        )

    def _said(self, answers: Sequence[TemplateTurn]) -> Iterator[AIMessage]:
        """Yield what the model says in one turn: its calls one after the other, then its words."""
        for turn in answers:
            if turn.tool_call:
                self._outputs.setdefault(turn.tool_call.name, deque()).append(turn.tool_call.output)
                yield _call(turn.tool_call.name, turn.tool_call.arguments, turn.turn_id)
        yield AIMessage("\n\n".join(turn.content for turn in answers))


def _exchanges(
    turns: Sequence[TemplateTurn],
) -> Iterator[tuple[TemplateTurn, list[TemplateTurn]]]:
    """Yield what the user says, and the assistant's turns after it; raises `StrategyError`."""
    question: TemplateTurn | None = None
    answers: list[TemplateTurn] = []
    for turn in turns:
        if turn.role == "assistant" and question:
            answers.append(turn)
        elif turn.role == "user" and (question is None or answers):
            if question:
                yield question, answers
            question, answers = turn, []
        else:
            raise StrategyError(f"turn {turn.turn_id}: the agent needs a user's turn, then answers")
    if question is None or not answers:
        raise StrategyError("the agent needs an answer before a compression point")
    yield question, answers


def _call(name: str, arguments: dict[str, Any], number: int = 0) -> AIMessage:
    call = {"name": name, "args": arguments, "id": f"{name}-{number}", "type": "tool_call"}
    return AIMessage("", tool_calls=[call])
