"""What a strategy is: it is told the goal, is given the turns, and returns a context."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage

from ..memory.compression.quotes import Goals
from ..memory.embeddings import Embedder
from ..memory.settings import Settings
from ..nodes.llm.calls import Call
from .template import TemplateTurn


@dataclass(frozen=True, slots=True)
class Context:
    """What stands for the conversation: without instructions and tool schemas.

    `quotes` are the sentences that the strategy chose to keep word for word, None if it chooses
    none; `fabricated` counts those that it dropped since nobody had said them. `through` is the
    last turn that quotes were chosen from, None if from all: what came later stands there as it was
    said. `fallbacks` are passes in which rules chose, since a model could not; `calls` are those of
    its passes.
    """

    messages: tuple[AnyMessage, ...] = ()
    quotes: tuple[str, ...] | None = None
    fabricated: int | None = None
    through: int | None = None
    fallbacks: int | None = None
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class StrategyInputs:
    """What a strategy works with: a model, embeddings if there are any, a folder for its files."""

    model: BaseChatModel
    embedder: Embedder | None
    folder: Path
    settings: Settings = Settings()  # noqa: RUF009 (it is frozen)


class Strategy:
    """Keeps a conversation's goal while the context is shortened; one object for one trial.

    One that sends none of `goals` knows the goal from the conversation alone.
    """

    name: ClassVar[str]
    note: ClassVar[str] = ""
    """What one has to know of it to read its scores."""

    package: ClassVar[str] = ""
    """What it needs that is in the extra `bench` alone."""

    def __init__(self, inputs: StrategyInputs) -> None:
        """Begin with an empty context; `seen` is the last turn that it stands for."""
        self.inputs, self.goals = inputs, Goals("", "")
        self.context, self.seen = Context(), 0
        self._set_up()

    def _set_up(self) -> None:
        """Make what the strategy works with."""

    def initialize(self, goal: str, constraints: Sequence[str]) -> None:
        """Begin a conversation with this goal and these constraints."""
        self.goals = Goals(goal, goal, (), tuple(constraints))

    def update_goal(self, goal: str, rationale: str, turn_id: int) -> None:
        """Go on with another goal from this turn on, one of those that are compressed next."""
        changes = (*self.goals.changes, (turn_id, goal, rationale))
        self.goals = replace(self.goals, current=goal, changes=changes)

    def compress(self, turns: Sequence[TemplateTurn]) -> Context:
        """Return the context that stands for all turns so far; without turns it is the last one."""
        if turns:
            self.context = self._shortened(turns)
            self.seen = turns[-1].turn_id
        return self.context

    def _shortened(self, turns: Sequence[TemplateTurn]) -> Context:
        raise NotImplementedError


def as_messages(turns: Sequence[TemplateTurn]) -> tuple[AnyMessage, ...]:
    """Return the messages of turns."""
    return tuple(message for turn in turns for message in turn.messages())


def after(turns: Sequence[TemplateTurn], turn_id: int) -> tuple[TemplateTurn, ...]:
    """Return the turns whose numbers are higher."""
    return tuple(turn for turn in turns if turn.turn_id > turn_id)


def transcript(messages: Sequence[AnyMessage]) -> str:
    """Return messages as a text to read, such as "user: Which port?" and "assistant: 8080."."""
    lines = []
    for message in messages:
        role = {"human": "user", "ai": "assistant"}.get(message.type, message.type)
        if message.text:
            lines.append(f"{role}: {message.text}")
        calls = getattr(message, "tool_calls", None) or ()
        lines.extend(f"{role} calls {call['name']} {call['args']}" for call in calls)
    return "\n".join(lines)
