"""Surfacing: what a user concluded in earlier sessions comes into the context of a new one."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from ..efforts import Effort, EffortState, happened, within_limit
from ..names import parted, session_name
from ..settings import Settings
from ..view import ArchiveView
from .law import CAPACITY, Attention, Ranked, relevance

RELATED = 0.5
"""The share of a memory's keywords that what is related to it says, if not `_OVERLAP` of them."""

_OVERLAP = 2
"""Keywords of a memory that say that a text is about it: as many as make a reference."""


@dataclass(frozen=True, slots=True)
class Attended:
    """The attention of a session's user at a moment, and what of it the session can see."""

    attention: Attention
    view: ArchiveView
    settings: Settings
    now: datetime

    def surfaced(self, state: EffortState, said: str) -> EffortState:
        """Return the state of a first turn with what is in attention beside what was said.

        Raises `AttentionError`.
        """
        self.attention.prune(self._user, now=self.now)
        visible = self._visible(self._beside(said))
        chosen = tuple(effort.id for effort in islice(visible, self.settings.attention_limit))
        if not chosen:
            return state
        return within_limit(happened(state, {"type": "surfaced", "efforts": [*chosen]}))

    def related(self, said: str) -> Sequence[str]:
        """Return the memories that a text is about, best first, at most `recall_hints`.

        Raises `AttentionError`.
        """
        beside = self._visible(effort for effort in self._beside(said) if effort.relevance)
        found = (effort.id for effort in beside if self._is_about(effort, said))
        return tuple(islice(found, self.settings.recall_hints))

    def _is_about(self, effort: Effort, said: str) -> bool:
        share = relevance(effort.keywords, said)
        return share >= RELATED or round(share * len(effort.keywords)) >= _OVERLAP

    @property
    def _user(self) -> str:
        return self.view.owner.user

    def _beside(self, said: str) -> tuple[Ranked, ...]:
        return self.attention.refresh_for_context(self._user, said, CAPACITY, now=self.now)

    def _visible(self, ranked: Iterable[Ranked]) -> Iterator[Effort]:
        """Yield what other sessions concluded on their newest branch, and what is there still."""
        own = session_name(self.view.owner)
        for memory in ranked:
            effort = None if parted(memory.id)[0] == own else self.view.effort(memory.id, ())
            if effort is not None and effort.status == "concluded":
                yield effort
