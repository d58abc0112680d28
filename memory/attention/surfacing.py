"""Surface efforts of a user's earlier sessions in the context of a new one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from ..efforts import Effort, Efforts, happened, within_limit
from ..names import parted, session_name
from ..settings import Settings
from ..view import ArchiveView
from .law import CAPACITY, Attention

_RELATED = 0.5
"""Share of a memory's keywords that a related text has, unless it has `min_keyword_overlap`."""


@dataclass(frozen=True, slots=True)
class Attended:
    """The attention of a session's user at a moment, as far as the session can see it."""

    attention: Attention
    view: ArchiveView
    settings: Settings
    now: datetime

    def surfaced(self, state: Efforts, message: str) -> Efforts:
        """Return the state of a first turn with the efforts in attention beside its message.

        Raises `AttentionError`.
        """
        self.attention.prune(self.view.session.user, now=self.now)
        visible = (effort.id for effort, _ in self._visible(message))
        chosen = [*islice(visible, self.settings.attention_limit)]
        if not chosen:
            return state
        return within_limit(happened(state, {"type": "surfaced", "efforts": chosen}))

    def related(self, text: str) -> Sequence[str]:
        """Return the memories that a text is about, best first, at most `recall_hints`.

        Raises `AttentionError`.
        """
        overlap = self.settings.min_keyword_overlap
        ids = (
            effort.id
            for effort, share in self._visible(text, unrelated=False)
            if share >= _RELATED or round(share * len(effort.keywords)) >= overlap
        )
        return tuple(islice(ids, self.settings.recall_hints))

    def _visible(self, text: str, *, unrelated: bool = True) -> Iterator[tuple[Effort, float]]:
        own, user = session_name(self.view.session), self.view.session.user
        for memory in self.attention.refresh_for_context(user, text, CAPACITY, now=self.now):
            if parted(memory.id)[0] == own or not (memory.relevance or unrelated):
                continue
            effort = self.view.effort(memory.id, ())
            if effort is not None and effort.status == "concluded":
                yield effort, memory.relevance
