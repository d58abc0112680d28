"""What a message may point at: the turns and headings that say most of its telling terms.

That is two statements and no ranking, since each message is asked for it.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from sqlalchemy import Row, literal, select, union_all

from ..ranking import Rare, rarity
from ..terms import asked
from .commit import Session
from .index import Wanted, any_of, having
from .lineage import Lineage
from .protocol import Pointing
from .query import TERMS, Ids, rarest, spoken_in, strongest
from .schema import changes, headed, passages_of, said, turns

TELLING = 100
"""Passages, or headings, that say a term at most if it is to tell what a message points at.

Without a bound the time that a message takes would grow with the session. Of questions to long
conversations 42.6 % have a right hint; with 500, for which five times as much is read, 43.5 %.
"""

_BEST = 100
"""Turns, and headings, that are looked at: those that say most."""

_SAYING = union_all(
    select(
        *(literal("turn").label("what"), turns.c.id),
        *(turns.c.branch, turns.c.turn, turns.c.efforts),
    ).where(any_of(turns.c.id, "turns")),
    select(
        *(literal("change"), changes.c.id),
        *(changes.c.branch, changes.c.turn, changes.c.effort),
    ).where(any_of(changes.c.id, "changes")),
)


def pointing(seen: Lineage, of: Session, message: str) -> Pointing:
    """Return how rare a message's telling terms are, and who says which of them; see `Pointing`."""
    wanted = asked(message)[:TERMS]
    most, within = TELLING + 1, passages_of(seen.session)
    everywhere = Wanted(said, wanted, most), Wanted(headed, wanted, most)
    spoken, headings = having(seen.connection, of.owner, within, *everywhere)
    telling = [term for term in wanted if max(len(spoken[term]), len(headings[term])) < most]
    rare = rarest(of.turns, telling, spoken, headings)
    if not rare:
        return Pointing({}, {})
    by_turns = spoken_in([spoken[term] for term in rare]).turns()
    by_headings = spoken_in([headings[term] for term in rare])
    at_turns = _strongest(rare, *by_turns)
    at_headings = _strongest(rare, by_headings.passages, by_headings.terms)
    asking = {"turns": [*at_turns], "changes": [*at_headings]}
    said_by: dict[str | int, list[frozenset[str]]] = {}
    rows, upto = seen.connection.execute(_SAYING, asking).all(), seen.seen
    for row in rows:
        if row.turn <= upto.get(row.branch, 0):
            terms = frozenset((at_headings if row.what == "change" else at_turns)[row.id])
            for name in _names(row):
                said_by.setdefault(name, []).append(terms)
    unknown = [term for term in telling if not spoken[term] and not headings[term]]
    return Pointing({**rare, **dict.fromkeys(unknown, rarity(max(of.turns, 1), 1))}, said_by)


def _names(row: Row[Any]) -> Sequence[str | int]:
    """Return the efforts of a turn or a change; an ambient turn is one by itself."""
    return [row.efforts] if row.what == "change" else json.loads(row.efforts) or [row.turn]


def _strongest(rare: Rare, ids: Ids, columns: Ids) -> dict[int, list[str]]:
    """Return what says most of the terms, by its id, with the terms that it says."""
    weights, terms = np.array([*rare.values()]), [*rare]
    best = strongest(ids, weights[columns])[:_BEST]
    kept = np.isin(ids, best)
    terms_of: dict[int, list[str]] = {number: [] for number in best.tolist()}
    for number, column in zip(ids[kept].tolist(), columns[kept].tolist(), strict=True):
        terms_of[number].append(terms[column])
    return terms_of
