"""Searching a session: the turns that say a query's rarest terms are read and scored exactly.

No text is read for it, only which passages and headings have which terms. Of a long query the
rarest terms count, so that a hint costs no more for a page than for a sentence or two.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import pairwise
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Select, and_, bindparam, select

from ..blending import blended, likeness
from ..meaning import Meaning, cosines
from ..search import Name, Pairs, Rare, Says, Scores, Topics, Turns, ranked, rarity, score
from ..terms import asked
from .index import Postings, any_of
from .lineage import AMBIENT, Lineage
from .protocol import Found
from .schema import (
    PASSAGE_BITS,
    changes,
    headed,
    heading_vectors,
    members,
    passages_of,
    said,
    turns,
    vectors,
)
from .vectors import near, there, vectors_of

TERMS = 64
"""Terms of a query that are looked up."""

RAREST = 32
"""Of these, the terms that count."""

_ROWS = 10_000
"""Passages that are read of one term, the newest: a term of more tells little of a turn."""

_CANDIDATES = 200
_HEADINGS = 50
_HEADINGS_READ = 2_000
_NEAR = 100


_CHANGED = select(changes.c.id, changes.c.effort, changes.c.branch, changes.c.turn).where(
    any_of(changes.c.id, "ids")
)
_FOUND = select(turns.c.id, turns.c.branch, turns.c.turn, turns.c.efforts).where(
    any_of(turns.c.id, "ids")
)
_SAME = [members.c[name] == turns.c[name] for name in ("session", "branch", "turn")]
_JOINED = (
    select(turns.c.id, turns.c.branch, turns.c.turn, turns.c.size, members.c.effort)
    .join(members, and_(*_SAME))
    .where(members.c.session == bindparam("session"))
)
_IN_EFFORTS = _JOINED.where(any_of(members.c.effort, "efforts"))
_IN_NONE = _JOINED.where(members.c.effort == AMBIENT, any_of(members.c.turn, "numbers"))


@dataclass(frozen=True, slots=True)
class Member:
    """A turn as a member of one effort, or an ambient one: its id, number and size."""

    id: int
    turn: int
    size: int
    effort: str | None


@dataclass(frozen=True, slots=True)
class Nearness:
    """What is near to a query's meaning: turns by id, efforts by name, with their cosines.

    `headings` has the turn of each effort's newest heading.
    """

    meaning: Meaning
    turns: Mapping[int, float]
    efforts: Mapping[str, float]
    headings: Mapping[str, int]


Ids: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Spoken:
    """Which turns say which terms: their ids, ascending, the columns of the terms, how often."""

    turns: Ids
    terms: Ids
    times: Ids

    def says(self, ids: Sequence[int], terms: int) -> Says:
        """Return what turns say by row, of so many terms."""
        known, rows = np.unique(np.array(ids, np.int64), return_inverse=True)
        found = np.zeros((len(known), terms))
        if len(known):
            at = np.minimum(np.searchsorted(known, self.turns), len(known) - 1)
            kept = known[at] == self.turns
            found[at[kept], self.terms[kept]] = self.times[kept]
        return found[rows]


@dataclass(frozen=True, slots=True)
class Query:
    """A query to a session: which of its turns and headings say what.

    `rare` has the terms, the rarest first, which are the columns of `spoken`; `headed` for each the
    turn of the newest visible heading of each effort that says it. `near` is what is near to its
    meaning, if that is known.
    """

    seen: Lineage
    rare: Rare
    spoken: Spoken
    headed: Mapping[str, Mapping[str, int]]
    near: Nearness | None

    @property
    def weights(self) -> NDArray[np.float64]:
        """How rare the terms are."""
        return np.array([*self.rare.values()])

    def headings(self, efforts: Sequence[str]) -> Says:
        """Return what the headings of efforts say."""
        says = [[name in self.headed[term] for term in self.rare] for name in efforts]
        return np.array(says, np.float64).reshape(len(efforts), len(self.rare))

    def saying(self, says: Says) -> list[frozenset[str]]:
        """Return for each row which terms it says."""
        terms = np.array([*self.rare], object)
        return [frozenset(terms[row]) for row in says > 0]


@dataclass(frozen=True, slots=True)
class Ranking:
    """What was scored: the rows, what they and the topics say, and the scores.

    `near` are rows near in meaning.
    """

    rows: Sequence[Member]
    turns: Turns
    topics: Topics
    scores: Scores
    near: frozenset[int] = frozenset()


def search(
    seen: Lineage, owner: int, total: int, query: str, meaning: Meaning | None = None
) -> tuple[Found, ...]:
    """Return the efforts and ambient turns that match a query, best first.

    `owner` is the user's number, `total` counts the turns of the session.
    """
    wanted = asked(query)[:TERMS]
    if not wanted:
        return ()
    asking = _asking(seen, owner, total, wanted, meaning)
    return _found(asking, _ranking(asking))


def turns_found(
    seen: Lineage, owner: int, total: int, query: str, meaning: Meaning | None = None
) -> tuple[int, ...]:
    """Return the visible turns that match a query, best first, whichever effort they belong to."""
    ranking = _ranking(_asking(seen, owner, total, asked(query)[:TERMS], meaning))
    return tuple(dict.fromkeys(ranking.rows[key].turn for key in ranked(ranking.scores.turns)))


def rarest(
    total: int,
    wanted: Sequence[str],
    passages: Mapping[str, Sequence[int]],
    headings: Mapping[str, Sequence[int]],
) -> Rare:
    """Return how rare the terms that count are, the rarest first, among `total` turns."""
    counts = {term: max(len(passages[term]), len(headings[term])) for term in wanted}
    found = sorted((term for term in wanted if counts[term]), key=lambda term: counts[term])
    whole = max(total, 1)
    return {term: rarity(whole, min(whole, counts[term])) for term in found[:RAREST]}


def strengths(saying: Mapping[str, Iterable[Name]], rare: Rare) -> dict[Name, float]:
    """Return how rare the terms are that each one says, given by term who says it."""
    total: dict[Name, float] = {}
    for term, names in saying.items():
        weight = rare[term]
        for name in names:
            total[name] = total.get(name, 0.0) + weight
    return total


def _ranking(asking: Query) -> Ranking:
    rows = _rows(asking)
    scored = _turns(rows, asking)
    topics = _topics(scored, asking)
    scores = score(scored, topics, asking.weights)
    if asking.near is None:
        return Ranking(rows, scored, topics, scores)
    scores, near = _joined(asking, asking.near, rows, scored, scores)
    return Ranking(rows, scored, topics, scores, near)


def _asking(
    seen: Lineage, owner: int, total: int, wanted: Sequence[str], meaning: Meaning | None
) -> Query:
    connection, within = seen.connection, passages_of(seen.session)
    passages = Postings(connection, said, owner).having(wanted, within, _ROWS)
    headings = Postings(connection, headed, owner).having(wanted, within, _HEADINGS_READ)
    rare = rarest(total, wanted, passages, headings)
    return Query(
        seen,
        rare,
        _spoken([passages[term] for term in rare]),
        _headed(seen, {term: headings[term] for term in rare}),
        _nearness(seen, meaning) if meaning else None,
    )


def _spoken(passages: Sequence[Sequence[int]]) -> Spoken:
    """Return which turns say which terms, given the passages that say each."""
    terms = np.repeat(np.arange(len(passages)), [len(ids) for ids in passages])
    found = np.array([number for ids in passages for number in ids], np.int64) >> PASSAGE_BITS
    pairs, times = np.unique(found * TERMS + terms, return_counts=True)
    return Spoken(pairs // TERMS, pairs % TERMS, times)


def _headed(seen: Lineage, found: Mapping[str, Sequence[int]]) -> dict[str, dict[str, int]]:
    ids = {number for numbers in found.values() for number in numbers}
    rows = {row.id: row for row in _changes(seen, ids)} if ids else {}
    newest: dict[str, dict[str, int]] = {}
    for term, numbers in found.items():
        efforts: dict[str, int] = {}
        for row in (rows[number] for number in numbers if number in rows):
            efforts[row.effort] = max(efforts.get(row.effort, 0), row.turn)
        newest[term] = efforts
    return newest


def _changes(seen: Lineage, ids: Iterable[int]) -> list[Any]:
    """Return the visible changes among these."""
    rows = seen.connection.execute(_CHANGED, {"ids": [*ids]})
    return [row for row in rows if seen.sees(row.branch, row.turn)]


def _nearness(seen: Lineage, meaning: Meaning) -> Nearness | None:
    if not there(seen.connection):
        return None
    connection, session = seen.connection, seen.session
    heads = near(connection, heading_vectors, session, meaning)
    said_near = near(connection, vectors, session, meaning)
    if not heads and not said_near:
        return None
    rows = sorted(_changes(seen, heads), key=lambda row: (row.turn, row.id)) if heads else []
    return Nearness(
        meaning,
        said_near,
        {row.effort: heads[row.id] for row in rows},
        {row.effort: row.turn for row in rows},
    )


def _rows(asking: Query) -> list[Member]:
    """Return the turns to be scored: all of the efforts of the best, and around ambient ones."""
    best = _candidates(asking)
    named = [
        name for listed in dict.fromkeys(row.efforts for row in best) for name in json.loads(listed)
    ]
    efforts = list(dict.fromkeys([*named, *_headings(asking)]))
    ambient = (row.turn for row in best if row.efforts == "[]")
    around = {turn + step for turn in ambient for step in (-1, 0, 1)}
    return [*_members(asking.seen, efforts), *_ambient(asking.seen, sorted(around))]


def _candidates(asking: Query) -> list[Any]:
    """Return the best visible turns by the rarity of the terms that they say, and the nearest."""
    spoken = asking.spoken
    said_by, starts = np.unique(spoken.turns, return_index=True)
    strong = np.add.reduceat(asking.weights[spoken.terms], starts) if len(starts) else np.zeros(0)
    order = said_by[np.lexsort((-said_by, -strong))].tolist()
    best = _visible(asking.seen, order, _CANDIDATES)
    if asking.near:
        near = {number: at for number, at in asking.near.turns.items() if at > 0}
        known = {row.id for row in best}
        nearest = nlargest(len(near), near, key=near.__getitem__)
        best += [row for row in _visible(asking.seen, nearest, _NEAR) if row.id not in known]
    return best


def _visible(seen: Lineage, order: Sequence[int], limit: int) -> list[Any]:
    """Return the first `limit` visible turns among these, in their order."""
    found: list[Any] = []
    upto = seen.seen
    for start in range(0, len(order), limit):
        part = order[start : start + limit]
        rows = {row.id: row for row in seen.connection.execute(_FOUND, {"ids": part}).all()}
        listed = (rows[number] for number in part if number in rows)
        found += [row for row in listed if row.turn <= upto.get(row.branch, 0)]
        if len(found) >= limit:
            break
    return found[:limit]


def _headings(asking: Query) -> list[str]:
    """Return the efforts whose headings say most of the query, and are nearest to its meaning."""
    strong = ranked(strengths(asking.headed, asking.rare))[:_HEADINGS]
    near = asking.near.efforts if asking.near else {}
    return [*strong, *nlargest(_HEADINGS, near, key=near.__getitem__)]


def _members(seen: Lineage, efforts: Sequence[str]) -> list[Member]:
    return _of(seen, _IN_EFFORTS, efforts=efforts) if efforts else []


def _ambient(seen: Lineage, numbers: Sequence[int]) -> list[Member]:
    return _of(seen, _IN_NONE, numbers=numbers) if numbers else []


def _of(seen: Lineage, query: Select[Any], **asked: Sequence[Any]) -> list[Member]:
    found = seen.connection.execute(query, {"session": seen.session, **asked}).all()
    upto = seen.seen
    return [
        Member(number, turn, size, None if effort == AMBIENT else effort)
        for number, branch, turn, size, effort in sorted(found, key=itemgetter(4, 2))
        if turn <= upto.get(branch, 0)
    ]


def _turns(rows: Sequence[Member], asking: Query) -> Turns:
    return Turns(
        [row.effort for row in rows],
        _near(rows),
        asking.spoken.says([row.id for row in rows], len(asking.rare)),
        np.array([row.size for row in rows], np.float64),
    )


def _near(rows: Sequence[Member]) -> Pairs:
    """Return which rows are right before or after each other, given in the order of their turns."""
    pairs = [
        (at, at + 1)
        for at, (row, after) in enumerate(pairwise(rows))
        if row.effort == after.effort and row.turn + 1 == after.turn
    ]
    found = np.array(pairs, np.intp).reshape(-1, 2)
    return np.concatenate([found, found[:, ::-1]])


def _topics(scored: Turns, asking: Query) -> Topics:
    """Return the efforts of the turns, and those of the headings, with all that they say."""
    names = list(dict.fromkeys([*_headings(asking), *filter(None, scored.efforts)]))
    at = {name: row for row, name in enumerate(names)}
    rows = [(at[name], row) for row, name in enumerate(scored.efforts) if name is not None]
    topic, turn = np.array(rows, np.intp).reshape(-1, 2).T
    says, lengths = asking.headings(names), np.zeros(len(names))
    np.add.at(says, topic, scored.says[turn])
    np.add.at(lengths, topic, scored.lengths[turn])
    return Topics(names, says, lengths)


def _joined(
    asking: Query,
    near: Nearness,
    rows: Sequence[Member],
    scored: Turns,
    words: Scores,
) -> tuple[Scores, frozenset[int]]:
    """Return the scores by words and by meaning as one, and which rows are as near as the floor.

    What shares no word with the query, and whose cosine is below the floor, has no score.
    """
    meant, floor = near.meaning.vector, near.meaning.floor
    held = vectors_of(asking.seen.connection, [row.id for row in rows], near.meaning)
    named = {name: near.efforts[name] for name in words.efforts if name in near.efforts}
    both = blended(words, likeness(scored, held, named, meant))
    reached = frozenset(key for key, cosine in enumerate(cosines(held, meant)) if cosine >= floor)
    efforts = {name for name, cosine in named.items() if cosine >= floor}
    efforts |= {name for key in reached if (name := scored.efforts[key])}
    alike = {at for at, name in enumerate(scored.efforts) if at in reached or name in efforts}
    kept = Scores(
        _kept(both.turns, words.turns, alike), _kept(both.efforts, words.efforts, efforts)
    )
    return kept, reached


def _kept(
    scores: Mapping[Name, float], words: Mapping[Name, float], alike: set[Name]
) -> dict[Name, float]:
    return {name: at for name, at in scores.items() if words.get(name, 0.0) > 0 or name in alike}


def _found(asking: Query, ranking: Ranking) -> tuple[Found, ...]:
    rows, scores = ranking.rows, ranking.scores.turns
    order = sorted(scores, key=lambda key: (scores[key], rows[key].turn))
    best = {rows[key].effort: rows[key].turn for key in order}
    told = asking.saying(ranking.topics.says)
    efforts = [
        Found(
            effort=name,
            turn=best.get(name) or _heading_turn(asking, name),
            score=ranking.scores.efforts[name],
            said=said_by,
        )
        for name, said_by in zip(ranking.topics.names, told, strict=True)
        if name in ranking.scores.efforts
    ]
    ambient = [
        Found(None, row.turn, scores[key], says)
        for key, (row, says) in enumerate(zip(rows, asking.saying(ranking.turns.says), strict=True))
        if row.effort is None and (says or key in ranking.near)
    ]
    matching = (found for found in (*efforts, *ambient) if found.score > 0)
    return tuple(sorted(matching, key=lambda one: (-one.score, -one.turn, one.effort or "")))


def _heading_turn(asking: Query, name: str) -> int:
    if asking.near and name in asking.near.headings:
        return asking.near.headings[name]
    return max(newest.get(name, 0) for newest in asking.headed.values())
