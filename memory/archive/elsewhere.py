"""What the other sessions of a user concluded and said, on the newest branch of each."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Self

from sqlalchemy import Connection, func, select

from ..names import session_name
from ..search.ranking import Rare, Topics, rarity, score
from ..search.terms import further_terms, naming_terms, query_terms, tells, title_terms
from ..turn import Session, Tip
from .index import among, any_of
from .load import TIP, TIP_PLACE, Past, Segment, SessionRow, effort_of
from .protocol import Elsewhere
from .query import Said, at_most, few, in_turns, passages_in, rarest, said_in, strongest, terms_of
from .schema import PASSAGE_BITS, TURN_BITS, changes, passage_id, runs, sessions, turns, users

_ALL_IDS = ((0, 2**63 - 1),)
"""The range of the ids of all sessions."""

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
"""Efforts that are looked at beyond the limit: some are open again, or on old branches."""

_SESSIONS = (
    select(sessions, *TIP_PLACE)
    .join(turns, turns.c.id == sessions.c.newest)
    .join(runs, runs.c.id == turns.c.run)
    .where(~sessions.c.hidden)
)
_CHANGES = select(
    *(changes.c.id, changes.c.effort, changes.c.status),
    *(changes.c.run, changes.c.place, changes.c.turn),
).where(any_of(changes.c.run, "runs"), any_of(changes.c.effort, "names"))
_TURNS = select(
    *(turns.c.id, turns.c.session, turns.c.run, turns.c.place, turns.c.turn, turns.c.hash),
    *(turns.c.at, turns.c.efforts, turns.c.passages),
).order_by(turns.c.id)


@dataclass(frozen=True, slots=True)
class OtherSessions:
    """All sessions of a user but the one that asks.

    `user_number` is the number of the user. `own_sessions` are those of that session and, if it is
    of a copied thread, of the sessions that it comes from.
    """

    connection: Connection
    user: str
    user_number: int
    own_sessions: frozenset[int]

    @classmethod
    def of(cls, connection: Connection, session: Session) -> Self | None:
        """Return the other sessions of a session's user, None if the user has no session."""
        number = connection.execute(select(users.c.id).where(users.c.name == session.user)).scalar()
        if number is None:
            return None
        own = sessions.c.owner == number, sessions.c.name == session_name(session)
        here = connection.execute(select(sessions.c.id).where(*own)).scalar()
        query = select(runs.c.ancestors).where(runs.c.session == here)
        before = (json.loads(ancestors) for ancestors in connection.execute(query).scalars())
        origins = (Segment(*part).session for ancestors in before for part in ancestors)
        return cls(connection, session.user, number, frozenset([here or 0, *origins]))

    def search(self, query: str) -> list[Elsewhere]:
        """Return what matches a query, best first, of equals the newest.

        A turn is left out if an effort of it matches at least as well, or says all of the query.
        """
        required = at_most(query_terms(query))
        terms = list(dict.fromkeys([*required, *at_most(further_terms(query))]))
        place = self.connection, self.user_number, _ALL_IDS
        passages, headings = (
            {term: [at for at in ids if self._is_other(at)] for term, ids in postings.items()}
            for postings in said_in(place, query, terms, (_ROWS, _ROWS))
        )
        count = select(func.coalesce(func.sum(sessions.c.turns), 1))
        total = self.connection.execute(
            count.where(sessions.c.owner == self.user_number)
        ).scalar_one()
        by_turn = in_turns(passages)
        rare = rarest(total, terms, by_turn, headings)
        found = terms_of(strongest(by_turn, rare, _CANDIDATES), by_turn, rare)
        hits = [*self._efforts(headings, rare), *self._turns(found, passages, rare)]
        weight = sum(rare.values())
        titles = title_terms(query)
        asked_for = [term for term in required if term not in titles]
        unknown = sum(not passages[term] and not headings[term] for term in asked_for)
        asked = weight + unknown * rarity(total)
        highest = max((sum(rare[term] for term in hit.said) for hit in hits), default=0.0)
        counts = {term: max(len(by_turn[term]), len(headings[term])) for term in rare}
        telling = {term for term in rare if tells(term) and counts[term] <= few(total)}
        if highest < _FLOOR * asked:
            hits = [hit for hit in hits if not telling.isdisjoint(hit.said)]
        names = telling & naming_terms(query)
        if not names and not any(_is_clear(hit, rare, asked) for hit in hits):
            hits = [replace(hit, weak=True) for hit in hits]
        scores = {(hit.session, hit.effort.id): hit.score for hit in hits if hit.effort}
        distinct = [
            hit
            for hit in hits
            if hit.effort
            or all(
                scores.get((hit.session, name), -1) < min(hit.score, weight) for name in hit.efforts
            )
        ]
        return sorted(distinct, key=lambda hit: (hit.score, *_newest(hit)), reverse=True)

    def _is_other(self, passage: int) -> bool:
        return passage >> PASSAGE_BITS >> TURN_BITS not in self.own_sessions

    def _newest_branches(self, numbers: Collection[int]) -> dict[int, tuple[Session, Past]]:
        """Return by their numbers sessions and what their newest tips see."""
        if not numbers:
            return {}
        rows = self.connection.execute(_SESSIONS.where(among(sessions.c.id, numbers)))
        return {
            row.id: (
                Session(self.user, row.thread, row.namespace),
                Past(lambda: nullcontext(self.connection), SessionRow.from_row(row)).at(row),
            )
            for row in rows
        }

    def _efforts(self, headings: Said, rare: Rare) -> list[Elsewhere]:
        best = strongest(headings, rare, _MOST)
        hits: dict[tuple[Session, str], Elsewhere] = {}
        for start in range(0, len(best), _CANDIDATES):
            part = best[start : start + _CANDIDATES]
            names = select(changes.c.session, changes.c.effort).where(among(changes.c.id, part))
            for hit in self._concluded(self.connection.execute(names), headings, rare):
                hits[hit.session, hit.effort.id if hit.effort else ""] = hit
            if len(hits) >= _SPARE:
                break
        return list(hits.values())

    def _concluded(self, named: Iterable[Any], headings: Said, rare: Rare) -> list[Elsewhere]:
        """Return which of these efforts are concluded on the newest branch of their sessions."""
        names: dict[int, set[str]] = {}
        for row in named:
            names.setdefault(row.session, set()).add(row.effort)
        sessions = dict(self._concluding(names))
        terms = terms_of([*sessions], headings, rare)
        shown = [number for number in sessions if terms[number] or not rare]
        rows = self.connection.execute(select(changes).where(among(changes.c.id, shown))).all()
        tips = self._tips([number >> PASSAGE_BITS for number in shown])
        hits: list[Elsewhere] = []
        for row in rows:
            points = sum(rare[term] for term in terms[row.id])
            tip, effort = tips[row.id >> PASSAGE_BITS], effort_of(row)
            hits.append(Elsewhere(sessions[row.id], effort, tip, row.at, points, terms[row.id]))
        return hits

    def _concluding(self, names: Mapping[int, Collection[str]]) -> Iterator[tuple[int, Session]]:
        """Yield the newest change of each of these efforts by its id, if it concluded the effort.

        What all sessions need is read at once: there may be a hundred.
        """
        branches = self._newest_branches(names)
        runs_of = [part.run for _, past in branches.values() for part in past.segments]
        asked = {"runs": runs_of, "names": [*set[str]().union(*names.values())]}
        rows: dict[int, list[Any]] = {}
        for row in self.connection.execute(_CHANGES, asked) if branches else ():
            rows.setdefault(row.run, []).append(row)
        for number, (session, past) in branches.items():
            own = (row for part in past.segments for row in rows.get(part.run, ()))
            seen = [row for row in own if row.effort in names[number] and past.sees(row)]
            newest = {row.effort: row for row in sorted(seen, key=lambda row: (row.place, row.id))}
            yield from ((row.id, session) for row in newest.values() if row.status == "concluded")

    def _tips(self, numbers: Sequence[int]) -> dict[int, Tip]:
        query = select(turns.c.id, *TIP).where(among(turns.c.id, numbers))
        return {row.id: Tip(row.turn, row.hash) for row in self.connection.execute(query)}

    def _turns(
        self, terms: Mapping[int, frozenset[str]], passages: Said, rare: Rare
    ) -> list[Elsewhere]:
        if not terms:
            return []
        rows = self.connection.execute(_TURNS.where(among(turns.c.id, terms))).all()
        newest = self._newest_branches({row.session for row in rows})
        visible = [
            row for row in rows if row.session in newest and newest[row.session][1].sees(row)
        ]
        parts = _best_passages(visible, passages, rare)
        hits: list[Elsewhere] = []
        for row in (row for row in visible if row.id in parts):
            place, points = parts[row.id]
            tip, efforts = Tip(row.turn, row.hash), tuple(json.loads(row.efforts))
            session = newest[row.session][0]
            hits.append(
                Elsewhere(session, None, tip, row.at, points, terms[row.id], efforts, place)
            )
        return hits


def _is_clear(hit: Elsewhere, rare: Rare, asked: float) -> bool:
    """Tell whether a turn says more than half of a query, or a heading half of it."""
    said = 2 * sum(rare[term] for term in hit.said)
    return said > asked or (hit.effort is not None and said >= asked)


def _newest(hit: Elsewhere) -> tuple[str, ...]:
    """Return the key that orders results: the time, then names, so that all databases agree."""
    name = hit.effort.id if hit.effort else f"{hit.tip.turn:09}"
    return hit.at, hit.session.thread, hit.session.namespace, name


def _best_passages(rows: Sequence[Any], said: Said, rare: Rare) -> dict[int, tuple[int, float]]:
    """Return the place and the score of the best passage of each turn that has one, by its id."""
    of_terms, numbers = {term: said[term] for term in rare}, [row.id for row in rows]
    ids, passages = passages_in(rows, [-1] * len(rows), numbers, of_terms)
    scores = score(passages, Topics((), (), (), ()), rare, 0).passages
    best: dict[int, tuple[int, float]] = {}
    for row in sorted(range(len(ids)), key=lambda row: (-scores[row], ids[row])):
        if scores[row] > 0:
            number = passages.turns[row]
            best.setdefault(number, (ids[row] - passage_id(number), scores[row] / _PARTS))
    return best
