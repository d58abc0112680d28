"""A query: its rare terms, the texts that say them, its dates; and what a message points at."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import chain
from math import fsum
from typing import Any, TypeAlias

from sqlalchemy import Connection, bindparam, func, literal, or_, select, union_all

from ..dates import When, dates
from ..search.ranking import Rare, rarity
from ..search.terms import other_stems, query_terms
from ..serialised import clean
from ..turn import StoredTurn
from .branches import Branch, Branches
from .database import again_if_lost
from .index import any_of, look_up, unpack_layout
from .load import STORED_TURN, Past
from .rows import turn_of
from .schema import PASSAGE_BITS, TURN_BITS, changes, passage_id, sessions, turns

WEAK = 3
"""Passages at most of a query of which they say next to nothing: a hint, and often chance."""

TERMS = 256
"""Terms of a query that are looked up, half of them from its end: a pasted page has hundreds."""


def at_most(terms: Sequence[str]) -> list[str]:
    """Return as many terms of a query as are looked up: the telling line of a trace is its last."""
    if len(terms) <= TERMS:
        return [*terms]
    return [*terms[: TERMS // 2], *terms[-TERMS // 2 :]]


RAREST = 32
"""Of these, the terms that count, so that a page costs no more than a sentence or two."""

TELLING = 100
"""Passages, or headings, that say a term at most if it is to tell what a message points at.

Without a bound the time that a message takes would grow with the session. Of questions to long
conversations 42.6 % have a right hint; with 500, for which five times as much is read, 43.5 %.
"""

_BEST = 100
"""Turns, and headings, that are looked at, those that say most: a bound as `TELLING` is."""

_FEW_TURNS, _FEW = 3, 0.02
"""Turns, and their share of a session, that say a term at most if it alone is enough to be found.

What is said with a rare word is found, whatever else the query says.
"""


def few(total: int) -> int:
    """Return how many of `total` turns say a rare term at most.

    >>> few(20), few(1_000)
    (3, 20)
    """
    return max(_FEW_TURNS, int(_FEW * total))


_DAYS = 50
"""Turns of a date that are shown of a query which names it, and nothing that was said then."""

_first, _newest = turns.alias(), turns.alias()
_FIRST_TIME = (
    select(_first.c.at)
    .where(_first.c.id > sessions.c.id * (1 << TURN_BITS), _first.c.id <= sessions.c.newest)
    .where(_first.c.at != "")  # adopted turns may have no time
    .order_by(_first.c.id)
    .limit(1)
    .scalar_subquery()
)
# The own sessions, and those of a user.
_SEARCHED = (
    or_(
        any_of(sessions.c.id, "own"),
        (sessions.c.owner == bindparam("user")) & ~sessions.c.hidden,
    ),
    _newest.c.id == sessions.c.newest,
)
_YEARS = select(func.min(_FIRST_TIME), func.max(_newest.c.at)).where(*_SEARCHED)
_OF_DAYS = (
    select(
        *(turns.c.id, turns.c.run, turns.c.place, turns.c.turn),
        *(turns.c.at, turns.c.efforts, turns.c.passages),
    )
    .where(*_SEARCHED, _newest.c.at >= bindparam("since"), bindparam("until") > _FIRST_TIME)
    .where(turns.c.id > sessions.c.id * (1 << TURN_BITS), turns.c.id <= sessions.c.newest)
    .where(turns.c.at >= bindparam("since"), turns.c.at < bindparam("until"))
    .order_by(turns.c.at, turns.c.id)
    .limit(_DAYS)
)
_STORED_TURNS = select(*STORED_TURN).where(any_of(turns.c.id, "ids"))
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


@dataclass(frozen=True, slots=True)
class Found:
    """A passage that matches a query.

    Attributes:
        effort: Its effort, None for an ambient turn.
        turn: Its turn.
        score: Its rank. Scores of two searches cannot be compared.
        said: Terms of the query in the effort or the ambient turn.
        passage: Its number in the turn, None if only the heading of the effort matches.
        user: Whether the user wrote it.
        near: Whether only its neighbours or its effort match.
        weak: Whether it contains little of the query.
        at: The time of its turn.
        branch: The branch of another session of the user that it is of.
        id: That of the passage, or of the heading.
        alike: Whether only its meaning is near the query's, which counts as weak, but has its rank.
        newest_with: The terms that it shares with the best passage, if it may be a newer statement,
            or an older one, of the same.
    """

    effort: str | None
    turn: int
    score: float
    said: frozenset[str] = frozenset()
    passage: int | None = None
    user: bool = False
    near: bool = False
    weak: bool = False
    at: str = ""
    branch: Branch | None = None
    id: int = 0
    alike: bool = False
    newest_with: tuple[str, ...] = ()

    @property
    def is_said(self) -> bool:
        """Whether a passage itself says enough of the query."""
        return self.passage is not None and not self.near and not self.weak

    @property
    def place(self) -> tuple[Branch | None, int, int | None]:
        """Its branch, turn and number."""
        return self.branch, self.turn, self.passage

    def order(self) -> tuple[bool, float]:
        """Return what results are sorted by: weak ones last, the best first."""
        return self.weak, -self.score


@dataclass(frozen=True, slots=True)
class Pointing:
    """The terms of a message that few passages contain, each with its rarity (`rare`).

    `said` has for an effort or ambient turn the set of these terms in each of its turns and
    headings.
    """

    rare: Mapping[str, float]
    said: Mapping[str | int, Sequence[frozenset[str]]]


Said: TypeAlias = Mapping[str, Collection[int]]
"""By term the ids of the texts (passages, headings, turns) that say it."""


def said_in(
    place: tuple[Connection, int, Sequence[tuple[int, int]]],
    query: str,
    terms: Sequence[str],
    limits: tuple[int, int],
    language: str = "",
) -> list[dict[str, list[int]]]:
    """Look up terms of a query, in passages and in headings, with other stems that its words have.

    `place` is as `look_up` takes it. Of a long query only its own terms are looked up. `language`
    is the one that is set.
    """
    stems = other_stems(query, language) if len(terms) <= RAREST else {}
    others = {term: more for term, more in stems.items() if term in {*terms}}
    asked = list(dict.fromkeys([*terms, *chain.from_iterable(others.values())]))
    found = look_up(*place, *((asked, limit) for limit in limits))
    for said in found:
        for term, more in others.items():
            if instead := set[int]().union(*(said[other] for other in more)):
                said[term] = sorted(instead.union(said[term]), reverse=True)
    return found


def in_turns(passages: Said) -> dict[str, set[int]]:
    """Return by term the turns of the passages that say it."""
    return {term: {number >> PASSAGE_BITS for number in ids} for term, ids in passages.items()}


def terms_of(ids: Sequence[int], said: Said, rare: Rare) -> dict[int, frozenset[str]]:
    """Return for each of these texts the terms that it says."""
    by_term = {term: {*ids}.intersection(said[term]) for term in rare}
    return {number: frozenset(term for term in rare if number in by_term[term]) for number in ids}


def rarest(
    total: int, terms: Sequence[str], in_turns: Said, headings: Mapping[str, Sequence[int]]
) -> Rare:
    """Return how rare the terms that count are, the rarest first, among `total` turns.

    Of equals words come before numbers: a trace has hundreds of lines and one error.

    >>> turns = {"port": {1, 2}, "login": {1}, "zebra": set()}
    >>> [*rarest(9, ["port", "zebra", "login"], turns, dict.fromkeys(turns, []))]
    ['login', 'port']
    """
    counts = {term: max(len(in_turns[term]), len(headings[term])) for term in terms}
    present = sorted(
        (term for term in terms if counts[term]), key=lambda term: (counts[term], term.isdigit())
    )
    return {term: rarity(total, counts[term]) for term in present[:RAREST]}


_ROUNDING = 1e-9  # more than sums of rarities in another order differ by


def strongest(said: Said, rare: Rare, most: int) -> list[int]:
    """Return the `most` ids with the largest sums of their terms' rarities, of equals the newest.

    What has only terms that weigh too little to be among them is not gone through.

    >>> strongest({"port": [9, 8], "login": [7]}, {"login": 3.0, "port": 1.0}, 3)
    [7, 9, 8]
    >>> strongest({"port": [9, 8], "login": [7]}, {"login": 3.0, "port": 1.0}, 1)
    [7]
    """
    having = {
        term: ids if isinstance(ids, AbstractSet) else {*ids}
        for term, ids in said.items()
        if term in rare
    }
    sums: dict[int, float] = {}
    left, bound = fsum(rare.values()), 0.0
    for heaviest in sorted(rare, key=rare.__getitem__, reverse=True):
        if len(sums) >= most:
            bound = nlargest(most, sums.values())[-1]
            if bound > left + _ROUNDING:
                break
        new = having[heaviest] - sums.keys()
        sums |= dict.fromkeys(new, 0.0)
        for term, weight in rare.items():
            for number in new & having[term]:
                sums[number] += weight
        left -= rare[heaviest]
    first = sorted((number for number, weight in sums.items() if weight >= bound), reverse=True)
    return sorted(first, key=sums.__getitem__, reverse=True)[:most]


def unsaid(branches: Branches, terms: Sequence[str]) -> frozenset[str]:
    """Return which of these terms no text of the searched sessions has."""

    def read() -> frozenset[str]:
        wanted = terms, 1
        with branches.past.connect() as connection:
            ranges = [*branches.past.ranges, *branches.others]
            said, headed = look_up(connection, branches.user, ranges, wanted, wanted)
        return frozenset(term for term in terms if not said[term] and not headed[term])

    return again_if_lost(read)


def pointing(past: Past, message: str) -> Pointing:
    """Return where the rare terms of a message occur, in up to 100 turns and 100 headings."""

    def read() -> Pointing:
        with past.parsing(), past.connect():
            return _pointing(past, clean(message))

    if not past.effort_count():  # only efforts are hinted at, and referred to
        return Pointing({}, {})
    # Hints and references ask about the same message.
    return past.cached("pointing", (past.session.turns, message), lambda: again_if_lost(read))


def _pointing(past: Past, message: str) -> Pointing:
    terms = at_most(query_terms(message))
    session, limit = past.session, TELLING + 1  # one more tells that there are too many
    wanted = (terms, limit)
    with past.connect() as connection:
        passages, headings = look_up(connection, session.user, past.ranges, wanted, wanted)
    telling = [term for term in terms if max(len(passages[term]), len(headings[term])) < limit]
    by_turn = in_turns({term: passages[term] for term in telling})
    rare = rarest(session.turns, telling, by_turn, headings)
    if not rare:
        return Pointing({}, {})
    by_turns, by_headings = (
        terms_of(strongest(said, rare, _BEST), said, rare) for said in (by_turn, headings)
    )
    by_name: dict[str | int, list[frozenset[str]]] = {}
    ids = {"turns": [*by_turns], "changes": [*by_headings]}
    for row in past.visible(_TURNS_AND_CHANGES, **ids):
        if row.kind == "change":
            by_name.setdefault(row.efforts, []).append(by_headings[row.id])
            continue
        for name in json.loads(row.efforts) or [row.turn]:  # a turn of no effort by its number
            by_name.setdefault(name, []).append(by_turns[row.id])
    unknown = [term for term in telling if not passages[term] and not headings[term]]
    return Pointing({**rare, **dict.fromkeys(unknown, rarity(session.turns))}, by_name)


def dated(branches: Branches, query: str, when: When) -> list[tuple[str, str]]:
    """Return for each date in a query the times at which it begins and ends."""
    if not branches.total or not dates(query, today=when.today):
        return []
    first, last = tuple(branches.past.rows(_YEARS, **_searched(branches))[0])
    years = (first or last or "")[:4], (last or "")[:4]
    if not all(map(str.isdecimal, years)):
        return []
    named = dates(query, range(int(years[0]), int(years[1]) + 1), when.today)
    return [when.times(days) for days in named]


def of_dates(branches: Branches, query: str, when: When, *, weak: bool) -> tuple[Found, ...]:
    """Return the passages of the first turns of the dates in a query, in their order."""
    hits: list[Found] = []
    for since, until in dated(branches, query, when):
        bounds = {"since": max(since, when.since), "until": min(until, when.until or until)}
        rows = branches.past.rows(_OF_DAYS, **bounds, **_searched(branches))
        branches.read_those_of(row.id for row in rows)
        for at, row in branches.seen(rows):
            said = passages_of_turn(branches, at, row)
            hits += [replace(hit, score=1.0, weak=weak) for hit, _ in said]
    return tuple(hits)


def passages_of_turn(branches: Branches, at: int, row: Any) -> Iterator[tuple[Found, bool]]:
    """Yield the passages of a turn of branch `at`, each with whether it only asks.

    An effort that is open in another session is none.
    """
    branch, efforts = branches.read[at], json.loads(row.efforts)
    known = branches.concluded((at, name) for name in efforts)
    name = next((one for one in efforts if not branch or (at, one) in known), None)
    for place, (_, user, asks) in enumerate(unpack_layout(row.passages)):
        found = Found(name, row.turn, 0.0, passage=place, user=user, at=row.at, branch=branch)
        yield replace(found, id=passage_id(row.id, place)), asks


def turns_of(past: Past, hits: Sequence[Found]) -> dict[tuple[Branch | None, int], StoredTurn]:
    """Return the turns of hits by branch and number, those of all other branches read at once."""
    own = {hit.turn for hit in hits if not hit.branch}
    found: dict[tuple[Branch | None, int], StoredTurn]
    found = {(None, turn.number): turn for turn in past.turns([*own])}
    others = {hit.id >> PASSAGE_BITS: hit.branch for hit in hits if hit.branch}
    with past.parsing():
        for row in past.rows(_STORED_TURNS, ids=[*others]) if others else ():
            found[others[row.id], row.turn] = turn_of(row)
    return found


def _searched(branches: Branches) -> dict[str, Any]:
    return {"own": branches.past.sessions, "user": branches.user if branches.others else -1}
