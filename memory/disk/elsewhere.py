"""Searching the other sessions of a user: what they concluded is read in each session's index."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..archive import Elsewhere
from ..efforts import Effort
from ..errors import ArchiveError
from ..manifest import Entry
from ..messages import clean
from ..record import Owner, Tip
from ..search import Rare, rarity
from ..terms import asked
from .search_rows import heading
from .session import Opened
from .sessions import Sessions

_log = logging.getLogger("ebbtide.archive")

_TERMS = 64


@dataclass(frozen=True, slots=True)
class Concluded:
    """An effort that the newest branch of a session concluded, and the tip of that turn."""

    owner: Owner
    entry: Entry
    tip: Tip

    @property
    def effort(self) -> Effort:
        """The effort as it was left."""
        return self.entry.effort


def search_sessions(
    sessions: Sessions, owner: Owner, query: str, limit: int
) -> tuple[Elsewhere, ...]:
    """Return the efforts that other sessions concluded; see `Archive.search_sessions`."""
    wanted = asked(clean(query))[:_TERMS]
    others = (one for one in sessions.listed(owner.user) if one != owner) if wanted else ()
    kept = [one for other in others for one in _concluded(sessions, other)]
    said = {one: frozenset(heading(one.effort).split()) for one in kept}
    having = {term: sum(term in words for words in said.values()) for term in wanted}
    rare = {term: rarity(len(kept), count) for term, count in having.items() if count}
    return _best((_scored(one, words, rare) for one, words in said.items()), limit)


def _concluded(sessions: Sessions, owner: Owner) -> Iterator[Concluded]:
    def read(opened: Opened) -> tuple[Concluded, ...]:
        index, tip = opened.index, opened.index.newest()
        if tip is None:
            return ()
        names = (effort.id for effort in index.efforts(tip, index.counts(tip)[1]).efforts)
        changes = [change for name in names if (change := index.change(tip, name))]
        return tuple(_placed(opened, owner, one) for one in changes if one.effort.status != "open")

    nothing: tuple[Concluded, ...] = ()
    try:
        yield from sessions.get(owner).read(read, nothing)
    except (ArchiveError, OSError) as error:
        _log.warning("session %r is not searched: %s", owner.thread, error)


def _placed(opened: Opened, owner: Owner, entry: Entry) -> Concluded:
    turn = entry.effort.turn
    slot = opened.index.slot(entry.branch, turn)
    return Concluded(owner, entry, Tip(entry.branch, turn, slot.digest if slot else ""))


def _scored(one: Concluded, words: frozenset[str], rare: Rare) -> tuple[Elsewhere, str]:
    """Return an effort with the sum of how rare the terms are that it says, and its time."""
    said = words & rare.keys()
    score = sum(rare[term] for term in said)
    return Elsewhere(one.owner, one.effort, one.tip, score, said), one.entry.at


def _best(scored: Iterable[tuple[Elsewhere, str]], limit: int) -> tuple[Elsewhere, ...]:
    newest = sorted(scored, key=lambda pair: pair[1], reverse=True)
    found = (one for one, _ in newest if one.said)
    return tuple(sorted(found, key=lambda one: -one.score)[:limit])
