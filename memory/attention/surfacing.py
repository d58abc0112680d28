"""Surface memories of a user's other sessions: at the start of one, and what changed since."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import final

from ..efforts import Effort, Efforts, happened, within_limit
from ..errors import AttentionError
from ..facts import Fact, fold, holding, is_fact, items
from ..names import parted, session_name
from ..settings import Settings
from ..view import ArchiveView
from .law import CAPACITY, Attention

_log = logging.getLogger("ebbtide.attention")

_RELATED = 0.5
"""Share of a memory's keywords that a related text has, unless it has `min_keyword_overlap`."""


@final
@dataclass(frozen=True, slots=True)
class Attended:
    """The attention of a session's user at a moment, as far as the session can see it."""

    attention: Attention
    view: ArchiveView
    settings: Settings
    now: datetime

    def surfaced(self, state: Efforts, message: str) -> Efforts:
        """Return the state of a first turn with what is in attention beside its message.

        That is each rule, and of the rest the first `attention_limit`.
        """
        limit, known = self.settings.attention_limit, self.view.archive.facts(self._user)
        ranked = self._ranked(message, known, prune=True) if limit else {}
        rules = [name for name in ranked if name in known and known[name].field == "Rules"]
        others = (effort.id for effort in self._concluded(ranked) if effort.id not in rules)
        chosen = [*rules, *islice(others, limit)]
        if not chosen:
            return state
        return within_limit(happened(state, {"type": "surfaced", "efforts": chosen}))

    def related(self, text: str) -> Sequence[str]:
        """Return the memories that a text is about, best first, at most `recall_hints`."""
        overlap, limit = self.settings.min_keyword_overlap, self.settings.recall_hints
        shares = self._ranked(text, self.view.archive.facts(self._user))
        ids = (
            effort.id
            for effort in self._concluded(name for name in shares if shares[name])
            if shares[effort.id] >= _RELATED
            or round(shares[effort.id] * len(effort.keywords)) >= overlap
        )
        return tuple(islice(ids, limit))

    @property
    def _user(self) -> str:
        return self.view.session.user

    def _ranked(
        self, text: str, known: Mapping[str, Fact], *, prune: bool = False
    ) -> dict[str, float]:
        """Return what is in attention and how related it is to a text, the strongest first.

        Of facts that compete it is the newest in place of all. If attention fails it is nothing.
        """
        try:
            if prune:
                self.attention.prune(self._user, now=self.now)
            ranked = self.attention.refresh_for_context(self._user, text, CAPACITY, now=self.now)
        except AttentionError as error:
            thread = self.view.session.thread
            _log.warning("session %r is shown no memories: %s", thread, error)
            return {}
        own, current = session_name(self.view.session), holding(known)
        found = dict[str, float]()
        for memory in ranked:
            name = current[memory.id].id if memory.id in current else memory.id
            if parted(name)[0] != own:
                found[name] = max(memory.relevance, found.get(name, 0.0))
        return found

    def _concluded(self, names: Iterable[str]) -> Iterator[Effort]:
        efforts = (self.view.effort(name, ()) for name in names)
        return (one for one in efforts if one is not None and one.status == "concluded")


def learned(view: ArchiveView, state: Efforts) -> Efforts:
    """Return the state of a later turn with what other sessions said against facts of this one.

    These are newer facts that compete with one that was shown or stands in the state block, and
    facts that were lifted since the last turn.
    """
    texts = {fold(item.text) for item in items(state.anchor)}
    if view.session.anonymous or not (texts or any(map(is_fact, state.summaries))):
        return state
    known = view.archive.facts(view.session.user)
    shown = state.summaries
    own = [one for one in known.values() if one.id in shown or not texts.isdisjoint(one.wordings)]
    since = max((turn.at for turn in view.past.turns([view.tip.turn])), default="")
    news = [one.id for one in own if one.lifted > since]
    current = holding(known) if own else {}
    later = [current[fact.id] for fact in own if fact.holds]
    news += [one.id for one in later if one not in own and one.session != view.session]
    if not news:
        return state
    return within_limit(happened(state, {"type": "learned", "efforts": [*dict.fromkeys(news)]}))
