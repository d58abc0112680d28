"""A query: its rare terms, the texts that say them, its dates; and what a message points at."""

import json
import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import bindparam, literal, select, union_all

from ..ranking import Passages, Rare, rarity
from ..terms import query_terms
from .index import any_of, look_up, unpack_layout
from .lineage import Lineage
from .protocol import Pointing
from .schema import PASSAGE_BITS, changes, passage_id, turn_id, turns

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
_FIRST_TIME = _TIME.where(turns.c.at != "")  # adopted turns may have no time


Said: TypeAlias = Mapping[str, Collection[int]]
"""By term the ids of the texts (passages, headings, turns) that say it."""


def in_turns(passages: Said) -> dict[str, set[int]]:
    """Return by term the turns of the passages that say it."""
    return {term: {number >> PASSAGE_BITS for number in ids} for term, ids in passages.items()}


def terms_of(ids: Sequence[int], said: Said, rare: Rare) -> dict[int, frozenset[str]]:
    """Return for each of these texts the terms that it says."""
    by_term = {term: {*ids}.intersection(said[term]) for term in rare}
    return {number: frozenset(term for term in rare if number in by_term[term]) for number in ids}


def passages_in(
    rows: Sequence[Any], topics: Sequence[int], numbers: Sequence[int], said: Said
) -> tuple[list[int], Passages]:
    """Return the ids of the passages of turns, and the passages as they are ranked.

    Each row of a turn comes with its topic and its number. No speaker and no date is looked for.
    """
    layouts = [unpack_layout(row.passages) for row in rows]
    counts = [len(layout) for layout in layouts]
    ids = [
        number
        for row, count in zip(rows, counts, strict=True)
        for number in range(passage_id(row.id), passage_id(row.id) + count)
    ]
    says: dict[int, dict[str, float]] = {}
    known = {*ids}
    for term, having in said.items():
        for number in known.intersection(having):
            says.setdefault(number, {})[term] = 1.0
    nothing: dict[str, float] = {}
    nowhere = [False] * len(ids)
    return ids, Passages(
        topics=_repeated(topics, counts),
        turns=_repeated(numbers, counts),
        says=[says.get(number, nothing) for number in ids],
        lengths=[length for layout in layouts for length, _, _ in layout],
        user=[user for layout in layouts for _, user, _ in layout],
        asks=[asks for layout in layouts for _, _, asks in layout],
        named=nowhere,
        dated=nowhere,
    )


def _repeated(values: Sequence[int], counts: Sequence[int]) -> list[int]:
    return [value for value, count in zip(values, counts, strict=True) for value in [value] * count]


def rarest(
    total: int, terms: Sequence[str], in_turns: Said, headings: Mapping[str, Sequence[int]]
) -> Rare:
    """Return how rare the terms that count are, the rarest first, among `total` turns.

    >>> turns = {"port": {1, 2}, "login": {1}, "zebra": set()}
    >>> [*rarest(9, ["port", "zebra", "login"], turns, dict.fromkeys(turns, []))]
    ['login', 'port']
    """
    counts = {term: max(len(in_turns[term]), len(headings[term])) for term in terms}
    present = sorted((term for term in terms if counts[term]), key=lambda term: counts[term])
    return {term: rarity(total, counts[term]) for term in present[:RAREST]}


def strongest(said: Said, rare: Rare) -> list[int]:
    """Return ids by the sum of the rarities of their terms, of equals the newest first.

    >>> strongest({"port": [9, 8], "login": [7]}, {"login": 3.0, "port": 1.0})
    [7, 9, 8]
    """
    sums: dict[int, float] = {}
    for term, weight in rare.items():
        known = sums.get
        sums |= {number: known(number, 0.0) + weight for number in said[term]}
    return sorted(sorted(sums, reverse=True), key=sums.__getitem__, reverse=True)


def pointing(lineage: Lineage, message: str) -> Pointing:
    """Return how rare a message's telling terms are, and who says which of them; see `Pointing`."""
    terms = query_terms(message)[:TERMS]
    session, limit = lineage.session, TELLING + 1  # one more tells that there are too many
    wanted = (terms, limit)
    passages, headings = look_up(lineage.connection, session.owner, lineage.ranges, wanted, wanted)
    telling = [term for term in terms if max(len(passages[term]), len(headings[term])) < limit]
    by_turn = in_turns({term: passages[term] for term in telling})
    rare = rarest(session.turns, telling, by_turn, headings)
    if not rare:
        return Pointing({}, {})
    by_turns, by_headings = (
        terms_of(strongest(said, rare)[:_BEST], said, rare) for said in (by_turn, headings)
    )
    by_name: dict[str | int, list[frozenset[str]]] = {}
    ids = {"turns": [*by_turns], "changes": [*by_headings]}
    for row in lineage.visible(_TURNS_AND_CHANGES, **ids):
        if row.kind == "change":
            by_name.setdefault(row.efforts, []).append(by_headings[row.id])
            continue
        for name in json.loads(row.efforts) or [row.turn]:  # a turn of no effort by its number
            by_name.setdefault(name, []).append(by_turns[row.id])
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
        at = lineage.connection.execute(_TIME, bounds).scalar()
        return "~" if at is None else at

    bounds = {"first": numbers[0], "last": numbers[-1]}
    earliest = lineage.connection.execute(_FIRST_TIME, bounds).scalar() or ""
    years = earliest[:4], time_of(numbers[-1])[:4]
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
