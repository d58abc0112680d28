"""What the other sessions of a user concluded and said, each as its newest branch has it."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sqlalchemy import Connection, func, select

from ..names import session_name
from ..ranking import Passages, Rare, Topics, ranked, rarity, score
from ..record import Owner, Tip
from ..terms import query_terms
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
    users,
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

_SESSIONS = select(sessions, branches.c.first, branches.c.last, branches.c.ancestors).join(
    branches, (branches.c.session == sessions.c.id) & (branches.c.branch == sessions.c.branch)
)


@dataclass(frozen=True, slots=True)
class OtherSessions:
    """The sessions of a user, by name and number, but for the one that asks."""

    connection: Connection
    user: str
    number: int
    own: int

    @classmethod
    def of(cls, connection: Connection, owner: Owner) -> Self | None:
        """Return the other sessions of an owner's user, None if the user has no session."""
        named = select(users.c.id).where(users.c.name == owner.user)
        user = connection.execute(named).scalar()
        if user is None:
            return None
        own = sessions.c.owner == user, sessions.c.name == session_name(owner)
        session = connection.execute(select(sessions.c.id).where(*own)).scalar()
        return cls(connection, owner.user, user, session or 0)

    def search(self, query: str) -> list[Elsewhere]:
        """Return what matches a query, best first, of equals the newest.

        A turn of an effort that matches at least as well, or that says all of the query, is left
        out.
        """
        wanted = query_terms(query)[:TERMS]
        everywhere = Wanted(headed, wanted, _ROWS), Wanted(said, wanted, _ROWS)
        first, last = passages_of(self.own)
        headings, spoken = (
            {term: [at for at in ids if not first <= at <= last] for term, ids in postings.items()}
            for postings in having(self.connection, self.number, _EVERYWHERE, *everywhere)
        )
        count = select(func.coalesce(func.sum(sessions.c.turns), 1))
        total = self.connection.execute(count.where(sessions.c.owner == self.number)).scalar_one()
        rare = rarest(total, wanted, spoken, headings)
        efforts = self._efforts({term: headings[term] for term in rare}, rare)
        hits = [*efforts, *self._turns({term: spoken[term] for term in rare}, rare)]
        whole = sum(rare.values())
        unknown = sum(not spoken[term] and not headings[term] for term in wanted)
        most = max((sum(rare[term] for term in hit.said) for hit in hits), default=0.0)
        if most < _FLOOR * (whole + unknown * rarity(total)):
            return []
        best = {(hit.owner, hit.effort.id): hit.score for hit in hits if hit.effort}
        apart = [
            hit
            for hit in hits
            if hit.effort is not None
            or all(
                best.get((hit.owner, name), -1.0) < min(hit.score, whole) for name in hit.efforts
            )
        ]
        return sorted(apart, key=lambda hit: (hit.score, *_newest(hit)), reverse=True)

    def concluded(self, newest: int) -> list[Elsewhere]:
        """Return what was concluded last, newest first."""
        query = (
            select(changes)
            .where(changes.c.owner == self.number, changes.c.status == "concluded")
            .where(changes.c.session != self.own)
            .order_by(changes.c.at.desc(), changes.c.id.desc())
            .limit(newest + _SPARE)
        )
        hits = self._concluded(self.connection.execute(query).all(), {})
        return sorted(hits, key=_newest, reverse=True)[:newest]

    def _seen(self, numbers: Collection[int]) -> dict[int, tuple[Owner, Lineage]]:
        """Return by their numbers the owners of sessions and what their newest branches see."""
        if not numbers:
            return {}
        rows = self.connection.execute(_SESSIONS.where(among(sessions.c.id, numbers)))
        return {
            row.id: (
                Owner(self.user, row.thread, row.namespace),
                lineage(lambda: self.connection, row.id, Tip(row.branch, row.last), beginning(row)),
            )
            for row in rows
        }

    def _efforts(self, headings: Mapping[str, Sequence[int]], rare: Rare) -> list[Elsewhere]:
        strong = strengths(headings, rare)
        best = sorted(ranked(strong), key=lambda change: (-strong[change], -change))[:_MOST]
        hits: dict[tuple[Owner, str], Elsewhere] = {}
        for start in range(0, len(best), _CANDIDATES):
            part = best[start : start + _CANDIDATES]
            rows = self.connection.execute(select(changes).where(among(changes.c.id, part))).all()
            for hit in self._concluded(rows, rare):
                hits[hit.owner, hit.effort.id if hit.effort else ""] = hit
            if len(hits) >= _SPARE:
                break
        return list(hits.values())

    def _concluded(self, rows: Iterable[Any], rare: Rare) -> list[Elsewhere]:
        """Return the efforts of these changes that are concluded on the newest branch of each."""
        named: dict[int, dict[str, None]] = {}
        for row in rows:
            named.setdefault(row.session, {})[row.effort] = None
        hits: list[Elsewhere] = []
        for number, (owner, seen) in self._seen(named).items():
            newest = seen.changes([*named[number]]).values()
            tips = seen.tips({row.turn for row in newest})
            for row in newest:
                effort = effort_of(row)
                terms = frozenset(heading(effort)) & rare.keys()
                if effort.status == "concluded" and (terms or not rare):
                    score = sum(weight for term, weight in rare.items() if term in terms)
                    hits.append(Elsewhere(owner, effort, tips[row.turn], row.at, score, terms))
        return hits

    def _turns(self, spoken: Mapping[str, Sequence[int]], rare: Rare) -> list[Elsewhere]:
        """Return the turns that say most of a query, each with its best passage."""
        saying = {term: frozenset(map(turn_of, ids)) for term, ids in spoken.items()}
        strong = strengths(saying, rare)
        best = sorted(ranked(strong), key=lambda turn: (-strong[turn], -turn))[:_CANDIDATES]
        if not best:
            return []
        columns = (turns.c.id, turns.c.session, turns.c.branch, turns.c.turn, turns.c.digest)
        query = select(*columns, turns.c.at, turns.c.efforts, turns.c.passages)
        rows = self.connection.execute(query.where(among(turns.c.id, best))).all()
        of = self._seen({row.session for row in rows})
        visible = [
            row
            for row in sorted(rows, key=lambda row: row.id)
            if row.session in of and of[row.session][1].sees(row.branch, row.turn)
        ]
        parts = _best_passages(visible, spoken, rare)
        hits: list[Elsewhere] = []
        for row in (row for row in visible if row.id in parts):
            place, score = parts[row.id]
            terms = frozenset(term for term, ids in saying.items() if row.id in ids)
            tip, efforts = Tip(row.branch, row.turn, row.digest), tuple(json.loads(row.efforts))
            owner = of[row.session][0]
            hits.append(Elsewhere(owner, None, tip, row.at, score, terms, efforts, place))
        return hits


def _newest(hit: Elsewhere) -> tuple[str, ...]:
    """Return what results are ordered by: the time; names part equals, in any database alike."""
    name = hit.effort.id if hit.effort else f"{hit.tip.turn:09}"
    return hit.at, hit.owner.thread, hit.owner.namespace, name


def _best_passages(
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
            number = int(numbers[turn[at]])
            best.setdefault(number, (int(ids[at]) - first_passage(number), float(scores[at])))
    return best
