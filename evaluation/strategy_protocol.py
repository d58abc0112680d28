"""What a strategy is: it is told the goal, is given the turns, and returns a context."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    ToolMessage,
    message_to_dict,
)

from ..memory.embeddings import Embedder
from ..memory.settings import Settings
from ..memory.tokens import count_messages
from ..nodes.llm.calls import Call
from .template import TemplateTurn

RECENT = 3
"""Exchanges at the end that a strategy may keep as they are: a question, and all up to the next."""


@dataclass(frozen=True, slots=True)
class Context:
    """What stands for the conversation: without instructions and tool schemas.

    `quotes` are the sentences that the strategy chose to keep word for word, None if it does not
    choose sentences; `fabricated` counts those that it dropped since nobody had said them.
    `through` is the last turn that quotes were chosen from, None if from all: what came later
    stands there as it was said. `fallbacks` are passes in which rules chose, since a model could
    not; `calls` are those of its passes.
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

    One that takes no note of what it is told knows the goal from the conversation alone.
    """

    name: ClassVar[str]
    note: ClassVar[str] = ""
    """What one has to know of it to read its scores."""

    package: ClassVar[str] = ""
    """What it needs that is in the extra `bench` alone."""

    def __init__(self, inputs: StrategyInputs) -> None:
        """Begin with an empty context; `seen` is the last turn that it stands for."""
        self.inputs = inputs
        self.context, self.seen = Context(), 0

    def initialize(self, goal: str, constraints: Sequence[str]) -> None:
        """Begin a conversation with this goal and these constraints."""

    def update_goal(self, goal: str, rationale: str, turn_id: int) -> None:
        """Take note that the goal is another one from this turn on, and why.

        The turn is one of those that are compressed next.
        """

    def compress(self, turns: Sequence[TemplateTurn]) -> Context:
        """Return the context that stands for all turns so far, the oldest first.

        Without turns that is the one that it returned last.
        """
        if turns:
            self.context = self._shortened(turns)
            self.seen = turns[-1].turn_id
        return self.context

    def _shortened(self, turns: Sequence[TemplateTurn]) -> Context:
        raise NotImplementedError


def as_messages(turns: Sequence[TemplateTurn]) -> tuple[AnyMessage, ...]:
    """Return turns as messages; a turn with a tool call is the call, its result and the words."""
    return tuple(message for turn in turns for message in _messages(turn))


def after(turns: Sequence[TemplateTurn], turn_id: int) -> tuple[TemplateTurn, ...]:
    """Return the turns whose numbers are higher."""
    return tuple(turn for turn in turns if turn.turn_id > turn_id)


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


def size(messages: Sequence[AnyMessage]) -> int:
    """Return the tokens of messages, as OpenAI bills them."""
    return count_messages([message_to_dict(message) for message in messages])


def transcript(messages: Sequence[AnyMessage]) -> str:
    r"""Return messages as a text to read.

    >>> transcript((HumanMessage("Which port?"), AIMessage("8080.")))
    'user: Which port?\nassistant: 8080.'
    """
    return "\n".join(line for message in messages for line in _lines(message))


def _messages(turn: TemplateTurn) -> Iterator[AnyMessage]:
    number = f"turn-{turn.turn_id}"
    if turn.role == "user":
        yield HumanMessage(turn.content, id=number)
        return
    if turn.tool_call:
        name, call_id = turn.tool_call.name, f"call-{turn.turn_id}"
        call = {"name": name, "args": turn.tool_call.arguments, "id": call_id, "type": "tool_call"}
        yield AIMessage("", tool_calls=[call], id=f"{number}-call")
        yield ToolMessage(
            turn.tool_call.output, tool_call_id=call_id, name=name, id=f"{number}-result"
        )
    yield AIMessage(turn.content, id=number)


def _lines(message: AnyMessage) -> Iterator[str]:
    role = {"human": "user", "ai": "assistant"}.get(message.type, message.type)
    if message.text:
        yield f"{role}: {message.text}"
    for call in getattr(message, "tool_calls", None) or ():
        yield f"{role} calls {call['name']} {call['args']}"
