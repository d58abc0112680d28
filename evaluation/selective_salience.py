"""Selective salience compression for a list of messages, without an agent.

    strategy = SelectiveSalienceStrategy()
    strategy.initialize("Plan the trip", ["At most 900 euros"])
    prompt = strategy.compress(messages, trigger_point=40)

It sends the same prompts as the agent, and verifies and merges the quotes by the same rules.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from langchain.chat_models import init_chat_model
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, convert_to_messages

from ..graph.agent import choose_embedder
from ..memory.compressions import Compression, Item, Kind
from ..memory.efforts import Effort
from ..memory.errors import AnswerError, SettingsError
from ..memory.messages import text
from ..memory.salience.compress import Chosen, choose
from ..memory.salience.core import Goals, core
from ..memory.salience.extract import Asking, Previous, background
from ..memory.salience.merge import Similarity, embedding_similarity, merged
from ..memory.settings import Settings
from ..memory.tokens import count
from ..memory.transcript import role
from ..memory.turn import StoredTurn
from ..nodes.ask import Models, QuestionCost, drive
from ..nodes.turn.parts import name_of
from ..prompts.loader import render
from .judge import FENCES
from .strategy_protocol import CONVERSATION

_log = logging.getLogger("ebbtide.salience")

_DEFAULTS = Settings()

Messages = Sequence[Mapping[str, Any]]
"""Messages as chat APIs take them, such as `{"role": "user", "content": "Which port?"}`."""


@dataclass
class SelectiveSalienceState:
    """The state of a strategy between two compressions. Quotes are verbatim."""

    salience_set: list[str]
    original_goal: str
    constraints: list[str]
    extraction_model: str
    compression_model: str
    similarity_threshold: float


class SelectiveSalienceStrategy:
    """A model quotes what the goal depends on, and summarises the rest as a short background.

    The set of quotes grows with each compression and has no size limit. Quotes leave it when a
    later quote revises or repeats them, or when they no longer matter. `calls` has the cost of each
    model call, and `fallbacks` counts compressions in which rules chose the quotes because the
    model failed.
    """

    name = "selective-salience"

    def __init__(
        self,
        extraction_model: str | BaseChatModel = "gpt-4o",
        compression_model: str | BaseChatModel = "gpt-4o-mini",
        similarity_threshold: float = _DEFAULTS.similarity_threshold,
        *,
        embeddings: Embeddings | str | None = "minilm",
    ) -> None:
        """Take models or their names; no key is needed before the first call.

        Without the extra `semantic`, or with `embeddings=None`, quotes are compared by letters.
        """
        self.extraction_model, self.compression_model = extraction_model, compression_model
        self.similarity_threshold, self._embeddings = similarity_threshold, embeddings
        self.initialize("", [])

    def initialize(self, original_goal: str, constraints: Sequence[str]) -> None:
        """Start a conversation with this goal and these constraints."""
        self.original_goal, self.constraints = original_goal, [*constraints]
        self.calls: list[QuestionCost] = []
        self.fallbacks = 0
        effort = Effort(CONVERSATION, "open", goal=original_goal, constraints=tuple(constraints))
        self._goals = Goals(effort, original_goal)
        self._compression = Compression(CONVERSATION, 0, 0)
        self._read: list[Mapping[str, Any]] = []
        self._changes = 0

    def update_goal(self, new_goal: str, rationale: str = "") -> None:
        """Change the goal. The next compression quotes the original goal and the reason."""
        changes = (*self._goals.changes, (self._compression.through + 1, new_goal, rationale))
        effort = replace(self._goals.effort, goal=new_goal)
        self._goals = replace(self._goals, effort=effort, changes=changes)

    @property
    def goal(self) -> str:
        """The current goal."""
        return self._goals.effort.goal

    @property
    def salience_set(self) -> list[str]:
        """The current quotes, in the order of their turns."""
        return [item.quote for item in self._compression.current]

    @property
    def state(self) -> SelectiveSalienceState:
        """A copy of the current state."""
        return SelectiveSalienceState(
            self.salience_set,
            self.original_goal,
            [*self.constraints],
            _name_of(self.extraction_model),
            _name_of(self.compression_model),
            self.similarity_threshold,
        )

    def compress(self, context: Messages, trigger_point: int) -> str:
        """Return the context with its first `trigger_point` messages compressed.

        Args:
            context: The whole conversation. Messages that were compressed before are not read
                again.
            trigger_point: How many leading messages to compress.

        Raises:
            SettingsError: The model cannot be created.
            ValueError: `trigger_point` is negative.
        """
        if trigger_point < 0:
            raise ValueError(f"trigger_point must be a number of messages, got {trigger_point}")
        leading = [*context[:trigger_point]]
        known = len(self._read) if leading[: len(self._read)] == self._read else 0
        turns, old = self._turns(leading[known:]), self._compression
        recorded = self._recorded(turns)
        chosen = self._chosen(turns, recorded) if turns else Chosen(recorded, "salience")
        through = turns[-1].number if turns else old.through
        pool = chosen.merged_into(old, through, self._similarity, self.similarity_threshold)
        new = replace(old, turn=through, through=through, items=pool.items)
        quotes = tuple(item.quote for item in new.current)
        so_far = Previous(old.background, quotes, pool.obsolete, chosen.background)
        summary = self._background(turns, so_far)
        self._compression, self._read = replace(new, background=summary), leading
        return self._build_context(self.salience_set, summary, context[trigger_point:], leading)

    def _extract_salient_information(self, context: Messages) -> list[str]:
        """Return quotes of what the goal depends on."""
        return [item.quote for item in self._chosen(self._turns(context)).items]

    def _fallback_extract_constraints(self, context: Messages) -> list[str]:
        """Return what rules find: goals, constraints and decisions."""
        return [item.quote for item in core(self._goals, self._turns(context))]

    def _compress_background(self, context: Messages, salience_set: Sequence[str]) -> str:
        """Return a background of messages beside these quotes, empty if the model fails."""
        return self._background(self._turns(context), Previous("", tuple(salience_set)))

    def _merge_salience(self, existing: Sequence[str], new: Sequence[str]) -> list[str]:
        """Return the quotes of both lists, of equal ones the shorter."""
        return self._deduplicate_semantically([*existing, *new], self.similarity_threshold)

    def _deduplicate_semantically(
        self, items: Sequence[str], threshold: float = _DEFAULTS.similarity_threshold
    ) -> list[str]:
        """Return the items without those that say the same as a shorter one."""
        facts = [Item(Kind.FACT, quote, turn) for turn, quote in enumerate(items, start=1)]
        pool = merged((), facts, self._similarity, threshold)
        return [item.quote for item in pool.items if not item.superseded_by]

    def _token_count(self, text: str) -> int:
        return count(text)

    def _build_context(
        self,
        salience_set: Sequence[str],
        background_summary: str,
        recent_turns: Messages,
        earlier: Messages = (),
    ) -> str:
        """Return the four parts as a text; system messages of `earlier` are in the first one."""
        said = [*map(_as_message, recent_turns)]
        system = [text(one) for one in map(_as_message, earlier) if one.type == "system"]
        goal = render("open_line", **self._goals.effort.purpose)
        return render(
            "evaluation/rebuilt",
            system="\n".join([*system, goal]),
            salient="\n".join(f"- {quote}" for quote in salience_set) or "none",
            background=background_summary or "none",
            recent="\n".join(f"{role(one)}: {text(one)}" for one in said) or "none",
        )

    @cached_property
    def _models(self) -> Models:
        extraction, background = self.extraction_model, self.compression_model
        made = _made(extraction)
        same = extraction == background
        return {"extraction": made, "background": made if same else _made(background)}

    @cached_property
    def _asking(self) -> Asking:
        at_once = self._models["extraction"] is self._models["background"]
        return Asking(_DEFAULTS.context_budget, FENCES, at_once=at_once)

    @cached_property
    def _similarity(self) -> Similarity:
        try:
            return embedding_similarity(choose_embedder(self._embeddings))
        except SettingsError as error:
            _log.warning("quotes are compared by their letters: %s", error)
            return embedding_similarity(None)

    def _turns(self, context: Messages) -> list[StoredTurn]:
        """Return messages in turns, each beginning with the user, numbered after older ones."""
        turns: list[list[BaseMessage]] = []
        for message in map(_as_message, context):
            if message.type == "system":
                continue
            if message.type == "human" or not turns:
                turns.append([])
            turns[-1].append(message)
        first = self._compression.through + 1
        return [StoredTurn(number, tuple(said), "") for number, said in enumerate(turns, first)]

    def _chosen(self, turns: Sequence[StoredTurn], recorded: tuple[Item, ...] = ()) -> Chosen:
        """Return what the model chooses; if it fails, what rules find."""
        goals = replace(self._goals, recorded=recorded)
        steps = choose(goals, turns, self._compression, self._asking)
        chosen = drive(steps, self._models, self.calls.append)
        if chosen.fallback:
            self.fallbacks += 1
            _log.warning("only the core of the conversation is quoted: %s", chosen.fallback)
        return chosen

    def _recorded(self, turns: Sequence[StoredTurn]) -> tuple[Item, ...]:
        """Return the first goal and the reasons of its changes since the last compression."""
        changes, self._changes = self._goals.changes[self._changes :], len(self._goals.changes)
        if not changes:
            return ()
        newest = turns[-1].number if turns else self._compression.through
        reasons = [(Kind.DECISION, reason, newest) for _, _, reason in changes if reason]
        quotes = [(Kind.GOAL, self.original_goal, 1), *reasons]
        return tuple(Item(kind, quote, turn, speaker="record") for kind, quote, turn in quotes)

    def _background(self, turns: Sequence[StoredTurn], old: Previous) -> str:
        """Return a new background, or the old one if the model fails."""
        if not turns:
            return old.background
        try:
            steps = background(self._goals.effort, turns, old, self._asking)
            return drive(steps, self._models, self.calls.append)
        except AnswerError as error:
            _log.warning("the background stays as it was: %s", error)
            return old.background


def _as_message(message: Mapping[str, Any]) -> BaseMessage:
    """Return a message of a chat API as the memory stores it."""
    given = {"content": "", **{name: value for name, value in message.items() if value is not None}}
    if given.get("role") == "tool":
        given = {"tool_call_id": "", **given}
    return convert_to_messages([given])[0]


def _name_of(model: str | BaseChatModel) -> str:
    return model if isinstance(model, str) else name_of(model) or type(model).__name__


def _made(model: str | BaseChatModel) -> BaseChatModel:
    """Return a model by its name; raises `SettingsError` if it cannot be made."""
    if not isinstance(model, str):
        return model
    try:
        return init_chat_model(model)
    except Exception as error:  # each provider's package raises errors of its own
        reason = str(error).partition("\n")[0]  # further lines may quote a key
        raise SettingsError(f"model {model!r} cannot be used: {reason}") from error
