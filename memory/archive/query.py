"""A query: which of its terms are rare, who says them, when; and what a message points at."""

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from sqlalchemy import bindparam, literal, select, union_all

from ..ranking import Name, Numbers, Rare, Says, rarity
from ..terms import query_terms
from .index import Ids, Wanted, any_of, having
from .lineage import Lineage, Session
from .protocol import Pointing
from .schema import PASSAGE_BITS, changes, first_turn, headed, passages_of, said, turns

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
_WHEN = (
    select(turns.c.at)
    .where(turns.c.id.between(bindparam("first"), bindparam("last")))
    .order_by(turns.c.id)
    .limit(1)
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
    return {term: rarity(total, counts[term]) for term in known[:RAREST]}


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
    wanted = query_terms(message)[:TERMS]
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
    return Pointing({**rare, **dict.fromkeys(unknown, rarity(of.turns))}, saying)


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


_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_VERBS = {"march", "may"}
"""Months only with a number, or after a word that says so."""

# A month with its day and year, before or after it; of "may 5:30" no part is a date.
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?\b"
_MONTH_NAMED = re.compile(
    rf"(?i)\b(?:{_DAY} (?:of )?|(in|of|during|since|until|by|last|early|late|mid) )?"
    rf"({'|'.join(_MONTHS)})\b(?! \d{{1,2}}:)(?: {_DAY})?(?:,? (\d{{4}})\b)?"
)
# As the archive writes them, so that models use them too.
_ISO = re.compile(r"\b\d{4}-\d\d(?:-\d\d)?\b")
_YEAR = re.compile(r"(?i)\b(?:in|of|during|since|year) ((?:19|20)\d\d)\b(?!-)")
"""Other numbers of four digits are ports, prices and counts."""


def _dates(query: str, years: Iterable[int]) -> list[str]:
    """Return the beginnings of ISO dates that a query names; without a year, one for each of these.

    >>> _dates("What did James say in April?", [2025, 2026])
    ['2025-04', '2026-04']
    >>> _dates("on 8 May, 2026", [2026]), _dates("you may go on", [2026])
    (['2026-05-08'], [])
    """
    days: list[str] = []
    for named in _MONTH_NAMED.finditer(query):
        before, word, month, after, year = named.groups()
        if month.lower() in _VERBS and not (before or word or after or year):
            continue
        day = f"-{int(before or after):02}" if before or after else ""
        number = _MONTHS.index(month.lower()) + 1
        days += [f"{each}-{number:02}{day}" for each in ([year] if year else years)]
    return list(dict.fromkeys(days + _ISO.findall(query) or _YEAR.findall(query)))


def undated(query: str) -> str:
    """Return a query without its dates: a text of that day need not name it.

    >>> undated("What did James say in April?").split()
    ['What', 'did', 'James', 'say', '?']
    """
    for pattern in (_MONTH_NAMED, _ISO, _YEAR):
        query = pattern.sub(" ", query)
    return query


def dated(seen: Lineage, total: int, query: str) -> list[tuple[int, int]]:
    """Return the first turn of each time that a query names, and the turn after it."""
    if not total or not _dates(query, [1]):
        return []
    before = first_turn(seen.session)
    numbers = range(before + 1, before + total + 1)

    def when(number: int) -> str:
        between = {"first": number, "last": numbers[-1]}
        return seen.connection.execute(_WHEN, between).scalar() or "~"

    years = when(numbers[0])[:4], when(numbers[-1])[:4]
    if not all(map(str.isdecimal, years)):
        return []
    return [
        (
            numbers[0] + bisect_left(numbers, day, key=when),
            numbers[0] + bisect_left(numbers, f"{day}~", key=when),
        )
        for day in _dates(query, range(int(years[0]), int(years[1]) + 1))
    ]
