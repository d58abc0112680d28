"""Ebbtide's two ways to quote, without the agent: by rules alone, and with a model that chooses."""

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Any

from langchain_core.messages import message_to_dict

from ..memory.compression.core import Goals, core
from ..memory.compression.extract import MOST_QUOTED, Known, Sizes
from ..memory.compression.extract import background as describe
from ..memory.compression.merge import by_meaning, lexical, merged
from ..memory.compression.passes import Chosen, choose, over
from ..memory.context.front import line_tokens, quote
from ..memory.context.turns import purpose
from ..memory.efforts import Effort
from ..memory.errors import AnswerError
from ..memory.record import Group
from ..memory.salience import Compression, Item, capped
from ..memory.tokens import count
from ..memory.wellformed import note
from ..nodes.llm.drive import Call, Models, drive
from ..nodes.turn.langchain_messages import from_dicts
from ..prompts.loader import text as prompt
from .strategy import Context, StrategyInputs, after, as_messages, recent, remembered
from .template import TemplateTurn

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
        said = [note(prompt("open_line", **purpose(self._effort())))]
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
