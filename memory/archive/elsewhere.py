"""What the other sessions of a user concluded and said, each as its newest branch has it."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, select

from ..ranking import Passages, Rare, Topics, ranked, rarity, score
from ..record import Owner, Tip
from ..terms import asked
from .index import Wanted, among, having, heading, spread
from .lineage import Lineage, beginning, effort_of, lineage
from .protocol import Elsewhere
from .query import TERMS, Spoken, rarest, strengths
from .schema import (
    branches,
    changes,
    first_passage,
    headed,
    passages_of,
    said,
    sessions,
    turn_of,
    turns,
)

_EVERYWHERE = (0, 2**63 - 1)
"""All turns of all sessions, as a range of ids."""

_ROWS = 5_000
"""Passages of one term that are read, fewer than in a session: it is rare there or says little."""

_CANDIDATES = 100
"""Turns, or changes of efforts, that are looked at closely in one query."""

_MOST = 2_000
"""Headings that are looked at, the strongest first, until enough of them are still concluded."""

_PARTS = 3
"""What the score of a passage is the sum of: its own, and its window's twice; a heading has one.

Of LoCoMo's evidence, said in other sessions, 57 % is in the first ten; it was 36 % by whole turns.
"""

_FLOOR = 0.3
"""The share of a query's weight that the best result says at least, or nothing is found.

Of LoCoMo's questions 32 % of those to another conversation reach it, without it 91 %; of the
evidence of its own 46.9 % is in the first ten, without it 47.7 %.
"""

_SPARE = 50
"""Efforts that are looked at beyond those asked for: some are open again, or on old branches."""


@dataclass(frozen=True, slots=True)
class Other:
    """Another session of the user, and what its newest branch sees."""

    owner: Owner
    seen: Lineage


def search_sessions(
    connection: Connection, user: str, owner: int, own: int, query: str
) -> list[Elsewhere]:
    """Return what matches a query in the user's other sessions, best first, of equals the newest.

    `owner` is the user's number, `own` the session that asks. A turn of an effort that matches at
    least as well, or that says all of the query, is left out.
    """
    wanted = asked(query)[:TERMS]
    everywhere = Wanted(headed, wanted, _ROWS), Wanted(said, wanted, _ROWS)
    found_in = having(connection, owner, _EVERYWHERE, *everywhere)
    headings, spoken = (_outside(postings, own) for postings in found_in)
    total = connection.execute(
        select(func.coalesce(func.sum(sessions.c.turns), 1)).where(sessions.c.owner == owner)
    ).scalar_one()
    rare = rarest(total, wanted, spoken, headings)
    efforts = _efforts(connection, user, {term: headings[term] for term in rare}, rare)
    said_by = {term: spoken[term] for term in rare}
    hits = [*efforts, *_turns(connection, user, said_by, rare)]
    whole = sum(rare.values())
    unknown = sum(not spoken[term] and not headings[term] for term in wanted)
    most = max((sum(rare[term] for term in hit.said) for hit in hits), default=0.0)
    if most < _FLOOR * (whole + unknown * rarity(max(total, 1), 1)):
        return []
    best = {(hit.owner, hit.effort.id): hit.score for hit in hits if hit.effort}
    kept = [hit for hit in hits if not _told(hit, best, whole)]
    return sorted(kept, key=lambda hit: (hit.score, *_newest(hit)), reverse=True)


def concluded(
    connection: Connection, user: str, owner: int, own: int, newest: int
) -> list[Elsewhere]:
    """Return what the user's other sessions concluded last, newest first."""
    query = (
        select(changes)
        .where(changes.c.owner == owner, changes.c.status == "concluded")
        .where(changes.c.session != own)
        .order_by(changes.c.at.desc(), changes.c.id.desc())
        .limit(newest + _SPARE)
    )
    rows = connection.execute(query).all()
    hits = _standing(connection, user, rows, {})
    return sorted(hits, key=_newest, reverse=True)[:newest]


def _newest(hit: Elsewhere) -> tuple[str, ...]:
    """Return what results are ordered by: the time; names part equals, in any database alike."""
    name = hit.effort.id if hit.effort else f"{hit.tip.turn:09}"
    return hit.at, hit.owner.thread, hit.owner.namespace, name


def _others(connection: Connection, user: str, numbers: Collection[int]) -> dict[int, Other]:
    """Return sessions of the user by their numbers, each with what its newest branch sees."""
    query = (
        select(sessions, branches.c.first, branches.c.last, branches.c.ancestors)
        .join(
            branches,
            (branches.c.session == sessions.c.id) & (branches.c.branch == sessions.c.branch),
        )
        .where(among(sessions.c.id, numbers))
    )
    return {row.id: _other(connection, user, row) for row in connection.execute(query)}


def _other(connection: Connection, user: str, row: Any) -> Other:
    tip = Tip(row.branch, row.last)
    owner = Owner(user, row.thread, row.namespace)
    return Other(owner, lineage(lambda: connection, row.id, tip, beginning(row)))


def _outside(postings: Mapping[str, Sequence[int]], own: int) -> dict[str, list[int]]:
    first, last = passages_of(own)
    return {
        term: [number for number in ids if not first <= number <= last]
        for term, ids in postings.items()
    }


def _efforts(
    connection: Connection, user: str, headings: Mapping[str, Sequence[int]], rare: Rare
) -> list[Elsewhere]:
    strong = strengths(headings, rare)
    best = sorted(ranked(strong), key=lambda change: (-strong[change], -change))[:_MOST]
    found: dict[tuple[Owner, str], Elsewhere] = {}
    for start in range(0, len(best), _CANDIDATES):
        part = best[start : start + _CANDIDATES]
        query = select(changes).where(among(changes.c.id, part))
        rows = connection.execute(query).all()
        for hit in _standing(connection, user, rows, rare):
            found[hit.owner, hit.effort.id if hit.effort else ""] = hit
        if len(found) >= _SPARE:
            break
    return list(found.values())


def _standing(
    connection: Connection, user: str, rows: Iterable[Any], rare: Rare
) -> list[Elsewhere]:
    """Return the efforts of these changes that are concluded on the newest branch of each."""
    named: dict[int, list[str]] = {}
    for row in rows:
        names = named.setdefault(row.session, [])
        if row.effort not in names:
            names.append(row.effort)
    hits: list[Elsewhere] = []
    for number, session in (_others(connection, user, named) if named else {}).items():
        left = session.seen.changes(named[number]).values()
        tips = session.seen.tips({row.turn for row in left})
        for row in left:
            hit = _concluded(session.owner, row, tips[row.turn], rare)
            hits += [hit] if hit.effort and (hit.said or not rare) else []
    return hits


def _concluded(owner: Owner, row: Any, tip: Tip, rare: Rare) -> Elsewhere:
    effort = effort_of(row)
    terms = frozenset(heading(effort)) & rare.keys()
    return Elsewhere(
        owner,
        effort if effort.status == "concluded" else None,
        tip,
        row.at,
        sum(weight for term, weight in rare.items() if term in terms),
        terms,
    )


def _turns(
    connection: Connection, user: str, spoken: Mapping[str, Sequence[int]], rare: Rare
) -> list[Elsewhere]:
    """Return the turns of other sessions that say most of a query, each with its best passage."""
    said_by = {term: frozenset(map(turn_of, ids)) for term, ids in spoken.items()}
    strong = strengths(said_by, rare)
    best = sorted(ranked(strong), key=lambda turn: (-strong[turn], -turn))[:_CANDIDATES]
    if not best:
        return []
    columns = (turns.c.id, turns.c.session, turns.c.branch, turns.c.turn, turns.c.digest)
    query = select(*columns, turns.c.at, turns.c.efforts, turns.c.passages)
    rows = connection.execute(query.where(among(turns.c.id, best))).all()
    owners = _others(connection, user, {row.session for row in rows})
    seen = [
        row
        for row in sorted(rows, key=lambda row: row.id)
        if row.session in owners and owners[row.session].seen.sees(row.branch, row.turn)
    ]
    parts = _best(seen, spoken, rare)
    hits: list[Elsewhere] = []
    for row in (row for row in seen if row.id in parts):
        owner, (place, score) = owners[row.session].owner, parts[row.id]
        said = frozenset(term for term, ids in said_by.items() if row.id in ids)
        efforts = tuple(json.loads(row.efforts))
        tip = Tip(row.branch, row.turn, row.digest)
        hits.append(Elsewhere(owner, None, tip, row.at, score, said, efforts, place))
    return hits


def _best(
    rows: Sequence[Any], spoken: Mapping[str, Sequence[int]], rare: Rare
) -> dict[int, tuple[int, float]]:
    """Return the place and the score of the best passage of each turn that has one, by its id."""
    numbers = np.array([row.id for row in rows], np.int64)
    ids, turn, layouts = spread([(row.id, row.passages or b"") for row in rows])
    length, user, asks = layouts.T
    says = Spoken.of(spoken, rare).says(ids, len(rare))
    no, nobody = np.zeros(len(ids), np.bool_), np.full(len(ids), -1)
    passages = Passages(
        nobody, numbers[turn], says, length.astype(np.float64), user > 0, asks > 0, no, no
    )
    weights = np.array([*rare.values()])
    none = np.zeros((0, len(rare)))
    scores = score(passages, Topics((), none, none, np.zeros(0)), weights, 0).passages / _PARTS
    best: dict[int, tuple[int, float]] = {}
    for at in np.lexsort((ids, -scores)).tolist():
        if scores[at] > 0:
            place = int(ids[at]) - first_passage(int(numbers[turn[at]]))
            best.setdefault(int(numbers[turn[at]]), (place, float(scores[at])))
    return best


def _told(hit: Elsewhere, best: Mapping[tuple[Owner, str], float], whole: float) -> bool:
    """Tell whether a turn is one of an effort that says as much of the query, or all of it."""
    return hit.effort is None and any(
        best.get((hit.owner, name), -1.0) >= min(hit.score, whole) for name in hit.efforts
    )
