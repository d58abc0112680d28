"""The strategies by name: ours, and those of other packages."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import repeat
from typing import Any

from langchain.agents import AgentState
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models import GenericFakeChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    RemoveMessage,
    SystemMessage,
    message_to_dict,
)
from langchain_core.outputs import ChatResult
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import Runtime
from pydantic import Field

from ..graph.agent import create_memory_agent
from ..graph.commands.look import show_context
from ..graph.commands.threads import Agent, thread_at
from ..memory.archive.sql import DiskArchive
from ..memory.archive.transfer import read
from ..memory.compression.extract import MOST_QUOTED, Previous, Sizes
from ..memory.compression.extract import background as describe
from ..memory.compression.merge import lexical, likeness, merged, obsolete_quotes
from ..memory.compression.passes import Chosen, choose
from ..memory.compression.quotes import core
from ..memory.context.shortening import line_tokens, quote
from ..memory.efforts import Effort
from ..memory.errors import AnswerError
from ..memory.record import Group
from ..memory.salience import Compression, capped
from ..memory.settings import Settings
from ..memory.tokens import count
from ..memory.valid_history import note
from ..nodes.llm.calls import Call, Models, drive
from ..nodes.turn.langchain_messages import from_dicts
from ..prompts.loader import render
from .strategy_protocol import Context, Strategy, after, as_messages
from .template import EvaluationError, TemplateTurn

RECENT = 3
"""Exchanges at the end that a strategy may keep as they are: a question, and all up to the next."""

_LANGMEM_TOKENS = 2_000
"""The context that LangMem's node is told to stay within; it does not summarise below that."""

_KEPT = 2 * RECENT
"""The messages that the others keep: as many as the recent exchanges have without tools."""

BUDGET = 4_000
"""The agent's whole context in tokens, if none was set; instructions and tools are about 1,150."""

_NAME = "conversation"
"""The effort that the whole conversation is."""


class StrategyError(EvaluationError):
    """A strategy is unknown, or what it needs is not installed or not said."""


def exchanges(turns: Sequence[TemplateTurn]) -> list[list[TemplateTurn]]:
    """Return turns in parts, each of which begins where the user speaks."""
    parts: list[list[TemplateTurn]] = []
    for turn in turns:
        if turn.role == "user" or not parts:
            parts.append([])
        parts[-1].append(turn)
    return parts


def recent(turns: Sequence[TemplateTurn], number: int = RECENT) -> tuple[TemplateTurn, ...]:
    """Return the turns of the last exchanges."""
    return tuple(turn for part in exchanges(turns)[-number:] for turn in part)


def groups(turns: Sequence[TemplateTurn]) -> tuple[Group, ...]:
    """Return turns as the memory has them: a group for each exchange, numbered as it begins."""
    return tuple(
        Group(part[0].turn_id, tuple(map(message_to_dict, as_messages(part))), "")
        for part in exchanges(turns)
    )


class FullHistory(Strategy):
    """Sends all that was said; nothing is lost, and nothing is saved."""

    name = "full-history"

    def _shortened(self, turns: Sequence[TemplateTurn]) -> Context:
        return Context(as_messages(turns))


class RollingWindow(Strategy):
    """Sends the last exchanges and forgets the others."""

    name = "rolling-window"
    note = f"keeps the last {RECENT} exchanges."

    def _shortened(self, turns: Sequence[TemplateTurn]) -> Context:
        return Context(as_messages(recent(turns)))


class ProtectedCore(Strategy):
    """Keeps goals, hard constraints and decisions, found by rules, and the last exchanges."""

    name = "protected-core"
    note = f"quotes by rules, beside the last {RECENT} exchanges; asks no model."

    def _set_up(self) -> None:
        self._models: Models = {"extraction": self.inputs.model, "background": self.inputs.model}
        self._sizes = Sizes(self.inputs.settings.context_budget)
        # By letters without a warning: the results say how quotes are compared.
        self._alike = likeness(self.inputs.embedder) if self.inputs.embedder else lexical
        self._shown = Compression(_NAME, 0, 0)
        self._calls: list[Call] = []

    def _shortened(self, turns: Sequence[TemplateTurn]) -> Context:
        """Quote from new turns; without a background nothing changes, as in the agent."""
        self._calls = []
        old, older = self._shown, turns[: len(turns) - len(recent(turns))]
        chosen = self._chosen(groups(after(turns, old.turn)))
        threshold = self.inputs.settings.similarity_threshold
        union = merged(old.items, chosen.items, self._alike, threshold, chosen.revisions)
        items = capped(union.items, MOST_QUOTED, partial(line_tokens, count))
        new = Compression(_NAME, turns[-1].turn_id, older[-1].turn_id if older else 0, items)
        try:
            background = self._written(groups(after(older, old.through)), new)
            self._shown, failed = replace(new, background=background), False
        except AnswerError:
            failed = True
        return Context(
            self._messages(turns),
            quotes=tuple(item.quote for item in self._shown.current),
            fabricated=sum(verdict.verdict == "fabricated" for verdict in chosen.verdicts),
            fallbacks=bool(chosen.fallback) + failed,
            calls=tuple(self._calls),
        )

    def _chosen(self, new: Sequence[Group]) -> Chosen:
        return Chosen(core(self.goals, new), "protected-core")

    def _written(self, _leaving: Sequence[Group], _new: Compression) -> str:
        """Return the background, once these exchanges have left; by rules there is none."""
        return ""

    def _effort(self) -> Effort:
        return Effort(_NAME, "open", goal=self.goals.current, constraints=self.goals.constraints)

    def _messages(self, turns: Sequence[TemplateTurn]) -> tuple[AnyMessage, ...]:
        """Return the marker of the effort, the quotes of the older turns, and the others."""
        front, through = [note(render("open_line", **self._effort().purpose))], self._shown.through
        if through:
            older = tuple(item for item in self._shown.items if item.turn <= through)
            quoted = quote(replace(self._shown, items=older), turns[0].turn_id, count)
            front += [quoted] if quoted else []
        messages: Any = [*from_dicts(front), *as_messages(after(turns, through))]
        return tuple(messages)


class SelectiveSalience(ProtectedCore):
    """Lets a model choose what is quoted and write the background; else it is the core."""

    name = "selective-salience"
    note = f"has a model quote, beside the last {RECENT} exchanges."

    def _chosen(self, new: Sequence[Group]) -> Chosen:
        try:
            steps = choose(self._effort(), new, self._shown.items, self._sizes, count)
            chosen = drive(steps, self._models, self._calls.append)
        except AnswerError as error:
            chosen = Chosen((), "salience", fallback=str(error))
        if not chosen.fallback:
            return chosen
        return replace(super()._chosen(new), verdicts=chosen.verdicts, fallback=chosen.fallback)

    def _written(self, leaving: Sequence[Group], new: Compression) -> str:
        quoted, old = tuple(item.quote for item in new.current), self._shown
        previous = Previous(old.background, quoted, obsolete_quotes(old.items, new.items))
        steps = describe(self._effort(), leaving, previous, self._sizes, count)
        return drive(steps, self._models, self._calls.append)


class _Reciter(GenericFakeChatModel):
    """Stands where an agent has its model: says the next of its lines, and keeps what it heard."""

    heard: list[BaseMessage] = Field(default_factory=list)

    def bind_tools(self, tools: Any, **_: Any) -> Runnable[LanguageModelInput, AIMessage]:  # noqa: ARG002
        """Return the model as it is: the lines say which tools are called."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.heard = messages
        return super()._generate(messages, *args, **kwargs)


_CONFIG: RunnableConfig = {"configurable": {"thread_id": "trial"}, "recursion_limit": 100}
"""One thread, since each trial has its own archive, and steps for 48 calls of tools in a turn."""


class EbbtideAgent(Strategy):
    """Runs each exchange as a turn of one effort of the agent, which compresses in its own time.

    The seconds of a compression are those of all turns since the last one. What a pass dropped as
    fabricated stands in the agent's own log, and is not counted here.
    """

    name = "ebbtide"
    note = (
        f"has a context of {BUDGET:,} tokens, and compresses in its own time; its quotes are "
        "compared with what was said in the turns that it has compressed."
    )

    def _set_up(self) -> None:
        chosen = self.inputs.settings.model_dump(exclude_unset=True)
        self._settings = Settings(**{"context_budget": BUDGET, **chosen})
        self._archive = DiskArchive(self.inputs.folder, durable=False)
        self._saver = InMemorySaver()
        self._lines: deque[AIMessage] = deque()
        self._outputs: deque[str] = deque()
        self._turns: dict[int, int] = {}
        self._passes = 0

    def _shortened(self, turns: Sequence[TemplateTurn]) -> Context:
        """Run the turns since the last time; return what the next call would send."""
        agent = self._agent(turns)
        if not self.seen:
            goal, constraints = self.goals.original, [*self.goals.constraints]
            self._say("open_effort", {"name": _NAME, "goal": goal, "constraints": constraints})
        for question, *answers in exchanges(after(turns, self.seen)):
            if question.role != "user" or not answers:
                why = "the agent needs a user's turn, then answers"
                raise StrategyError(f"turn {question.turn_id}: {why}")
            self._script(question, answers)
            state = agent.invoke({"messages": question.content}, _CONFIG)
            self._turns[state["memory"]["turn"]] = answers[-1].turn_id
            self._lines.clear()  # the lines after an early end of the turn would shift the next one
            self._outputs.clear()
        return self._context(agent)

    def _script(self, question: TemplateTurn, answers: Sequence[TemplateTurn]) -> None:
        """Line up what the model says in one turn: one call after the other, then its words."""
        for turn in (question, *answers):
            for turn_id, goal, rationale in self.goals.changes:
                if turn_id == turn.turn_id:
                    self._say("update_goal", {"goal": goal, "rationale": rationale}, turn_id)
            if turn.tool_call:
                self._outputs.append(turn.tool_call.output)
                self._say(turn.tool_call.name, turn.tool_call.arguments, turn.turn_id)
        self._lines.append(AIMessage("\n\n".join(turn.content for turn in answers)))

    def _context(self, agent: Agent) -> Context:
        """Return what the next call would send, and what the passes since the last time did."""
        unsaid = {"system", "tools"}  # they do not stand for the conversation
        parts = [part for part in show_context(agent, _CONFIG).parts if part.name not in unsaid]
        messages: Any = from_dicts([message for part in parts for message in part.messages])
        thread = thread_at(agent, _CONFIG)
        logged = [entry["told"] for entry in read(self._archive, thread.owner).extractions]
        passes, self._passes = logged[self._passes :], len(logged)
        newest = self._archive.compression(thread.owner, thread.tip, _NAME)
        return Context(
            tuple(messages),
            quotes=tuple(item.quote for item in newest.current) if newest else None,
            through=self._turns[newest.through] if newest else None,
            fallbacks=sum("fallback" in entry for entry in passes),
            calls=tuple(Call(**call) for entry in passes for call in entry["calls"]),
        )

    def _agent(self, turns: Sequence[TemplateTurn]) -> Agent:
        """Return the agent with the tools that were called so far; what it knows is stored."""
        model, embedder = self.inputs.model, self.inputs.embedder
        schema: dict[str, Any] = {"type": "object", "properties": {}}
        tools = [  # they answer by what the template says, whatever their arguments are
            StructuredTool(
                name=name,
                description=name,
                args_schema=schema,
                func=lambda **_: self._outputs.popleft(),
            )
            for name in sorted({turn.tool_call.name for turn in turns if turn.tool_call})
        ]
        return create_memory_agent(
            _Reciter(messages=iter(self._lines.popleft, None)),
            tools=tools,
            archive=self._archive,
            checkpointer=self._saver,
            settings=self._settings,
            summary_model=model,
            extraction_model=model,
            compression_model=model,
            embeddings=embedder.model if embedder else None,
        )

    def _say(self, name: str, arguments: dict[str, Any], number: int = 0) -> None:
        call = {"name": name, "args": arguments, "id": f"{name}-{number}", "type": "tool_call"}
        self._lines.append(AIMessage("", tool_calls=[call]))


class Middleware(Strategy):
    """LangChain's `SummarizationMiddleware`: a summary, and the last messages."""

    name = "summarization-middleware"
    note = f"is made to summarise at every point, and keeps {_KEPT} messages."

    def _shortened(self, turns: Sequence[TemplateTurn]) -> Context:
        middleware = SummarizationMiddleware(
            self.inputs.model, trigger=("messages", 1), keep=("messages", _KEPT)
        )
        messages = [*self.context.messages, *as_messages(after(turns, self.seen))]
        state: AgentState[Any] = {"messages": messages}
        update = middleware.before_model(state, Runtime())
        kept = update["messages"] if update else messages
        return Context(tuple(message for message in kept if not isinstance(message, RemoveMessage)))


class LangMem(Strategy):
    """LangMem's `SummarizationNode`: a running summary, and what fits beside it."""

    name = "langmem"
    note = f"is told to stay within {_LANGMEM_TOKENS:,} tokens, and leaves what has less."
    package = "langmem"

    def _set_up(self) -> None:
        node = import_module("langmem.short_term").SummarizationNode
        self._node = node(model=self.inputs.model, max_tokens=_LANGMEM_TOKENS)
        self._known: dict[str, Any] = {}

    def _shortened(self, turns: Sequence[TemplateTurn]) -> Context:
        # The node knows which of all turns it has summarised.
        update = self._node.invoke({"messages": [*as_messages(turns)], "context": self._known})
        self._known = update.get("context", self._known)
        return Context(tuple(update["summarized_messages"]))


class DeepAgents(Strategy):
    """A deep agent, with its own middleware that summarises and keeps the history in files."""

    name = "deepagents"
    note = Middleware.note
    package = "deepagents"

    def _set_up(self) -> None:
        summarising = import_module("deepagents.middleware.summarization")
        middleware = summarising.SummarizationMiddleware(
            self.inputs.model,
            backend=import_module("deepagents.backends").StateBackend(),
            trigger=("messages", 1),
            keep=("messages", _KEPT),
        )
        self._reciter = _Reciter(messages=repeat("Noted."))
        self._agent = import_module("deepagents").create_deep_agent(
            self._reciter, [], middleware=[middleware], checkpointer=InMemorySaver()
        )
        self._answer: list[AnyMessage] = []

    def _shortened(self, turns: Sequence[TemplateTurn]) -> Context:
        gone = [RemoveMessage(id=message.id) for message in self._answer if message.id]
        messages = [*gone, *as_messages(after(turns, self.seen))]
        self._answer = self._agent.invoke({"messages": messages}, _CONFIG)["messages"][-1:]
        heard: Any = self._reciter.heard
        return Context(tuple(part for part in heard if not isinstance(part, SystemMessage)))


_OWN = (FullHistory, RollingWindow, ProtectedCore, SelectiveSalience, EbbtideAgent)
_PEERS = (Middleware, LangMem, DeepAgents)

OURS: Sequence[str] = [kind.name for kind in _OWN]
"""What is measured if no strategy is named."""

STRATEGIES: Mapping[str, type[Strategy]] = {kind.name: kind for kind in (*_OWN, *_PEERS)}
"""What can be measured, the peers too."""


def chosen(names: Sequence[str]) -> dict[str, type[Strategy]]:
    """Return strategies by name, ours without any; raises `StrategyError` if one cannot be."""
    for name in names:
        if name not in STRATEGIES:
            raise StrategyError(f"no strategy {name!r}: there are {', '.join(STRATEGIES)}")
        package = STRATEGIES[name].package
        if package and find_spec(package) is None:
            raise StrategyError(f"strategy {name!r} needs {package}: pip install 'ebbtide[bench]'")
    return {name: STRATEGIES[name] for name in names or OURS}
