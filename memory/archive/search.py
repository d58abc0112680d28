"""Searching a session: the passages that say a query's rarest terms are read and scored exactly.

No text is read for it, only which passages and headings have which terms. Of a long query the
rarest terms count, so that a page costs no more than a sentence or two.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import compress
from operator import attrgetter
from typing import Any

import numpy as np
from sqlalchemy import and_, bindparam, func, select

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
    ranked,
    rarity,
    score,
)
from ..terms import query_terms
from .index import SPEAKER, Ids, Wanted, any_of, having, spread
from .lineage import AMBIENT, CHANGES, Lineage, Session
from .protocol import Found
from .query import TERMS, Spoken, dated, rarest, strengths, strongest, undated
from .schema import (
    PASSAGE_BITS,
    headed,
    members,
    passages_of,
    said,
    turn_of,
    turns,
)
from .vectors import MOST, Nearness

_ROWS = 30_000
"""Passages that are read of one term, the newest: a term of more tells little of a turn.

Of 100,000 efforts 95 % are found first, as with all rows; with 10,000 it is 87 %.
"""

_HEADINGS_READ = 2_000
"""Headings that are read of one term, the newest: ten for each of those that are looked up."""

_HEADINGS_LOOKED_UP = 200
"""Headings whose efforts are looked up, those that say most: four for each effort that counts."""

_CANDIDATES = 100
"""Turns by their words that are ranked with windows and headings: twenty for each result."""

_HEADINGS = 50
"""Efforts by their headings that are ranked too: ten for each result."""

_NEAR = 50
"""Turns by their meaning that are ranked too: ten for each result."""

_DATED = 2.0
"""What a date weighs among candidates, as a term that 13 % of the turns say."""

_MOST = 200
"""Passages that are found at most."""

_LONG = 500
"""Turns from which on an effort is scored by those around the best alone, not by all it says."""

_AROUND = range(-2, 3)
"""The turns around one: the two passages on each side that are its window reach no further."""

_CANDIDATE = select(turns.c.id, turns.c.branch, turns.c.turn, turns.c.efforts).where(
    any_of(turns.c.id, "ids")
)
_SAME = [members.c[name] == turns.c[name] for name in ("session", "branch", "turn")]
_IN_EFFORTS = (
    select(turns.c.id, turns.c.branch, turns.c.turn, turns.c.passages, members.c.effort)
    .join(members, and_(*_SAME))
    .where(members.c.session == bindparam("session"), any_of(members.c.effort, "efforts"))
)
_IN_PARTS = _IN_EFFORTS.where(
    any_of(members.c.branch, "branches"), any_of(members.c.turn, "numbers")
)
_COUNTED = (
    select(members.c.effort, func.count())
    .where(members.c.session == bindparam("session"), any_of(members.c.effort, "efforts"))
    .group_by(members.c.effort)
)


@dataclass(frozen=True, slots=True)
class _Query:
    """A query to a session: which of its passages and headings say what.

    `rare` has the terms, the rarest first, which are the columns of `spoken`; `headed` for each the
    turn of the newest visible heading of each effort that says it. `unknown` is the weight of the
    terms that nobody says, `named` are the passages of speakers that the query names, `dated` the
    first and last turn of each time. `near` is what is near to its meaning, if that is known.
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

    def saying(self, says: Says) -> list[frozenset[str]]:
        """Return for each row which terms it says."""
        terms, rows = [*self.rare], says > 0
        sets: dict[bytes, frozenset[str]] = {}  # most rows say what another one says
        for row in rows:
            if (key := row.tobytes()) not in sets:
                sets[key] = frozenset(compress(terms, row))
        return [sets[row.tobytes()] for row in rows]

    def in_time(self, ids: Ids) -> Flags:
        """Tell which turns are of the times that the query names."""
        within = np.zeros(len(ids), np.bool_)
        for first, last in self.dated:
            within |= (ids >= first) & (ids < last)
        return within

    def heading_turn(self, name: str) -> int:
        """Return the turn of the newest heading that was found of an effort, 0 for none."""
        if self.near and name in self.near.headings:
            return self.near.headings[name]
        return max((newest.get(name, 0) for newest in self.headed.values()), default=0)


@dataclass(frozen=True, slots=True, eq=False)
class _Ranking:
    """What was scored: passages by their ids, efforts, and the scores.

    `near` tells which passages are near in meaning.
    """

    ids: Ids
    passages: Passages
    topics: Topics
    scores: Scores
    near: Flags


def search(
    seen: Lineage, of: Session, query: str, meaning: QueryEmbedding | None = None
) -> tuple[Found, ...]:
    """Return the passages that match a query, best first, and efforts by their headings alone."""
    if not query_terms(query):
        return ()
    asking = _looked_up(seen, of, query, meaning)
    ranking = _ranking(asking)
    if asking.near is not None:
        ranking = _joined(asking, asking.near, ranking)
    return _hits(asking, ranking)


def _looked_up(seen: Lineage, of: Session, query: str, meaning: QueryEmbedding | None) -> _Query:
    wanted = query_terms(query)[:TERMS]
    speakers = [SPEAKER + term for term in wanted]
    everywhere = (
        Wanted(said, [*wanted, *speakers], _ROWS),
        Wanted(headed, wanted, _HEADINGS_READ),
    )
    within = passages_of(seen.session)
    passages, headings = having(seen.connection, of.owner, within, *everywhere)
    rare = rarest(of.turns, wanted, passages, headings)
    needed = {*query_terms(undated(query))}.intersection(wanted)
    unknown = sum(not passages[term] and not headings[term] for term in needed)
    # Of a few words one is enough: "authentication problem" is to find `auth-bug`.
    few = len(needed) in SHORT and rare
    each = max(rare.values()) if few else rarity(of.turns)
    return _Query(
        seen,
        wanted,
        rare,
        unknown * each,
        Spoken.of(passages, rare),
        _headed(seen, headings, rare),
        Spoken.of(passages, speakers).ids,
        dated(seen, of.turns, query),
        Nearness.of(seen, meaning) if meaning else None,
    )


def _headed(
    seen: Lineage, headings: Mapping[str, Sequence[int]], rare: Rare
) -> dict[str, dict[str, int]]:
    """Return by term the efforts whose headings say it, each with the turn of the newest."""
    spoken = Spoken.of(headings, rare)
    weights = np.array([*rare.values()])[spoken.terms]
    best = strongest(spoken.ids, weights)[:_HEADINGS_LOOKED_UP].tolist()
    rows = {row.id: row for row in seen.visible(CHANGES, ids=best)} if best else {}
    newest: dict[str, dict[str, int]] = {}
    for term in rare:
        efforts = newest.setdefault(term, {})
        for row in (rows[number] for number in headings[term] if number in rows):
            efforts[row.effort] = max(efforts.get(row.effort, 0), row.turn)
    return newest


def _ranking(asking: _Query) -> _Ranking:
    """Score the passages of the best turns, and the efforts by headings and all that they say."""
    strong = ranked(strengths(asking.headed, asking.rare))[:_HEADINGS]
    near = asking.near.efforts if asking.near else {}
    headings = [*strong, *nlargest(_HEADINGS, near, key=near.__getitem__)]
    rows = _rows(asking, headings)
    in_efforts = (row.effort for row in rows if row.effort != AMBIENT)
    names = list(dict.fromkeys([*headings, *in_efforts]))
    ids, passages = _passages(rows, names, asking)
    says = [[name in asking.headed[term] for term in asking.rare] for name in names]
    of_headings = np.array(says, np.float64).reshape(len(names), len(asking.rare))
    of_effort = passages.topics >= 0
    counted, lengths = of_headings.copy(), np.zeros(len(names))
    np.add.at(counted, passages.topics[of_effort], passages.counted[of_effort])
    np.add.at(lengths, passages.topics[of_effort], passages.lengths[of_effort])
    topics = Topics(names, of_headings, counted, lengths)
    scores = score(passages, topics, asking.weights, len(asking.asked))
    if not scores.suffice(passages, topics, asking.weights, asking.unknown):
        scores = Scores(np.zeros(len(ids)), np.zeros(len(names)))
    return _Ranking(ids, passages, topics, scores, np.zeros(len(ids), np.bool_))


def _rows(asking: _Query, headings: Sequence[str]) -> list[Any]:
    """Return the turns to be scored: all of the efforts of the best, and around others.

    Around the best turns that are of no effort, or of one that is long.
    """
    seen = asking.seen
    of = {row.turn: json.loads(row.efforts) for row in _candidates(asking)}
    efforts = list(dict.fromkeys([*(name for names in of.values() for name in names), *headings]))
    long: set[str] = set()
    if efforts and sum(segment.upto for segment in seen.segments) >= _LONG:
        asked_of = {"session": seen.session, "efforts": efforts}
        counts = seen.connection.execute(_COUNTED, asked_of)
        long = {name for name, count in counts if count >= _LONG}
    apart = [turn for turn, names in of.items() if not names or long.intersection(names)]
    around = sorted({turn + step for turn in apart for step in _AROUND})
    whole = [name for name in efforts if name not in long]
    branches = [segment.branch for segment in seen.segments]
    parts = {"efforts": [*long, AMBIENT], "branches": branches, "numbers": around}
    order = attrgetter("effort", "turn")
    return [
        *sorted(seen.visible(_IN_EFFORTS, efforts=whole) if whole else (), key=order),
        *sorted(seen.visible(_IN_PARTS, **parts) if around else (), key=order),
    ]


def _candidates(asking: _Query) -> list[Any]:
    """Return the best visible turns by the rarity of the terms that they say, and the nearest."""
    saying = asking.spoken.turns()
    dated = np.unique(saying.ids[asking.in_time(saying.ids)])
    weights = np.concatenate([asking.weights[saying.terms], np.full(len(dated), _DATED)])
    order = strongest(np.concatenate([saying.ids, dated]), weights).tolist()
    best = _visible(asking.seen, order, _CANDIDATES)
    if asking.near:
        known = {row.id for row in best}
        nearest = dict.fromkeys(map(turn_of, asking.near.passages.best(MOST, 0.0)))
        best += [row for row in _visible(asking.seen, [*nearest], _NEAR) if row.id not in known]
    return best


def _visible(seen: Lineage, order: Sequence[int], limit: int) -> list[Any]:
    """Return the first `limit` visible turns among these, in their order."""
    first: list[Any] = []
    for start in range(0, len(order), limit):
        part = order[start : start + limit]
        rows = {row.id: row for row in seen.visible(_CANDIDATE, ids=part)}
        first += [rows[number] for number in part if number in rows]
        if len(first) >= limit:
            break
    return first[:limit]


def _passages(rows: Sequence[Any], names: Sequence[str], asking: _Query) -> tuple[Ids, Passages]:
    """Return the ids of the passages of turns, and the passages as they are ranked."""
    at = {name: row for row, name in enumerate(names)}
    ids, turn, layouts = spread([(row.id, row.passages or b"") for row in rows])
    length, user, asks = layouts.T
    topics = np.array([at.get(row.effort, -1) for row in rows], np.intp)
    return ids, Passages(
        topics[turn],
        np.array([row.turn for row in rows], np.int64)[turn],
        asking.spoken.says(ids, len(asking.rare)),
        length.astype(np.float64),
        user > 0,
        asks > 0,
        np.isin(ids, asking.named),
        asking.in_time(ids >> PASSAGE_BITS),
    )


def _joined(asking: _Query, near: Nearness, ranking: _Ranking) -> _Ranking:
    """Return the ranking by words and by meaning as one.

    What shares no word with the query, and whose cosine is below the floor, has no score.
    """
    passages, topics, words = ranking.passages, ranking.topics, ranking.scores
    floor = near.meaning.floor
    cosines = near.cosines(asking.seen, ranking.ids)
    heads = np.array([near.efforts.get(name, 0.0) for name in topics.names])
    both = words.blended(passages.likeness(cosines, heads))
    reached = np.nan_to_num(cosines, nan=-1.0) >= floor
    of_effort = passages.topics >= 0
    efforts = heads >= floor
    efforts[passages.topics[of_effort & reached]] = True
    alike = reached.copy()
    alike[of_effort] |= efforts[passages.topics[of_effort]]
    scores = Scores(
        np.where((words.passages > 0) | alike, both.passages, 0.0),
        np.where((words.topics > 0) | efforts, both.topics, 0.0),
    )
    return replace(ranking, scores=scores, near=reached)


def _hits(asking: _Query, ranking: _Ranking) -> tuple[Found, ...]:
    """Return the best passages; the best one of an effort has the score of the effort."""
    passages, topics, scores = ranking.passages, ranking.topics, ranking.scores
    order = np.lexsort((ranking.ids, -passages.turns, -scores.passages))[:_MOST]
    order = order[scores.passages[order] > 0]
    ambient = _terms_of_ambient(asking, passages, order)
    terms = asking.saying(topics.says)
    best = np.argsort(-scores.topics, kind="stable")[:_MOST].tolist()
    unplaced = {row: topics.names[row] for row in best if scores.topics[row] > 0}
    hits: list[Found] = []
    for row in order.tolist():
        topic, turn, at = int(passages.topics[row]), int(passages.turns[row]), scores.passages[row]
        place = int(ranking.ids[row]) & ((1 << PASSAGE_BITS) - 1)
        near = not (ranking.near[row] or passages.says[row].any())
        passage = place, bool(passages.user[row]), near
        if topic >= 0:
            at = scores.topics[topic] if unplaced.pop(topic, None) else at
            hits.append(Found(topics.names[topic], turn, float(at), terms[topic], *passage))
        elif ambient[turn] or ranking.near[row]:
            hits.append(Found(None, turn, float(at), ambient[turn], *passage))
    hits += [
        Found(name, turn, float(scores.topics[row]), terms[row])
        for row, name in unplaced.items()
        if (turn := asking.heading_turn(name))
    ]
    return tuple(sorted(hits, key=lambda hit: (-hit.score, -hit.turn, hit.effort or "")))


def _terms_of_ambient(asking: _Query, passages: Passages, rows: Ids) -> dict[int, frozenset[str]]:
    """Return which terms the ambient turns of these rows say."""
    wanted = np.unique(passages.turns[rows][passages.topics[rows] < 0])
    ambient = (passages.topics < 0) & np.isin(passages.turns, wanted)
    says = np.zeros((len(wanted), len(asking.rare)))
    np.add.at(says, np.searchsorted(wanted, passages.turns[ambient]), passages.says[ambient])
    return dict(zip(wanted.tolist(), asking.saying(says), strict=True))
