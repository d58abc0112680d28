"""Ebbtide's strategies: quoting by rules, or with a model that chooses, and the whole agent."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, message_to_dict
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import PrivateAttr

from ..graph.agent import create_memory_agent
from ..graph.commands.look import show_context
from ..graph.commands.threads import Agent, Thread, opened
from ..memory.archive.sql import DiskArchive
from ..memory.archive.transfer import read
from ..memory.compression.core import Goals, core
from ..memory.compression.extract import MOST_QUOTED, Known, Sizes
from ..memory.compression.extract import background as describe
from ..memory.compression.merge import by_meaning, lexical, merged
from ..memory.compression.passes import Chosen, choose, over
from ..memory.context.front import line_tokens, quote
from ..memory.context.turns import purpose
from ..memory.efforts import Effort
from ..memory.errors import AnswerError
from ..memory.record import Group, Owner
from ..memory.salience import Compression, Item, capped
from ..memory.tokens import count
from ..memory.wellformed import note
from ..nodes.llm.drive import Call, Models, drive
from ..nodes.turn.langchain_messages import from_dicts
from ..prompts.loader import render
from .failures import StrategyError
from .strategy import Context, StrategyInputs, after, as_messages, recent, remembered
from .template import TemplateTurn


class _Toolless(BaseChatModel):
    """What an agent may bind its tools to, though nobody decides there which to call."""

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],  # noqa: ARG002
        **_kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return the model as it is."""
        return self.bind()


class Listener(_Toolless):
    """Stands where an agent has its model, to learn which context the agent would send."""

    _heard: list[BaseMessage] = PrivateAttr(default_factory=list)

    @property
    def heard(self) -> list[BaseMessage]:
        """The messages of the last request."""
        return self._heard

    @property
    def _llm_type(self) -> str:
        return "listener"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 (the base class's signature)
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **_kwargs: Any,
    ) -> ChatResult:
        self._heard = list(messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage("Noted."))])


class _Reciter(_Toolless):
    """Answers each call with the next message that it was given."""

    _lines: deque[AIMessage] = PrivateAttr(default_factory=deque)

    def learn(self, messages: Iterable[AIMessage]) -> None:
        """Take these messages to say next, instead of what is left."""
        self._lines = deque(messages)

    @property
    def _llm_type(self) -> str:
        return "reciter"

    def _generate(
        self,
        messages: list[BaseMessage],  # noqa: ARG002 (the base class's signature)
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **_kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._lines.popleft())])


NAME = "conversation"
"""The effort that the whole conversation is."""


class ProtectedCore:
    """Keeps goals, hard constraints and decisions, found by rules, and the last exchanges."""

    name = "protected-core"

    def __init__(self, means: StrategyInputs) -> None:
        """Have no items yet."""
        self._models: Models = {"extraction": means.model, "background": means.model}
        self._settings = means.settings
        self._sizes = Sizes(means.settings.context_budget)
        embedder = means.embedder
        self._alike = by_meaning(embedder) if embedder else lexical
        self._goals = Goals("", "")
        self._items: tuple[Item, ...] = ()
        self._background = ""
        self._seen = self._described = 0
        self._fabricated = self._fallbacks = 0
        self._calls: list[Call] = []

    def initialize(self, goal: str, constraints: Sequence[str]) -> None:
        """Begin with this goal and these constraints."""
        self._goals = Goals(goal, goal, (), tuple(constraints))

    def update_goal(self, goal: str, rationale: str) -> None:
        """Go on with another goal."""
        changes = (*self._goals.changes, (self._seen + 1, goal, rationale))
        self._goals = Goals(self._goals.original, goal, changes, self._goals.constraints)

    @remembered
    def compress(self, turns: Sequence[TemplateTurn]) -> Context:
        """Quote from the turns since the last time; show what stands in no recent exchange.

        Without a background nothing changes, as in the agent: the turns stay as they are.
        """
        self._fabricated, self._fallbacks, self._calls = 0, 0, []
        new = exchanges(after(turns, self._seen))
        threshold, chosen = self._settings.similarity_threshold, self._chosen(new)
        found = merged(self._items, chosen.items, self._alike, threshold, chosen.gone)
        size = partial(line_tokens, count)
        items = capped(found.items, MOST_QUOTED, size)
        older = turns[: len(turns) - len(recent(turns))]
        try:
            self._background = self._written(exchanges(after(older, self._described)), items)
        except AnswerError:
            self._fallbacks += 1
            return self._context(turns, [one for one in turns if one.turn_id <= self._described])
        self._items, self._seen = items, turns[-1].turn_id
        self._described = older[-1].turn_id if older else 0
        return self._context(turns, older)

    def _chosen(self, new: Sequence[Group]) -> Chosen:
        """Return the items of new exchanges."""
        return Chosen(core(self._goals, new), "protected-core")

    def _written(self, _leaving: Sequence[Group], _items: Sequence[Item]) -> str:
        """Return the background, once these exchanges have left; by rules there is none."""
        return ""

    def _effort(self) -> Effort:
        goals = self._goals
        return Effort(NAME, "open", goal=goals.current, constraints=goals.constraints)

    def _context(self, turns: Sequence[TemplateTurn], older: Sequence[TemplateTurn]) -> Context:
        current = tuple(item for item in self._items if not item.superseded_by)
        said = [note(render("open_line", **purpose(self._effort())))]
        if older:
            through = older[-1].turn_id
            shown = tuple(item for item in current if item.turn <= through)
            made = Compression(NAME, turns[-1].turn_id, through, shown, self._background)
            quoted = quote(made, turns[0].turn_id, count)
            said += [quoted] if quoted else []
        live = after(turns, older[-1].turn_id) if older else turns
        messages: Any = [*from_dicts(said), *as_messages(live)]
        quotes = tuple(item.quote for item in current)
        return Context(
            tuple(messages),
            quotes,
            self._fabricated,
            fallbacks=self._fallbacks,
            calls=tuple(call.as_data() for call in self._calls),
        )


class SelectiveSalience(ProtectedCore):
    """Lets a model choose what is quoted and write the background; else it is the core."""

    name = "selective-salience"

    def _chosen(self, new: Sequence[Group]) -> Chosen:
        try:
            steps = choose(self._effort(), new, self._items, self._sizes, count)
            chosen = drive(steps, self._models, self._calls.append)
        except AnswerError:
            return self._by_rules(new)
        self._fabricated = sum(one.verdict == "fabricated" for one in chosen.verdicts)
        return self._by_rules(new) if chosen.fallback else chosen

    def _by_rules(self, new: Sequence[Group]) -> Chosen:
        self._fallbacks += 1
        return super()._chosen(new)

    def _written(self, leaving: Sequence[Group], items: Sequence[Item]) -> str:
        quoted = tuple(item.quote for item in items if not item.superseded_by)
        old = Known(self._background, quoted, over(self._items, items))
        steps = describe(self._effort(), leaving, old, self._sizes, count)
        return drive(steps, self._models, self._calls.append)


def exchanges(turns: Sequence[TemplateTurn]) -> tuple[Group, ...]:
    """Return turns as the memory has them: a group for each exchange, numbered as it begins."""
    starts = [turn.turn_id for turn in turns if turn.role == "user"]
    numbered = groupby(turns, lambda turn: max((n for n in starts if n <= turn.turn_id), default=0))
    groups = [[*some] for _, some in numbered]
    return tuple(
        Group(some[0].turn_id, tuple(map(message_to_dict, as_messages(some))), "")
        for some in groups
    )


BUDGET = 4_000
"""The agent's whole context in tokens, if none was set; instructions and tools are about 1,150."""

_CONFIG: RunnableConfig = {"configurable": {"thread_id": "trial"}, "recursion_limit": 100}
_NOT_SAID = {"system", "tools"}
_NO_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}


class EbbtideAgent:
    """Runs each exchange as a turn of one effort of the agent, which compresses in its own time.

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
        self._reciter = _Reciter()
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
