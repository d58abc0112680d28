"""Searching a session: the passages that say a query's rarest terms are read and scored exactly.

No text is read for it, only which passages and headings have which terms. Of a long query the
rarest terms count, so that a page costs no more than a sentence or two.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nlargest
from operator import attrgetter
from typing import Any

import numpy as np
from sqlalchemy import Select, and_, bindparam, func, select

from ..embeddings import QueryEmbedding
from ..ranking import (
    Flags,
    Numbers,
    Passages,
    Scores,
    Topics,
    blended,
    likeness,
    ranked,
    reaches,
    score,
)
from ..terms import asked
from .index import any_of
from .lineage import AMBIENT, Lineage, Session
from .protocol import Found
from .query import Query, looked_up, spread, strengths, strongest
from .schema import PASSAGE_BITS, members, turn_of, turns
from .vectors import MOST, Ids, Nearness

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

_FOUND = select(turns.c.id, turns.c.branch, turns.c.turn, turns.c.efforts).where(
    any_of(turns.c.id, "ids")
)
_SAME = [members.c[name] == turns.c[name] for name in ("session", "branch", "turn")]
_JOINED = (
    select(turns.c.id, turns.c.branch, turns.c.turn, turns.c.passages, members.c.effort)
    .join(members, and_(*_SAME))
    .where(members.c.session == bindparam("session"))
)
_IN_EFFORTS = _JOINED.where(any_of(members.c.effort, "efforts"))
_IN_PARTS = _IN_EFFORTS.where(
    any_of(members.c.branch, "branches"), any_of(members.c.turn, "numbers")
)
_COUNTED = (
    select(members.c.effort, func.count())
    .where(members.c.session == bindparam("session"), any_of(members.c.effort, "efforts"))
    .group_by(members.c.effort)
)


@dataclass(frozen=True, slots=True)
class _Member:
    """A turn as a member of one effort, or an ambient one: its id, number and passages."""

    id: int
    turn: int
    layout: bytes
    effort: str


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
    if not asked(query):
        return ()
    asking = looked_up(seen, of, query, meaning)
    return _found(asking, _ranking(asking))


def once_each(hits: Iterable[Found]) -> tuple[Found, ...]:
    """Return the best of each effort, and of each ambient turn."""
    first: dict[str | int, Found] = {}
    for hit in hits:
        first.setdefault(hit.turn if hit.effort is None else hit.effort, hit)
    return tuple(first.values())


def _ranking(asking: Query) -> _Ranking:
    headed = _headings(asking)
    rows = _rows(asking, headed)
    names = list(dict.fromkeys([*headed, *(row.effort for row in rows if row.effort)]))
    ids, passages = _passages(rows, names, asking)
    topics = _topics(names, passages, asking)
    rare = asking.weights
    scores = score(passages, topics, rare, len(asking.asked))
    if not reaches(passages, topics, scores, rare, asking.unknown):
        scores = Scores(np.zeros(len(ids)), np.zeros(len(names)))
    near = np.zeros(len(ids), np.bool_)
    if asking.near is not None:
        scores, near = _joined(asking, asking.near, ids, (passages, topics, scores))
    return _Ranking(ids, passages, topics, scores, near)


def _rows(asking: Query, headed: Sequence[str]) -> list[_Member]:
    """Return the turns to be scored: all of the efforts of the best, and around others.

    Around the best turns that are of no effort, or of one that is long.
    """
    best = _candidates(asking)
    of = {row.turn: json.loads(row.efforts) for row in best}
    efforts = dict.fromkeys([*(name for names in of.values() for name in names), *headed])
    long = _long(asking.seen, [*efforts])
    apart = [turn for turn, names in of.items() if not names or long.intersection(names)]
    around = {turn + step for turn in apart for step in _AROUND}
    whole = [name for name in efforts if name not in long]
    parts = {
        "efforts": [*long, AMBIENT],
        "branches": [segment.branch for segment in asking.seen.segments],
        "numbers": sorted(around),
    }
    return [
        *_members(asking.seen, _IN_EFFORTS, efforts=whole),
        *_members(asking.seen, _IN_PARTS, **parts),
    ]


def _candidates(asking: Query) -> list[Any]:
    """Return the best visible turns by the rarity of the terms that they say, and the nearest."""
    saying, terms = asking.spoken.turns()
    dated = np.unique(saying[asking.in_time(saying)])
    weights = np.concatenate([asking.weights[terms], np.full(len(dated), _DATED)])
    order = strongest(np.concatenate([saying, dated]), weights).tolist()
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
        rows = {row.id: row for row in seen.visible(_FOUND, ids=part)}
        first += [rows[number] for number in part if number in rows]
        if len(first) >= limit:
            break
    return first[:limit]


def _headings(asking: Query) -> list[str]:
    """Return the efforts whose headings say most of the query, and are nearest to its meaning."""
    strong = ranked(strengths(asking.headed, asking.rare))[:_HEADINGS]
    near = asking.near.efforts if asking.near else {}
    return [*strong, *nlargest(_HEADINGS, near, key=near.__getitem__)]


def _long(seen: Lineage, efforts: Sequence[str]) -> frozenset[str]:
    """Return which of these efforts are long."""
    if not efforts or sum(segment.upto for segment in seen.segments) < _LONG:
        return frozenset()
    rows = seen.connection.execute(_COUNTED, {"session": seen.session, "efforts": efforts})
    return frozenset(name for name, count in rows if count >= _LONG)


def _members(seen: Lineage, query: Select[Any], **asked: Sequence[Any]) -> list[_Member]:
    """Return turns as members of efforts; none if nothing is asked for."""
    rows = seen.visible(query, **asked) if all(asked.values()) else []
    return [
        _Member(row.id, row.turn, row.passages or b"", "" if row.effort == AMBIENT else row.effort)
        for row in sorted(rows, key=attrgetter("effort", "turn"))
    ]


def _passages(rows: Sequence[_Member], names: Sequence[str], asking: Query) -> tuple[Ids, Passages]:
    """Return the ids of the passages of turns, and the passages as they are ranked."""
    at = {name: row for row, name in enumerate(names)}
    ids, turn, layouts = spread([(row.id, row.layout) for row in rows])
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


def _topics(names: Sequence[str], passages: Passages, asking: Query) -> Topics:
    """Return the efforts with what their headings say, and with all that they say."""
    of_effort = passages.topics >= 0
    topic = passages.topics[of_effort]
    headings = asking.headings(names)
    says, lengths = headings.copy(), np.zeros(len(names))
    np.add.at(says, topic, passages.counted[of_effort])
    np.add.at(lengths, topic, passages.lengths[of_effort])
    return Topics(names, headings, says, lengths)


def _joined(
    asking: Query, near: Nearness, ids: Ids, ranking: tuple[Passages, Topics, Scores]
) -> tuple[Scores, Flags]:
    """Return the scores by words and by meaning as one, and which passages reach the floor.

    What shares no word with the query, and whose cosine is below the floor, has no score.
    """
    passages, topics, words = ranking
    floor = near.meaning.floor
    known = near.cosines(asking.seen, ids)
    heads = np.array([near.efforts.get(name, 0.0) for name in topics.names])
    both = blended(words, likeness(passages, known, heads))
    reached = np.nan_to_num(known, nan=-1.0) >= floor
    of_effort = passages.topics >= 0
    efforts = heads >= floor
    efforts[passages.topics[of_effort & reached]] = True
    alike = reached.copy()
    alike[of_effort] |= efforts[passages.topics[of_effort]]
    kept = Scores(
        np.where((words.passages > 0) | alike, both.passages, 0.0),
        np.where((words.topics > 0) | efforts, both.topics, 0.0),
    )
    return kept, reached


def _found(asking: Query, ranking: _Ranking) -> tuple[Found, ...]:
    """Return the best passages; the best one of an effort has the score of the effort."""
    passages, topics, scores = ranking.passages, ranking.topics, ranking.scores
    order = np.lexsort((ranking.ids, -passages.turns, -scores.passages))[:_MOST]
    order = order[scores.passages[order] > 0]
    ambient = _said_by(asking, passages, order)
    terms = asking.saying(topics.says)
    left = {row: topics.names[row] for row in _best(scores.topics)}
    hits: list[Found] = []
    for row in order.tolist():
        topic, turn, at = int(passages.topics[row]), int(passages.turns[row]), scores.passages[row]
        place = int(ranking.ids[row]) & ((1 << PASSAGE_BITS) - 1)
        told = place, bool(passages.user[row]), not (ranking.near[row] or passages.says[row].any())
        if topic >= 0:
            at = scores.topics[topic] if left.pop(topic, None) else at
            hits.append(Found(topics.names[topic], turn, float(at), terms[topic], *told))
        elif ambient[turn] or ranking.near[row]:
            hits.append(Found(None, turn, float(at), ambient[turn], *told))
    hits += [
        Found(name, turn, float(scores.topics[row]), terms[row])
        for row, name in left.items()
        if (turn := _heading_turn(asking, name))
    ]
    return tuple(sorted(hits, key=lambda hit: (-hit.score, -hit.turn, hit.effort or "")))


def _best(scores: Numbers) -> list[int]:
    """Return the rows of the best scores."""
    order = np.argsort(-scores, kind="stable")[:_MOST]
    return [int(row) for row in order if scores[row] > 0]


def _said_by(asking: Query, passages: Passages, rows: Ids) -> dict[int, frozenset[str]]:
    """Return which terms the ambient turns of these rows say."""
    wanted = np.unique(passages.turns[rows][passages.topics[rows] < 0])
    ambient = (passages.topics < 0) & np.isin(passages.turns, wanted)
    says = np.zeros((len(wanted), len(asking.rare)))
    np.add.at(says, np.searchsorted(wanted, passages.turns[ambient]), passages.says[ambient])
    return dict(zip(wanted.tolist(), asking.saying(says), strict=True))


def _heading_turn(asking: Query, name: str) -> int:
    if asking.near and name in asking.near.headings:
        return asking.near.headings[name]
    return max((newest.get(name, 0) for newest in asking.headed.values()), default=0)
