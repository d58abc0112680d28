"""A query to a session: which of its passages and headings say its terms, and of which time.

What a message points at is found here too, without a ranking: each message is asked for it.
"""

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
from sqlalchemy import Row, bindparam, literal, select, union_all

from ..embeddings import QueryEmbedding
from ..ranking import SHORT, Flags, Name, Numbers, Rare, Rows, Says, dates, rarity, undated
from ..terms import asked
from .index import Wanted, any_of, having, laid_out, spoken_by
from .lineage import CHANGES, Lineage, Session
from .protocol import Pointing
from .schema import (
    PASSAGE_BITS,
    changes,
    first_turn,
    headed,
    passages_of,
    said,
    turns,
)
from .vectors import Ids, Nearness, nearness

TERMS = 64
"""Terms of a query that are looked up."""

RAREST = 32
"""Of these, the terms that count."""

_ROWS = 30_000
"""Passages that are read of one term, the newest: a term of more tells little of a turn.

Of 100,000 efforts 95 % are found first, as with all rows; with 10,000 it is 87 %.
"""

_HEADINGS_READ = 2_000
"""Headings that are read of one term, the newest: ten for each of those that are looked up."""

_HEADINGS = 200
"""Headings whose efforts are looked up, those that say most: four for each effort that counts."""

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
    """Which passages say which terms: their ids, the columns of the terms."""

    passages: Ids
    terms: Ids

    def says(self, ids: Ids, terms: int) -> Says:
        """Return which of so many terms passages say, by row."""
        known, rows = np.unique(ids, return_inverse=True)
        shares = np.zeros((len(known), terms))
        if len(known):
            at = np.minimum(np.searchsorted(known, self.passages), len(known) - 1)
            kept = known[at] == self.passages
            shares[at[kept], self.terms[kept]] = 1.0
        return shares[rows]

    def turns(self) -> tuple[Ids, Ids]:
        """Return the turns that say terms, and the columns of these, each pair once."""
        turn = self.passages >> PASSAGE_BITS  # those of one turn, and term, are side by side
        first = (np.diff(turn, prepend=-1) != 0) | (np.diff(self.terms, prepend=-1) != 0)
        return turn[first], self.terms[first]


@dataclass(frozen=True, slots=True)
class Query:
    """A query to a session: which of its passages and headings say what.

    `rare` has the terms, the rarest first, which are the columns of `spoken`; `headed` for each the
    turn of the newest visible heading of each effort that says it. `asked` are the terms that were
    looked up, `unknown` is the weight of those that nobody says, `named` are the passages of
    speakers that the query names, `dated` the first and last turn of each time. `near` is what is
    near to its meaning, if that is known.
    """

    seen: Lineage
    asked: Sequence[str]
    rare: Rare
    unknown: float
    spoken: Spoken
    headed: Mapping[str, Mapping[str, int]]
    named: Ids
    dated: Sequence[tuple[int, int]]
    near: Nearness | None

    @property
    def weights(self) -> Numbers:
        """How rare the terms are."""
        return np.array([*self.rare.values()])

    def headings(self, efforts: Sequence[str]) -> Says:
        """Return what the headings of efforts say."""
        says = [[name in self.headed[term] for term in self.rare] for name in efforts]
        return np.array(says, np.float64).reshape(len(efforts), len(self.rare))

    def saying(self, says: Says) -> list[frozenset[str]]:
        """Return for each row which terms it says."""
        terms, there = [*self.rare], says > 0
        sets: dict[bytes, frozenset[str]] = {}  # most rows say what another one says
        for row in there:
            if (key := row.tobytes()) not in sets:
                sets[key] = frozenset(compress(terms, row))
        return [sets[row.tobytes()] for row in there]

    def in_time(self, ids: Ids) -> Flags:
        """Tell which turns are of the times that the query names."""
        found = np.zeros(len(ids), np.bool_)
        for first, last in self.dated:
            found |= (ids >= first) & (ids < last)
        return found


def looked_up(seen: Lineage, of: Session, query: str, meaning: QueryEmbedding | None) -> Query:
    """Return what says the terms of a query to a session."""
    wanted = asked(query)[:TERMS]
    names = [*map(spoken_by, wanted)]
    everywhere = (
        Wanted(said, [*wanted, *names], _ROWS),
        Wanted(headed, wanted, _HEADINGS_READ),
    )
    within = passages_of(seen.session)
    passages, headings = having(seen.connection, of.owner, within, *everywhere)
    rare = rarest(of.turns, wanted, passages, headings)
    needed = {*asked(undated(query))}.intersection(wanted)
    unknown = sum(not passages[term] and not headings[term] for term in needed)
    # Of a few words one is enough: "authentication problem" is to find `auth-bug`.
    few = len(needed) in SHORT and rare
    each = max(rare.values()) if few else rarity(max(of.turns, 1), 1)
    return Query(
        seen,
        wanted,
        rare,
        unknown * each,
        spoken_in([passages[term] for term in rare]),
        _headed(seen, {term: headings[term] for term in rare}, rare),
        np.array([number for name in names for number in passages[name]], np.int64),
        _dated(seen, of.turns, query),
        nearness(seen, meaning) if meaning else None,
    )


def spread(rows: Sequence[tuple[int, bytes]]) -> tuple[Ids, Rows, Ids]:
    """Return the ids of all passages of some turns, and for each its turn's row and its layout.

    `rows` has the number and the layout of each turn.
    """
    counts = np.array([len(layout) // 2 for _, layout in rows], np.int64)
    first = np.array([turn for turn, _ in rows], np.int64) << PASSAGE_BITS
    place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    at = np.repeat(np.arange(len(rows)), counts)
    return first[at] + place, at, laid_out(layout for _, layout in rows)


def spoken_in(passages: Sequence[Sequence[int]]) -> Spoken:
    """Return which passages say which terms, given the passages that say each."""
    terms = np.repeat(np.arange(len(passages)), [len(ids) for ids in passages])
    return Spoken(np.array([number for ids in passages for number in ids], np.int64), terms)


def _dated(seen: Lineage, total: int, query: str) -> list[tuple[int, int]]:
    """Return the first turn of each time that a query names, and the turn after it."""
    if not dates(query, [1]):
        return []
    turn = range(first_turn(seen.session) + 1, first_turn(seen.session) + total + 1)

    def when(number: int) -> str:
        between = {"first": number, "last": turn[-1]}
        return seen.connection.execute(_WHEN, between).scalar() or "~"

    years = [when(number)[:4] for number in (turn[0], turn[-1])] if turn else []
    if not all(map(str.isdecimal, years)) or not years:
        return []
    named = dates(query, range(int(years[0]), int(years[1]) + 1))
    return [
        (
            turn[0] + bisect_left(turn, day, key=when),
            turn[0] + bisect_left(turn, f"{day}~", key=when),
        )
        for day in named
    ]


def _headed(
    seen: Lineage, postings: Mapping[str, Sequence[int]], rare: Rare
) -> dict[str, dict[str, int]]:
    ids = np.array([number for numbers in postings.values() for number in numbers], np.int64)
    weights = np.repeat([*rare.values()], [len(numbers) for numbers in postings.values()])
    best = strongest(ids, weights)[:_HEADINGS].tolist()
    rows = {row.id: row for row in seen.visible(CHANGES, ids=best)} if best else {}
    newest: dict[str, dict[str, int]] = {}
    for term, numbers in postings.items():
        efforts: dict[str, int] = {}
        for row in (rows[number] for number in numbers if number in rows):
            efforts[row.effort] = max(efforts.get(row.effort, 0), row.turn)
        newest[term] = efforts
    return newest


def rarest(
    total: int,
    wanted: Sequence[str],
    passages: Mapping[str, Sequence[int]],
    headings: Mapping[str, Sequence[int]],
) -> Rare:
    """Return how rare the terms that count are, the rarest first, among `total` turns."""
    _, said_by = spoken_in([passages[term] for term in wanted]).turns()
    turns_of = np.bincount(said_by, minlength=len(wanted)).tolist()
    counts = {
        term: max(count, len(headings[term])) for term, count in zip(wanted, turns_of, strict=True)
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
    found: Ids = known[np.lexsort((-known, -np.bincount(rows, weights, len(known))))]
    return found


def strengths(saying: Mapping[str, Iterable[Name]], rare: Rare) -> dict[Name, float]:
    """Return how rare the terms are that each one says, given by term who says it."""
    total: dict[Name, float] = {}
    for term, names in saying.items():
        weight = rare[term]
        for name in names:
            total[name] = total.get(name, 0.0) + weight
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
    by_turns = spoken_in([spoken[term] for term in rare]).turns()
    by_headings = spoken_in([headings[term] for term in rare])
    at_turns = _strongest(rare, *by_turns)
    at_headings = _strongest(rare, by_headings.passages, by_headings.terms)
    said_by: dict[str | int, list[frozenset[str]]] = {}
    for row in seen.visible(_SAYING, turns=[*at_turns], changes=[*at_headings]):
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
