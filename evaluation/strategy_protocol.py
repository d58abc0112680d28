"""The protocol of a strategy: it gets the goal and the turns, and returns a context."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage

from ..memory.efforts import Effort
from ..memory.questions import What
from ..memory.salience.core import Goals
from ..memory.search.embeddings import Embedder
from ..memory.settings import Settings
from ..memory.transcript import role
from ..nodes.ask import QuestionCost
from .template import Strict, TemplateTurn

CONVERSATION = "conversation"
"""The one effort that a conversation consists of."""


class Quoted(Strict):
    """A quote that a model chose, and what became of it: `verbatim`, `fabricated` and so on."""

    quote: str
    verdict: str


@dataclass(frozen=True, slots=True)
class Context:
    """The messages that a strategy sends for a conversation, without instructions and tools.

    `quotes` are the sentences that it keeps word for word, None if it does not quote; `chosen` are
    those that a model chose since the last compression, dropped ones too. `through` is the last
    turn that quotes were chosen from, None for all turns: later turns are sent as they are.
    `fallbacks` counts passes in which rules chose the quotes since the model failed; `calls` are
    those of all passes.
    """

    messages: tuple[AnyMessage, ...] = ()
    quotes: tuple[str, ...] | None = None
    chosen: tuple[Quoted, ...] = ()
    through: int | None = None
    fallbacks: int | None = None
    calls: tuple[QuestionCost, ...] = ()


@dataclass(frozen=True, slots=True)
class StrategyInputs:
    """The inputs of a strategy: a model, embeddings or None, a folder for its files, settings.

    `models` answer in place of the model, by what they are asked for.
    """

    model: BaseChatModel
    embedder: Embedder | None
    folder: Path
    settings: Settings = Settings()  # noqa: RUF009 (it is frozen)
    models: Mapping[What, BaseChatModel] = field(default_factory=dict)

    def asked_for(self, what: What) -> BaseChatModel:
        """Return the model that answers these questions."""
        return self.models.get(what, self.model)


class Strategy:
    """Shortens the context of a conversation; one object for one trial.

    A strategy may ignore `goals`: then the model knows the goal from the conversation alone.
    """

    name: ClassVar[str]
    note: ClassVar[str] = ""
    """What a reader of its scores has to know."""

    def __init__(self, inputs: StrategyInputs) -> None:
        """Begin with an empty context; `last_turn` is the last turn that it covers."""
        self.inputs, self.context, self.last_turn = inputs, Context(), 0
        self.initialize("", ())
        self._set_up()

    def _set_up(self) -> None:
        """Make the objects of the strategy."""

    def initialize(self, goal: str, constraints: Sequence[str]) -> None:
        """Begin a conversation with this goal and these constraints."""
        effort = Effort(CONVERSATION, "open", goal=goal, constraints=tuple(constraints))
        self.goals = Goals(effort, goal)

    def update_goal(self, goal: str, rationale: str, turn_id: int) -> None:
        """Change the goal from a turn on; that turn is among those compressed next."""
        changes = (*self.goals.changes, (turn_id, goal, rationale))
        effort = replace(self.goals.effort, goal=goal)
        self.goals = replace(self.goals, effort=effort, changes=changes)

    def compress(self, turns: Sequence[TemplateTurn]) -> Context:
        """Return the context for all turns so far; without turns, the last context."""
        if turns:
            self.context = self._compressed(turns)
            self.last_turn = turns[-1].turn_id
        return self.context

    def _compressed(self, turns: Sequence[TemplateTurn]) -> Context:
        raise NotImplementedError


def as_messages(turns: Sequence[TemplateTurn]) -> tuple[AnyMessage, ...]:
    """Return the messages of turns."""
    return tuple(message for turn in turns for message in turn.messages())


def after(turns: Sequence[TemplateTurn], turn_id: int) -> tuple[TemplateTurn, ...]:
    """Return the turns whose numbers are higher."""
    return tuple(turn for turn in turns if turn.turn_id > turn_id)


def as_text(messages: Sequence[AnyMessage]) -> str:
    """Return messages as lines such as "user: Which port?" and "assistant: 8080."."""
    lines = []
    for message in messages:
        if message.text:
            lines.append(f"{role(message)}: {message.text}")
        calls = getattr(message, "tool_calls", None) or ()
        lines.extend(f"{role(message)} calls {call['name']} {call['args']}" for call in calls)
    return "\n".join(lines)
