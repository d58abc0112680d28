"""Search a session: read which passages and headings have a query's rarest terms, and score them.

No text is read for it. Of a long query only the rarest terms count, so that a page of text costs no
more than a sentence or two.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import compress
from operator import attrgetter
from typing import Any

import numpy as np
from sqlalchemy import and_, func, select

from ..embeddings import QueryEmbedding
from ..ranking import (
    SHORT,
    Flags,
    Numbers,
    Passages,
    Rare,
    Says,
    Scores,
    Topics,
    rarity,
    score,
)
from ..terms import query_terms
from .index import SPEAKER, Ids, any_of, look_up
from .lineage import AMBIENT, CHANGES, Lineage
from .protocol import Found
from .query import TERMS, Occurrences, dated, passages_in, rarest, strongest, undated
from .schema import PASSAGE_BITS, members, turns
from .vectors import MOST, Nearness

_PASSAGES_READ = 30_000
"""Newest passages that are read of one term: a term that more of them say tells little of a turn.

Of 100,000 efforts 95 % are found first, as with all rows; with 10,000 it is 87 %.
"""

_HEADINGS_READ = 2_000
"""Newest headings that are read of one term: ten for each of those that are looked up."""

_HEADINGS_LOOKED_UP = 200
"""Headings whose efforts are looked up, those that say most: four for each effort that counts."""

_CANDIDATES = 100
"""Turns by their words that are ranked with windows and headings.

Twenty for each result of the default `search_limit`, which the constants below refer to too.
"""

_HEADINGS = 50
"""Efforts by their headings that are ranked too: ten for each result."""

_NEAR = 50
"""Turns by their meaning that are ranked too: ten for each result."""

_DATED = 2.0
"""What a date weighs among candidates, as a term that 13 % of the turns say."""

_MOST = 200
"""Passages, and efforts, that are returned at most: forty for each result."""

_LONG = 500
"""Turns from which on an effort is scored by those around the best alone, not by all it says."""

_AROUND = range(-2, 3)
"""Steps to the turns around one: a passage's window, two passages each way, reaches no further."""

_TURN = (turns.c.id, turns.c.run, turns.c.place, turns.c.turn)
_CANDIDATE = select(*_TURN, turns.c.efforts).where(any_of(turns.c.id, "ids"))
# SQLite may not conclude that the turns are of these runs, too: it would read all of theirs first.
_SAME_TURN = (turns.c.run == members.c.run + 0, turns.c.turn == members.c.turn)
_OF_EFFORTS = (any_of(members.c.run, "runs"), any_of(members.c.effort, "efforts"))
_IN_EFFORTS = (
    select(*_TURN, turns.c.passages, members.c.effort)
    .join(members, and_(*_SAME_TURN))
    .where(*_OF_EFFORTS)
)
_IN_PARTS = _IN_EFFORTS.where(any_of(members.c.turn, "numbers"))
_TURNS_OF_EFFORTS = (
    select(members.c.effort, func.count()).where(*_OF_EFFORTS).group_by(members.c.effort)
)


@dataclass(frozen=True, slots=True)
class _Query:
    """A query with what the index has of it in one session.

    `length` is how many terms the query has. `rare` has those that count, the rarest first: the
    columns of `occurrences`. `headings` has for each of them the efforts whose visible headings say
    it, with the turn of the newest heading. `unknown` is the weight of the terms that no text says,
    `by_speakers` has the ids of passages of speakers whom the query names, `periods` the ids of the
    first turn of each date and of the one after its last. `near` is None without vectors.
    """

    lineage: Lineage
    length: int
    rare: Rare
    unknown: float
    occurrences: Occurrences
    headings: Mapping[str, Mapping[str, int]]
    by_speakers: Ids
    periods: Sequence[tuple[int, int]]
    near: Nearness | None

    @property
    def weights(self) -> Numbers:
        """How rare the terms are."""
        return np.array([*self.rare.values()])

    def terms_in(self, says: Says) -> list[frozenset[str]]:
        """Return for each row the terms that it says."""
        return [frozenset(compress(self.rare, row)) for row in (says > 0).tolist()]

    def in_periods(self, turn_ids: Ids) -> Flags:
        """Tell which turns are of the dates that the query names."""
        flags = np.zeros(len(turn_ids), np.bool_)
        for first, end in self.periods:
            flags |= (turn_ids >= first) & (turn_ids < end)
        return flags

    def heading_turn(self, effort: str) -> int:
        """Return the turn of the newest heading that was found of an effort, 0 for none."""
        if self.near and effort in self.near.headings:
            return self.near.headings[effort]
        return max((newest.get(effort, 0) for newest in self.headings.values()), default=0)


@dataclass(frozen=True, slots=True, eq=False)
class _Ranking:
    """Scored passages, by row with their ids, and scored efforts.

    `near` tells which passages are near in meaning.
    """

    ids: Ids
    passages: Passages
    topics: Topics
    scores: Scores
    near: Flags


def search(lineage: Lineage, query: str, meaning: QueryEmbedding | None) -> tuple[Found, ...]:
    """Return the passages that match a query, best first, and efforts by their headings alone."""
    if not query_terms(query):
        return ()
    looked_up = _look_up(lineage, query, meaning)
    ranking = _rank_by_words(looked_up)
    if looked_up.near is not None:
        ranking = _blend(looked_up, looked_up.near, ranking)
    return _hits(looked_up, ranking)


def _look_up(lineage: Lineage, query: str, meaning: QueryEmbedding | None) -> _Query:
    """Ask the index which passages and headings have the terms of a query."""
    terms, session = query_terms(query)[:TERMS], lineage.session
    speakers = [SPEAKER + term for term in terms]
    passages, headings = look_up(
        lineage.connection,
        session.owner,
        lineage.ranges,
        ([*terms, *speakers], _PASSAGES_READ),
        (terms, _HEADINGS_READ),
    )
    rare = rarest(session.turns, terms, passages, headings)
    required = {*query_terms(undated(query))}.intersection(terms)
    unknown = sum(not passages[term] and not headings[term] for term in required)
    # Of a short query one term is enough: "authentication problem" is to find `auth-bug`.
    short = len(required) in SHORT and rare
    weight = max(rare.values()) if short else rarity(session.turns)
    return _Query(
        lineage,
        len(terms),
        rare,
        unknown * weight,
        Occurrences.of(passages, rare),
        _efforts_by_term(lineage, headings, rare),
        Occurrences.of(passages, speakers).ids,
        dated(lineage, query),
        Nearness.of(lineage, meaning) if meaning else None,
    )


def _efforts_by_term(
    lineage: Lineage, headings: Mapping[str, Sequence[int]], rare: Rare
) -> dict[str, dict[str, int]]:
    """Return by term the efforts whose headings say it, each with the turn of the newest."""
    best = Occurrences.of(headings, rare).strongest(rare)[:_HEADINGS_LOOKED_UP]
    rows = {row.id: row for row in lineage.visible(CHANGES, ids=best)} if best else {}
    newest: dict[str, dict[str, int]] = {}
    for term in rare:
        efforts = newest.setdefault(term, {})
        for row in (rows[number] for number in headings[term] if number in rows):
            efforts[row.effort] = max(efforts.get(row.effort, 0), row.turn)
    return newest


def _rank_by_words(query: _Query) -> _Ranking:
    """Score the passages of the best turns, and the efforts by headings and all that they say."""
    strengths: dict[str, float] = defaultdict(float)
    for term, newest in query.headings.items():
        for name in newest:
            strengths[name] += query.rare[term]
    near = query.near.efforts if query.near else {}
    efforts = [
        *nlargest(_HEADINGS, strengths, key=strengths.__getitem__),
        *nlargest(_HEADINGS, near, key=near.__getitem__),
    ]
    rows = _turns_to_score(query, efforts)
    in_turns = (row.effort for row in rows if row.effort != AMBIENT)
    names = list(dict.fromkeys([*efforts, *in_turns]))
    ids, passages = _passages(rows, names, query)
    headings = [[name in query.headings[term] for term in query.rare] for name in names]
    of_headings = np.array(headings, np.float64).reshape(len(names), len(query.rare))
    of_effort = passages.topics >= 0
    counted, lengths = of_headings.copy(), np.zeros(len(names))
    np.add.at(counted, passages.topics[of_effort], passages.counted[of_effort])
    np.add.at(lengths, passages.topics[of_effort], passages.lengths[of_effort])
    topics = Topics(names, of_headings, counted, lengths)
    scores = score(passages, topics, query.weights, query.length)
    if not scores.suffice(passages, topics, query.weights, query.unknown):
        scores = Scores(np.zeros(len(ids)), np.zeros(len(names)))
    return _Ranking(ids, passages, topics, scores, np.zeros(len(ids), np.bool_))


def _turns_to_score(query: _Query, headings: Sequence[str]) -> list[Any]:
    """Return the turns of the best efforts, those named `headings` too, by effort and turn.

    Of long efforts and of no effort, only the best turns and those around them.
    """
    lineage = query.lineage
    efforts_of = {row.turn: json.loads(row.efforts) for row in _candidates(query)}
    in_turns = (name for names in efforts_of.values() for name in names)
    efforts = list(dict.fromkeys([*in_turns, *headings]))
    long: set[str] = set()
    if efforts and lineage.snapshot.until >= _LONG:
        bound = {"runs": [segment.run for segment in lineage.segments], "efforts": efforts}
        counts = lineage.connection.execute(_TURNS_OF_EFFORTS, bound)
        long = {name for name, count in counts if count >= _LONG}
    centres = [turn for turn, names in efforts_of.items() if not names or long.intersection(names)]
    around = sorted({turn + step for turn in centres for step in _AROUND})
    short = [name for name in efforts if name not in long]
    parts = {"efforts": [*long, AMBIENT], "numbers": around}
    order = attrgetter("effort", "turn")
    return [
        *sorted(lineage.visible(_IN_EFFORTS, efforts=short) if short else (), key=order),
        *sorted(lineage.visible(_IN_PARTS, **parts) if around else (), key=order),
    ]


def _candidates(query: _Query) -> list[Any]:
    """Return the best visible turns by the rarity of the terms that they say, and the nearest."""
    in_turns = query.occurrences.by_turn()
    dated_ids = np.unique(in_turns.ids[query.in_periods(in_turns.ids)])
    weights = np.concatenate([query.weights[in_turns.columns], np.full(len(dated_ids), _DATED)])
    order = strongest(np.concatenate([in_turns.ids, dated_ids]), weights).tolist()
    best = _visible(query.lineage, order, _CANDIDATES)
    if query.near:
        passages = query.near.passages.best(MOST, 0.0)
        nearest = dict.fromkeys(passage >> PASSAGE_BITS for passage in passages)
        near = _visible(query.lineage, [*nearest], _NEAR)
        best = [*{row.id: row for row in (*best, *near)}.values()]
    return best


def _visible(lineage: Lineage, order: Sequence[int], limit: int) -> list[Any]:
    """Return the first `limit` visible turns among these, in their order."""
    first: list[Any] = []
    for start in range(0, len(order), limit):
        part = order[start : start + limit]
        rows = {row.id: row for row in lineage.visible(_CANDIDATE, ids=part)}
        first += [rows[number] for number in part if number in rows]
        if len(first) >= limit:
            break
    return first[:limit]


def _passages(rows: Sequence[Any], names: Sequence[str], query: _Query) -> tuple[Ids, Passages]:
    """Return the ids of the passages of turns, and the passages as they are ranked."""
    row_of = {name: row for row, name in enumerate(names)}
    topics, numbers = [row_of.get(row.effort, -1) for row in rows], [row.turn for row in rows]
    ids, passages = passages_in(rows, topics, numbers, query.occurrences, len(query.rare))
    named, in_periods = np.isin(ids, query.by_speakers), query.in_periods(ids >> PASSAGE_BITS)
    return ids, replace(passages, named=named, dated=in_periods)


def _blend(query: _Query, near: Nearness, ranking: _Ranking) -> _Ranking:
    """Return the ranking by words and by meaning as one.

    What shares no word with the query, and whose cosine is below the floor, has no score.
    """
    passages, topics, words = ranking.passages, ranking.topics, ranking.scores
    floor = near.meaning.floor
    cosines = near.cosines(query.lineage, ranking.ids)
    heading_cosines = np.array([near.efforts.get(name, 0.0) for name in topics.names])
    both = words.blended(passages.similarity(cosines, heading_cosines))
    near_passages = np.nan_to_num(cosines, nan=-1.0) >= floor
    of_effort = passages.topics >= 0
    near_efforts = heading_cosines >= floor
    near_efforts[passages.topics[of_effort & near_passages]] = True
    near_in_any_way = near_passages.copy()
    near_in_any_way[of_effort] |= near_efforts[passages.topics[of_effort]]
    scores = Scores(
        np.where((words.passages > 0) | near_in_any_way, both.passages, 0.0),
        np.where((words.topics > 0) | near_efforts, both.topics, 0.0),
    )
    return replace(ranking, scores=scores, near=near_passages)


def _hits(query: _Query, ranking: _Ranking) -> tuple[Found, ...]:
    """Return the best passages; the best one of an effort has the score of the effort."""
    passages, topics, scores = ranking.passages, ranking.topics, ranking.scores
    order = np.lexsort((ranking.ids, -passages.turns, -scores.passages))[:_MOST]
    order = order[scores.passages[order] > 0]
    ambient = _terms_of_ambient(query, passages, order)
    terms = query.terms_in(topics.says)
    best = np.argsort(-scores.topics, kind="stable")[:_MOST].tolist()
    unplaced = {row: topics.names[row] for row in best if scores.topics[row] > 0}
    hits: list[Found] = []
    for row in order.tolist():
        topic, turn = int(passages.topics[row]), int(passages.turns[row])
        points = scores.passages[row]
        place = int(ranking.ids[row]) & ((1 << PASSAGE_BITS) - 1)
        by_neighbours = not (ranking.near[row] or passages.says[row].any())
        passage = place, bool(passages.user[row]), by_neighbours
        if topic >= 0:
            points = scores.topics[topic] if unplaced.pop(topic, None) else points
            hits.append(Found(topics.names[topic], turn, float(points), terms[topic], *passage))
        elif ambient[turn] or ranking.near[row]:
            hits.append(Found(None, turn, float(points), ambient[turn], *passage))
    hits += [
        Found(name, turn, float(scores.topics[row]), terms[row])
        for row, name in unplaced.items()
        if (turn := query.heading_turn(name))
    ]
    return tuple(sorted(hits, key=lambda hit: (-hit.score, -hit.turn, hit.effort or "")))


def _terms_of_ambient(query: _Query, passages: Passages, rows: Ids) -> dict[int, frozenset[str]]:
    """Return which terms the ambient turns of these rows say."""
    numbers = np.unique(passages.turns[rows][passages.topics[rows] < 0])
    ambient = (passages.topics < 0) & np.isin(passages.turns, numbers)
    counts = np.zeros((len(numbers), len(query.rare)))
    np.add.at(counts, np.searchsorted(numbers, passages.turns[ambient]), passages.says[ambient])
    return dict(zip(numbers.tolist(), query.terms_in(counts), strict=True))
