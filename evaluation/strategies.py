"""The strategies of `ebbtide eval`."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain_core.language_models import GenericFakeChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
)
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

from ..graph.agent import create_memory_agent
from ..graph.commands.look import show_context
from ..graph.commands.threads import Agent, thread_at
from ..memory.archive.export import read
from ..memory.archive.sql import DiskArchive
from ..memory.compressions import Compression
from ..memory.context.quotes import quote
from ..memory.errors import AnswerError
from ..memory.questions import What
from ..memory.salience.compress import Chosen, by_rules, choose
from ..memory.salience.extract import Asking, Previous
from ..memory.salience.extract import background as describe
from ..memory.salience.merge import Merged, embedding_similarity, lexical
from ..memory.settings import Settings, choices
from ..memory.turn import StoredTurn
from ..nodes.ask import Models, QuestionCost, drive
from ..prompts.loader import render
from .judge import FENCES
from .strategy_protocol import CONVERSATION, Context, Quoted, Strategy, after, as_messages
from .template import EvaluationError, TemplateTurn

RECENT = 3
"""The last exchanges that a strategy keeps as they are; an exchange begins with a question."""

BUDGET = 4_000
"""Tokens of the agent's context without a setting, its instructions and tools among them."""


def exchanges(turns: Sequence[TemplateTurn]) -> list[list[TemplateTurn]]:
    """Return turns in parts, each beginning with the user."""
    parts: list[list[TemplateTurn]] = []
    for turn in turns:
        if turn.role == "user" or not parts:
            parts.append([])
        parts[-1].append(turn)
    return parts


def recent(turns: Sequence[TemplateTurn], number: int = RECENT) -> tuple[TemplateTurn, ...]:
    """Return the turns of the last exchanges; the first one of a conversation is never recent."""
    parts = exchanges(turns)
    return tuple(turn for part in parts[-min(number, max(1, len(parts) - 1)) :] for turn in part)


def turns_of(turns: Sequence[TemplateTurn]) -> tuple[StoredTurn, ...]:
    """Return a turn for each exchange, numbered by its first turn."""
    return tuple(
        StoredTurn(part[0].turn_id, tuple(as_messages(part)), "") for part in exchanges(turns)
    )


class FullHistory(Strategy):
    """Sends all turns."""

    name = "full-history"

    def _compressed(self, turns: Sequence[TemplateTurn]) -> Context:
        return Context(as_messages(turns))


class RollingWindow(Strategy):
    """Sends the last exchanges."""

    name = "rolling-window"
    note = f"keeps the last {RECENT} exchanges."

    def _compressed(self, turns: Sequence[TemplateTurn]) -> Context:
        return Context(as_messages(recent(turns)))


class ProtectedCore(Strategy):
    """Quotes goals, hard constraints and decisions by rules, and sends the last exchanges."""

    name = "protected-core"
    note = f"quotes by rules, beside the last {RECENT} exchanges; asks no model."

    def _set_up(self) -> None:
        purposes: tuple[What, ...] = ("extraction", "background")
        self._models: Models = {what: self.inputs.asked_for(what) for what in purposes}
        self._asking = Asking(self.inputs.settings.context_budget, FENCES)
        # By letters without a warning: the results say how quotes are compared.
        self._similarity = (
            embedding_similarity(self.inputs.embedder) if self.inputs.embedder else lexical
        )
        self._compression = Compression(CONVERSATION, 0, 0)
        self._calls: list[QuestionCost] = []

    def _compressed(self, turns: Sequence[TemplateTurn]) -> Context:
        """Quote from the new turns; if the background fails the old one stays, as in the agent."""
        self._calls = []
        old, older = self._compression, turns[: len(turns) - len(recent(turns))]
        choice = self._choose(turns_of(after(turns, old.turn)))
        threshold = self.inputs.settings.similarity_threshold
        union = choice.merged_into(old, turns[-1].turn_id, self._similarity, threshold)
        through = older[-1].turn_id if older else 0
        new = Compression(CONVERSATION, turns[-1].turn_id, through, union.items)
        try:
            background = self._background(turns_of(after(older, old.through)), new, union)
            failed = False
        except AnswerError:
            background, failed = old.background, True
        self._compression = replace(new, background=background)
        return Context(
            self._messages(turns),
            quotes=tuple(item.quote for item in self._compression.current),
            chosen=tuple(Quoted(quote=v.quote, verdict=v.verdict) for v in choice.verdicts),
            fallbacks=bool(choice.fallback) + failed,
            calls=tuple(self._calls),
        )

    def _choose(self, new: Sequence[StoredTurn]) -> Chosen:
        return by_rules(self.goals, new, self._asking)

    def _background(self, _leaving: Sequence[StoredTurn], _new: Compression, _union: Merged) -> str:
        """Return the background for exchanges that leave the context; rules write none."""
        return ""

    def _messages(self, turns: Sequence[TemplateTurn]) -> tuple[AnyMessage, ...]:
        """Return the marker of the effort, the quotes of the older turns, and the later turns."""
        through = self._compression.through
        front = [FENCES.note(render("open_line", **self.goals.effort.purpose))]
        if through:
            older = tuple(item for item in self._compression.items if item.turn <= through)
            made = replace(self._compression, items=older)
            front += quote(made, turns[0].turn_id, FENCES).notes
        messages: Any = [*front, *as_messages(after(turns, through))]
        return tuple(messages)


class SelectiveSalience(ProtectedCore):
    """Has a model choose the quotes and write the background; if it fails, rules choose."""

    name = "selective-salience"
    note = f"has a model quote, beside the last {RECENT} exchanges."

    def _choose(self, new: Sequence[StoredTurn]) -> Chosen:
        steps = choose(self.goals, new, self._compression, self._asking)
        return drive(steps, self._models, self._calls.append)

    def _background(self, leaving: Sequence[StoredTurn], new: Compression, union: Merged) -> str:
        quotes = tuple(item.quote for item in new.current)
        previous = Previous(self._compression.background, quotes, union.obsolete)
        steps = describe(self.goals.effort, leaving, previous, self._asking)
        return drive(steps, self._models, self._calls.append)


class _ScriptedModel(GenericFakeChatModel):
    """The model of an agent, which gives the next scripted answer."""

    def bind_tools(self, tools: Any, **_: Any) -> Runnable[LanguageModelInput, AIMessage]:  # noqa: ARG002 (the base class's signature)
        """Return the model itself: the script has the tool calls."""
        return self


_CONFIG: RunnableConfig = {"configurable": {"thread_id": "trial"}, "recursion_limit": 100}
"""One thread, since each trial has its own archive, and steps for 48 tool calls in a turn."""


class EbbtideAgent(Strategy):
    """Runs each exchange as a turn of the agent, which decides itself when to compress.

    The seconds of a compression are those of all turns since the last one.
    """

    name = "ebbtide"
    note = (
        f"has a context of {BUDGET:,} tokens, and compresses in its own time; its quotes are "
        "compared with what was said in the turns that it has compressed."
    )

    def _set_up(self) -> None:
        settings = self.inputs.settings.model_dump(exclude_unset=True)
        self._settings = Settings(**{"context_budget": BUDGET, **settings})
        self._archive = DiskArchive(self.inputs.folder, durable=False)
        self._saver = InMemorySaver()
        self._answers: deque[AIMessage] = deque()
        self._outputs: deque[str] = deque()
        self._last_turns: dict[int, int] = {}
        self._pass_count = 0

    def _compressed(self, turns: Sequence[TemplateTurn]) -> Context:
        """Run the new turns; return the context that the next call would send."""
        agent = self._agent(turns)
        if not self.last_turn:
            goal, constraints = self.goals.original, [*self.goals.effort.constraints]
            self._script_call(
                "open_effort", {"name": CONVERSATION, "goal": goal, "constraints": constraints}
            )
        for question, *answers in exchanges(after(turns, self.last_turn)):
            if question.role != "user" or not answers:
                problem = "the agent needs a user's turn, then answers"
                raise EvaluationError(f"turn {question.turn_id}: {problem}")
            self._script(question, answers)
            state = agent.invoke({"messages": question.content}, _CONFIG)
            self._last_turns[state["memory"]["turn"]] = answers[-1].turn_id
            # A turn that ended early leaves answers, which would shift those of the next turn.
            self._answers.clear()
            self._outputs.clear()
        return self._context(agent)

    def _script(self, question: TemplateTurn, answers: Sequence[TemplateTurn]) -> None:
        """Script the model's answers of one turn: its tool calls one by one, then its text."""
        for turn in (question, *answers):
            for turn_id, goal, rationale in self.goals.changes:
                if turn_id == turn.turn_id:
                    self._script_call(
                        "update_goal", {"goal": goal, "rationale": rationale}, turn_id
                    )
            if turn.tool_call:
                self._outputs.append(turn.tool_call.output)
                self._script_call(turn.tool_call.name, turn.tool_call.arguments, turn.turn_id)
        self._answers.append(AIMessage("\n\n".join(turn.content for turn in answers)))

    def _context(self, agent: Agent) -> Context:
        """Return the context of the next call, and the passes since the last compression."""
        instructions = {"system", "tools"}
        parts = [
            part for part in show_context(agent, _CONFIG).parts if part.name not in instructions
        ]
        messages: Any = [message for part in parts for message in part.messages]
        thread = thread_at(agent, _CONFIG)
        log = [entry["told"] for entry in read(self._archive, thread.session).extractions]
        passes, self._pass_count = log[self._pass_count :], len(log)
        newest = self._archive.load(thread.session, thread.tip).compression(CONVERSATION)
        return Context(
            tuple(messages),
            quotes=tuple(item.quote for item in newest.current) if newest else None,
            chosen=tuple(
                Quoted(quote=one["quote"], verdict=one["verdict"])
                for entry in passes
                for one in entry["quotes"]
            ),
            through=self._last_turns[newest.through] if newest else None,
            fallbacks=sum("fallback" in entry for entry in passes),
            calls=tuple(QuestionCost(**call) for entry in passes for call in entry["calls"]),
        )

    def _agent(self, turns: Sequence[TemplateTurn]) -> Agent:
        """Return an agent with the tools that the turns call; its memory is in the archive."""
        model, embedder = self.inputs.model, self.inputs.embedder
        schema: dict[str, Any] = {"type": "object", "properties": {}}
        tools = [  # they return the template's outputs, whatever their arguments are
            StructuredTool(
                name=name,
                description=name,
                args_schema=schema,
                func=lambda **_: self._outputs.popleft(),
            )
            for name in sorted({turn.tool_call.name for turn in turns if turn.tool_call})
        ]
        return create_memory_agent(
            _ScriptedModel(messages=iter(self._answers.popleft, None)),
            tools=tools,
            archive=self._archive,
            checkpointer=self._saver,
            settings=self._settings,
            summary_model=model,
            extraction_model=self.inputs.asked_for("extraction"),
            compression_model=self.inputs.asked_for("background"),
            embeddings=embedder.model if embedder else None,
        )

    def _script_call(self, name: str, arguments: dict[str, Any], number: int = 0) -> None:
        call = {"name": name, "args": arguments, "id": f"{name}-{number}", "type": "tool_call"}
        self._answers.append(AIMessage("", tool_calls=[call]))


_KINDS = (FullHistory, RollingWindow, ProtectedCore, SelectiveSalience, EbbtideAgent)
STRATEGIES: dict[str, type[Strategy]] = {kind.name: kind for kind in _KINDS}
"""All strategies by name; `benchmarks/peer_strategies.py` adds those of other packages."""


def select(names: Sequence[str]) -> dict[str, type[Strategy]]:
    """Return strategies by name, all by default; raises `EvaluationError` for an unknown one."""
    for name in names:
        if name not in STRATEGIES:
            raise EvaluationError(f"unknown strategy {name!r}: {choices(name, STRATEGIES)}")
    return {name: STRATEGIES[name] for name in names or STRATEGIES}
