"""A query: its rare terms, the texts that say them, its dates; and what a message points at."""

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, Self

import numpy as np
from sqlalchemy import bindparam, literal, select, union_all

from ..ranking import Numbers, Passages, Rare, Says, rarity
from ..terms import query_terms
from .index import Ids, any_of, look_up, unpack_layouts
from .lineage import Lineage
from .protocol import Pointing
from .schema import PASSAGE_BITS, changes, turn_id, turns

TERMS = 64
"""Terms of a query that are looked up: a pasted page has hundreds."""

RAREST = 32
"""Of these, the terms that count, so that a page costs no more than a sentence or two."""

TELLING = 100
"""Passages, or headings, that say a term at most if it is to tell what a message points at.

Without a bound the time that a message takes would grow with the session. Of questions to long
conversations 42.6 % have a right hint; with 500, for which five times as much is read, 43.5 %.
"""

_BEST = 100
"""Turns, and headings, that are looked at, those that say most: a bound as `TELLING` is."""

# One statement, as it is sent in every turn.
_TURNS_AND_CHANGES = union_all(
    select(
        *(literal("turn").label("kind"), turns.c.id),
        *(turns.c.run, turns.c.place, turns.c.turn, turns.c.efforts),
    ).where(any_of(turns.c.id, "turns")),
    select(
        *(literal("change"), changes.c.id),
        *(changes.c.run, changes.c.place, changes.c.turn, changes.c.effort),
    ).where(any_of(changes.c.id, "changes")),
)
_TIME = (
    select(turns.c.at)
    .where(turns.c.id.between(bindparam("first"), bindparam("last")))
    .order_by(turns.c.id)
    .limit(1)
)


@dataclass(frozen=True, slots=True, eq=False)
class Occurrences:
    """Pairs of the id of a text (passage, heading, turn) and the column of a term that it says."""

    ids: Ids
    columns: Ids

    @classmethod
    def of(cls, postings: Mapping[str, Sequence[int]], terms: Iterable[str]) -> Self:
        """Return the occurrences of terms in postings: by term ids, those of one turn adjacent."""
        by_column = [postings[term] for term in terms]
        columns = np.repeat(np.arange(len(by_column)), [len(ids) for ids in by_column])
        return cls(np.array([number for ids in by_column for number in ids], np.int64), columns)

    def matrix(self, ids: Ids, terms: int) -> Says:
        """Return a row for each id, a column for each of `terms` terms: 1.0 if it is said."""
        distinct, rows = np.unique(ids, return_inverse=True)
        cells = np.zeros((len(distinct), terms))
        if len(distinct):
            row = np.minimum(np.searchsorted(distinct, self.ids), len(distinct) - 1)
            same = distinct[row] == self.ids
            cells[row[same], self.columns[same]] = 1.0
        return cells[rows]

    def by_turn(self) -> "Occurrences":
        """Return the occurrences in the turns of these passages, each once."""
        turn_ids = self.ids >> PASSAGE_BITS
        first = (np.diff(turn_ids, prepend=-1) != 0) | (np.diff(self.columns, prepend=-1) != 0)
        return Occurrences(turn_ids[first], self.columns[first])

    def strongest(self, rare: Rare) -> list[int]:
        """Return the ids by the sum of the rarities of their terms, of equals the newest first."""
        ids: list[int] = strongest(self.ids, np.array([*rare.values()])[self.columns]).tolist()
        return ids

    def terms_of_best(self, rare: Rare, limit: int) -> dict[int, frozenset[str]]:
        """Return the `limit` strongest ids, each with the terms that it says."""
        best = self.strongest(rare)[:limit]
        matrix = self.matrix(np.array(best, np.int64), len(rare)) > 0
        terms = (frozenset(compress(rare, row)) for row in matrix.tolist())
        return dict(zip(best, terms, strict=True))


def passages_in(
    rows: Sequence[Any],
    topics: Sequence[int],
    numbers: Sequence[int],
    occurrences: Occurrences,
    terms: int,
) -> tuple[Ids, Passages]:
    """Return the ids of the passages of turns, and the passages as they are ranked.

    Each row of a turn comes with its topic and its number. There are `terms` terms; no speaker and
    no date is looked for.
    """
    ids, turn_rows, layouts = unpack_layouts([(row.id, row.passages) for row in rows])
    lengths, user, asks = layouts.T
    return ids, Passages(
        topics=np.array(topics, np.intp)[turn_rows],
        turns=np.array(numbers, np.int64)[turn_rows],
        says=occurrences.matrix(ids, terms),
        lengths=lengths.astype(np.float64),
        user=user > 0,
        asks=asks > 0,
        named=np.zeros(len(ids), np.bool_),
        dated=np.zeros(len(ids), np.bool_),
    )


def rarest(
    total: int,
    terms: Sequence[str],
    passages: Mapping[str, Sequence[int]],
    headings: Mapping[str, Sequence[int]],
) -> Rare:
    """Return how rare the terms that count are, the rarest first, among `total` turns.

    >>> passages = {"port": [1024, 2048], "login": [1024], "zebra": []}
    >>> [*rarest(9, ["port", "zebra", "login"], passages, dict.fromkeys(passages, []))]
    ['login', 'port']
    """
    columns = Occurrences.of(passages, terms).by_turn().columns
    by_turns = np.bincount(columns, minlength=len(terms)).tolist()
    counts = {
        term: max(count, len(headings[term])) for term, count in zip(terms, by_turns, strict=True)
    }
    present = sorted((term for term in terms if counts[term]), key=lambda term: counts[term])
    return {term: rarity(total, counts[term]) for term in present[:RAREST]}


def strongest(ids: Ids, weights: Numbers) -> Ids:
    """Return ids, each once, by the sum of their weights, of equals the newest first.

    >>> strongest(np.array([7, 8, 9, 7]), np.array([1.0, 3.0, 2.0, 1.0])).tolist()
    [8, 9, 7]
    """
    distinct, rows = np.unique(ids, return_inverse=True)
    sums = np.bincount(rows, weights, len(distinct))
    order: Ids = distinct[np.lexsort((-distinct, -sums))]
    return order


def pointing(lineage: Lineage, message: str) -> Pointing:
    """Return how rare a message's telling terms are, and who says which of them; see `Pointing`."""
    terms = query_terms(message)[:TERMS]
    session, limit = lineage.session, TELLING + 1  # one more tells that there are too many
    wanted = (terms, limit)
    passages, headings = look_up(lineage.connection, session.owner, lineage.ranges, wanted, wanted)
    telling = [term for term in terms if max(len(passages[term]), len(headings[term])) < limit]
    rare = rarest(session.turns, telling, passages, headings)
    if not rare:
        return Pointing({}, {})
    in_turns = Occurrences.of(passages, rare).by_turn().terms_of_best(rare, _BEST)
    in_headings = Occurrences.of(headings, rare).terms_of_best(rare, _BEST)
    by_name: dict[str | int, list[frozenset[str]]] = {}
    ids = {"turns": [*in_turns], "changes": [*in_headings]}
    for row in lineage.visible(_TURNS_AND_CHANGES, **ids):
        if row.kind == "change":
            by_name.setdefault(row.efforts, []).append(in_headings[row.id])
            continue
        for name in json.loads(row.efforts) or [row.turn]:  # a turn of no effort by its number
            by_name.setdefault(name, []).append(in_turns[row.id])
    unknown = [term for term in telling if not passages[term] and not headings[term]]
    return Pointing({**rare, **dict.fromkeys(unknown, rarity(session.turns))}, by_name)


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
    """Return the beginnings of ISO dates that a query names; of a month alone one for each year.

    >>> _dates("What did James say in April?", [2025, 2026])
    ['2025-04', '2026-04']
    >>> _dates("on 8 May, 2026", [2026]), _dates("you may go on", [2026])
    (['2026-05-08'], [])
    """
    days: list[str] = []
    for match in _MONTH_NAMED.finditer(query):
        before, word, month, after, year = match.groups()
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


def dated(lineage: Lineage, query: str) -> list[tuple[int, int]]:
    """Return for each date in a query the ids of its first turn and of the first one after it."""
    total = lineage.session.turns
    if not total or not _dates(query, [1]):
        return []
    start = turn_id(lineage.session.id, 1)
    numbers = range(start, start + total)

    def time_of(number: int) -> str:
        bounds = {"first": number, "last": numbers[-1]}
        return lineage.connection.execute(_TIME, bounds).scalar() or "~"

    years = time_of(numbers[0])[:4], time_of(numbers[-1])[:4]
    if not all(map(str.isdecimal, years)):
        return []
    # "~" is higher than what follows in any time that begins with the day.
    return [
        (
            start + bisect_left(numbers, day, key=time_of),
            start + bisect_left(numbers, f"{day}~", key=time_of),
        )
        for day in _dates(query, range(int(years[0]), int(years[1]) + 1))
    ]
