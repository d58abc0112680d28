"""Surface memories of a user's other sessions: at the start of one, and what changed since."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from ..efforts import Effort, Efforts, happened, within_limit
from ..facts import fold, holding, is_fact, items
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
        """Yield what is in attention, of facts that compete the newest in place of all."""
        own, user = session_name(self.view.session), self.view.session.user
        current, shown = holding(self.view.archive.facts(user)), set[str]()
        for memory in self.attention.refresh_for_context(user, text, CAPACITY, now=self.now):
            name = current[memory.id].id if memory.id in current else memory.id
            if parted(name)[0] == own or not (memory.relevance or unrelated) or name in shown:
                continue
            shown.add(name)
            effort = self.view.effort(name, ())
            if effort is not None and effort.status == "concluded":
                yield effort, memory.relevance


def learned(view: ArchiveView, state: Efforts) -> Efforts:
    """Return the state of a later turn with what other sessions said against facts of this one.

    These are newer facts that compete with one that was shown or stands in the state block, and
    facts that were lifted since the last turn.
    """
    texts = {fold(item.text) for item in items(state.anchor)}
    if view.session.anonymous or not (texts or any(map(is_fact, state.summaries))):
        return state
    known = view.archive.facts(view.session.user)
    own = [one for one in known.values() if one.id in state.summaries or fold(one.text) in texts]
    since = max((turn.at for turn in view.past.turns([view.tip.turn])), default="")
    news = [one.id for one in own if one.lifted > since]
    current = holding(known) if own else {}
    later = [current[fact.id] for fact in own if fact.holds]
    news += [one.id for one in later if one not in own and one.session != view.session]
    if not news:
        return state
    return within_limit(happened(state, {"type": "learned", "efforts": [*dict.fromkeys(news)]}))
