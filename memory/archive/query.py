"""The terms of a query: which of them are rare, who says them, and what a message points at."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from sqlalchemy import literal, select, union_all

from ..ranking import Name, Numbers, Rare, Says, rarity
from ..terms import asked
from .index import Ids, Wanted, any_of, having
from .lineage import Lineage, Session
from .protocol import Pointing
from .schema import PASSAGE_BITS, changes, headed, passages_of, said, turns

TERMS = 64
"""Terms of a query that are looked up."""

RAREST = 32
"""Of these, the terms that count."""

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


@dataclass(frozen=True, slots=True, eq=False)
class Spoken:
    """Which passages, headings or turns say which terms: their ids, the columns of the terms."""

    ids: Ids
    terms: Ids

    @classmethod
    def of(cls, postings: Mapping[str, Sequence[int]], terms: Iterable[str]) -> Self:
        """Return who says these terms, given by term the ids, those of one turn side by side."""
        listed = [postings[term] for term in terms]
        columns = np.repeat(np.arange(len(listed)), [len(ids) for ids in listed])
        return cls(np.array([number for ids in listed for number in ids], np.int64), columns)

    def says(self, ids: Ids, terms: int) -> Says:
        """Return which of so many terms passages say, by row."""
        known, rows = np.unique(ids, return_inverse=True)
        shares = np.zeros((len(known), terms))
        if len(known):
            at = np.minimum(np.searchsorted(known, self.ids), len(known) - 1)
            same = known[at] == self.ids
            shares[at[same], self.terms[same]] = 1.0
        return shares[rows]

    def turns(self) -> "Spoken":
        """Return the turns that say terms, each pair of a turn and a term once."""
        turn = self.ids >> PASSAGE_BITS
        first = (np.diff(turn, prepend=-1) != 0) | (np.diff(self.terms, prepend=-1) != 0)
        return Spoken(turn[first], self.terms[first])


def rarest(
    total: int,
    wanted: Sequence[str],
    passages: Mapping[str, Sequence[int]],
    headings: Mapping[str, Sequence[int]],
) -> Rare:
    """Return how rare the terms that count are, the rarest first, among `total` turns."""
    columns = Spoken.of(passages, wanted).turns().terms
    by_turns = np.bincount(columns, minlength=len(wanted)).tolist()
    counts = {
        term: max(count, len(headings[term])) for term, count in zip(wanted, by_turns, strict=True)
    }
    known = sorted((term for term in wanted if counts[term]), key=lambda term: counts[term])
    whole = max(total, 1)
    return {term: rarity(whole, min(whole, counts[term])) for term in known[:RAREST]}


def strongest(ids: Ids, weights: Numbers) -> Ids:
    """Return ids, each once, by the sum of their weights, of equals the newest first.

    >>> strongest(np.array([7, 8, 9, 7]), np.array([1.0, 3.0, 2.0, 1.0])).tolist()
    [8, 9, 7]
    """
    known, rows = np.unique(ids, return_inverse=True)
    order: Ids = known[np.lexsort((-known, -np.bincount(rows, weights, len(known))))]
    return order


def strengths(saying: Mapping[str, Iterable[Name]], rare: Rare) -> dict[Name, float]:
    """Return how rare the terms are that each one says, given by term who says it."""
    total: dict[Name, float] = {}
    for term, names in saying.items():
        for name in names:
            total[name] = total.get(name, 0.0) + rare[term]
    return total


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
    terms_of = {
        "turn": _terms_of_best(rare, Spoken.of(spoken, rare).turns()),
        "change": _terms_of_best(rare, Spoken.of(headings, rare)),
    }
    saying: dict[str | int, list[frozenset[str]]] = {}
    asking = {f"{what}s": [*best] for what, best in terms_of.items()}
    for row in seen.visible(_SAYING, **asking):
        # A turn that is of no effort is one by itself.
        names = [row.efforts] if row.what == "change" else json.loads(row.efforts) or [row.turn]
        for name in names:
            saying.setdefault(name, []).append(frozenset(terms_of[row.what][row.id]))
    unknown = [term for term in telling if not spoken[term] and not headings[term]]
    return Pointing({**rare, **dict.fromkeys(unknown, rarity(max(of.turns, 1), 1))}, saying)


def _terms_of_best(rare: Rare, spoken: Spoken) -> dict[int, list[str]]:
    """Return what says most of the terms, by its id, with the terms that it says."""
    weights, terms = np.array([*rare.values()]), [*rare]
    best = strongest(spoken.ids, weights[spoken.terms])[:_BEST]
    among_best = np.isin(spoken.ids, best)
    terms_of: dict[int, list[str]] = {number: [] for number in best.tolist()}
    columns = spoken.terms[among_best].tolist()
    for number, column in zip(spoken.ids[among_best].tolist(), columns, strict=True):
        terms_of[number].append(terms[column])
    return terms_of
