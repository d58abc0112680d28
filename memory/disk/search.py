"""Searching the index: the turns that say a query's rarest terms are read and scored exactly.

No table holds a text. Which rows have a term is read from the rarest term on; of a term that very
many rows have, only those rows are read that have a rarer one too. Of a long text the rarest terms
count, so that a hint costs no more for a page than for a sentence or two.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from ..archive.protocol import Found
from ..meaning import Meaning
from ..record import Tip
from ..search import Name, Rare, Says, Scores, Topic, Turn, ranked, rarity, score, summed
from ..terms import asked
from .index import Index
from .nearness import Nearness, joined, nearness
from .search_rows import MESSAGES

_TERMS = 64
_RAREST = 32
_ROWS = 10_000
_CANDIDATES = 200
_HEADINGS = 50
_HEADINGS_READ = 2_000


@dataclass(frozen=True, slots=True)
class Row:
    """A turn as a member of one effort, or an ambient one: its record's id, number and size."""

    record: int
    turn: int
    length: int
    effort: str | None


@dataclass(frozen=True, slots=True)
class Query:
    """A query to an index: what its lineage sees, and which records and headings say what.

    `said` has for each term, the rarest first, how many messages of each record say it; `headed`
    the turn of the newest visible heading of each effort that says it. `near` is what is near to
    its meaning, if that is known.
    """

    connection: sqlite3.Connection
    seen: Mapping[str, int]
    rare: Rare
    said: Mapping[str, Mapping[int, int]]
    headed: Mapping[str, Mapping[str, int]]
    near: Nearness | None

    def says(self, rows: Iterable[Row]) -> Mapping[int, Says]:
        """Return what the records of rows say, by record; none for those that say nothing."""
        records = {row.record for row in rows}
        says: dict[int, dict[str, int]] = {}
        for term, times in self.said.items():
            for record in records & times.keys():
                says.setdefault(record, {})[term] = times[record]
        return says

    def heading(self, effort: str) -> Says:
        """Return what the headings of an effort say."""
        return {term: 1 for term, efforts in self.headed.items() if effort in efforts}


@dataclass(frozen=True, slots=True)
class Ranking:
    """What was scored: the rows, the topics and their scores; `near` are rows near in meaning."""

    rows: Sequence[Row]
    topics: Mapping[str, Topic]
    scores: Scores
    near: frozenset[int] = frozenset()


def search(index: Index, tip: Tip, query: str, meaning: Meaning | None = None) -> tuple[Found, ...]:
    """Return the visible efforts and ambient turns that match a query, best first."""
    asking = _asking(index, tip, asked(query)[:_TERMS], meaning)
    return _found(asking, _ranking(asking))


def turns_found(
    index: Index, tip: Tip, query: str, meaning: Meaning | None = None
) -> tuple[int, ...]:
    """Return the visible turns that match a query, best first, whichever effort they belong to."""
    ranking = _ranking(_asking(index, tip, asked(query)[:_TERMS], meaning))
    return tuple(dict.fromkeys(ranking.rows[key].turn for key in ranked(ranking.scores.turns)))


def _ranking(asking: Query) -> Ranking:
    rows = _rows(asking)
    turns = _turns(rows, asking)
    topics = _topics(turns, asking)
    scores = score(turns, topics, asking.rare)
    if asking.near is None:
        return Ranking(rows, topics, scores)
    records = [row.record for row in rows]
    both = joined(asking.connection, asking.near, records, turns, scores)
    return Ranking(rows, topics, both.scores, both.near)


def _asking(index: Index, tip: Tip, wanted: Sequence[str], meaning: Meaning | None) -> Query:
    connection = index.connection
    seen = {part.branch: part.upto for part in index.lineage(tip)}
    total = connection.execute("SELECT max(id) FROM records").fetchone()[0] or 1
    headed = {term: _count(connection, "headed", term) for term in wanted}
    every = sorted((_count(connection, "said", term), term) for term in wanted)
    counts = [(count, term) for count, term in every if count or headed[term]][:_RAREST]
    rare = {term: rarity(total, min(total, max(1, count, headed[term]))) for count, term in counts}
    said = _said(connection, counts)
    near = nearness(connection, seen, meaning) if meaning and wanted else None
    return Query(connection, seen, rare, said, _headed(connection, seen, rare), near)


def _count(connection: sqlite3.Connection, table: str, term: str) -> int:
    query = f"SELECT count(*) FROM {table} WHERE {table} MATCH ?"  # noqa: S608 (a name of ours)
    return int(connection.execute(query, (f'"{term}"',)).fetchone()[0])


def _said(
    connection: sqlite3.Connection, counts: Sequence[tuple[int, str]]
) -> dict[str, Counter[int]]:
    said: dict[str, Counter[int]] = {}
    read, rarer = 0, list[str]()
    for count, term in counts:
        common = read + count > _ROWS and rarer
        match = f'({" OR ".join(rarer)}) AND "{term}"' if common else f'"{term}"'
        query = "SELECT rowid FROM said WHERE said MATCH ? ORDER BY rowid DESC LIMIT ?"
        rows = connection.execute(query, (match, _ROWS)) if count else ()
        said[term] = Counter(row // MESSAGES for (row,) in rows)
        rarer += [f'"{term}"'] if count and read <= _ROWS else []
        read += count
    return said


def _headed(
    connection: sqlite3.Connection, seen: Mapping[str, int], rare: Rare
) -> dict[str, dict[str, int]]:
    query = (
        "SELECT h.effort, h.branch, h.turn FROM headed f JOIN headings h ON h.id = f.rowid"
        " WHERE headed MATCH ? ORDER BY f.rowid DESC LIMIT ?"
    )
    found: dict[str, dict[str, int]] = {}
    for term in rare:
        turns: dict[str, int] = {}
        for effort, branch, turn in connection.execute(query, (f'"{term}"', _HEADINGS_READ)):
            if turn <= seen.get(branch, 0):
                turns[effort] = max(turns.get(effort, 0), turn)
        found[term] = turns
    return found


def _rows(asking: Query) -> list[Row]:
    """Return the turns to be scored: all of the efforts of the best, and around ambient ones."""
    near = asking.near.records if asking.near else ()
    best = list(dict.fromkeys([*_candidates(asking), *near]))
    query = (
        "SELECT m.effort, r.turn FROM json_each(?) j CROSS JOIN records r ON r.id = j.value"
        " LEFT JOIN members m ON m.branch = r.branch AND m.turn = r.turn"
    )
    placed = asking.connection.execute(query, (json.dumps(best),)).fetchall()
    named = (effort for effort, _ in placed if effort)
    efforts = list(dict.fromkeys([*named, *_headings(asking)]))
    around = {turn + step for effort, turn in placed if not effort for step in (-1, 0, 1)}
    return [*_members(asking, efforts), *_ambient(asking, sorted(around))]


def _strong(asking: Query) -> list[str]:
    """Return the efforts whose headings say most of the query."""
    return ranked(_strengths(asking.headed, asking.rare))[:_HEADINGS]


def _strengths(saying: Mapping[str, Iterable[Name]], rare: Rare) -> dict[Name, float]:
    """Return how rare the terms are that each one says, given by term who says it."""
    total: dict[Name, float] = {}
    for term, names in saying.items():
        weight = rare[term]
        for name in names:
            total[name] = total.get(name, 0.0) + weight
    return total


def _headings(asking: Query) -> list[str]:
    """Return the efforts whose headings say most of the query, and are nearest to its meaning."""
    return [*_strong(asking), *(asking.near.efforts if asking.near else ())]


def _candidates(asking: Query) -> list[int]:
    """Return the best visible records by the rarity of the terms that they say."""
    first = _strengths(asking.said, asking.rare)
    newest = sorted(first, reverse=True)
    order = iter(sorted(newest, key=first.__getitem__, reverse=True))
    query = (
        "SELECT r.id, r.branch, r.turn FROM json_each(?) j CROSS JOIN records r ON r.id = j.value"
    )
    best: list[int] = []
    while len(best) < _CANDIDATES and (part := list(islice(order, _CANDIDATES))):
        rows = asking.connection.execute(query, (json.dumps(part),))
        best += [record for record, branch, turn in rows if turn <= asking.seen.get(branch, 0)]
    return best[:_CANDIDATES]


def _members(asking: Query, efforts: Sequence[str]) -> list[Row]:
    query = (
        "SELECT r.id, r.turn, r.length, m.effort FROM json_each(?) j"
        " CROSS JOIN members m ON m.effort = j.value AND m.branch = ? AND m.turn <= ?"
        " CROSS JOIN records r ON r.branch = m.branch AND r.turn = m.turn"
    )
    return _of_segments(asking, query, efforts)


def _ambient(asking: Query, turns: Sequence[int]) -> list[Row]:
    query = (
        "SELECT r.id, r.turn, r.length, NULL FROM json_each(?) j"
        " CROSS JOIN ambient a ON a.turn = j.value AND a.branch = ? AND a.turn <= ?"
        " CROSS JOIN records r ON r.branch = a.branch AND r.turn = a.turn"
    )
    return _of_segments(asking, query, turns)


def _of_segments(asking: Query, query: str, wanted: Sequence[int] | Sequence[str]) -> list[Row]:
    listed = json.dumps(wanted)
    return [
        Row(*row)
        for branch, upto in asking.seen.items()
        for row in asking.connection.execute(query, (listed, branch, upto))
    ]


def _turns(rows: Sequence[Row], asking: Query) -> dict[int, Turn]:
    at = {(row.effort, row.turn): key for key, row in enumerate(rows)}
    says = asking.says(rows)
    return {
        key: Turn(
            says=says.get(row.record, {}),
            length=row.length,
            near=tuple(
                at[row.effort, turn]
                for turn in (row.turn - 1, row.turn + 1)
                if (row.effort, turn) in at
            ),
            effort=row.effort,
        )
        for key, row in enumerate(rows)
    }


def _topics(turns: Mapping[int, Turn], asking: Query) -> dict[str, Topic]:
    groups: dict[str, list[Turn]] = {name: [] for name in _headings(asking)}
    for turn in turns.values():
        if turn.effort is not None:
            groups.setdefault(turn.effort, []).append(turn)
    return {name: _topic(asking.heading(name), group) for name, group in groups.items()}


def _topic(heading: Says, turns: Sequence[Turn]) -> Topic:
    says = summed([heading, *(turn.says for turn in turns)])
    return Topic(says, sum(turn.length for turn in turns))


def _found(asking: Query, ranking: Ranking) -> tuple[Found, ...]:
    rows, turns = ranking.rows, ranking.scores.turns
    best = {
        rows[key].effort: rows[key].turn
        for key in sorted(turns, key=lambda k: (turns[k], rows[k].turn))
    }
    efforts = [
        Found(
            effort=name,
            turn=best.get(name) or _heading_turn(asking, name),
            score=value,
            said=frozenset(ranking.topics[name].says),
        )
        for name, value in ranking.scores.efforts.items()
    ]
    says = asking.says(row for row in rows if row.effort is None)
    ambient = [
        Found(None, row.turn, turns[key], frozenset(says.get(row.record, ())))
        for key, row in enumerate(rows)
        if row.effort is None and (row.record in says or key in ranking.near)
    ]
    matching = (found for found in (*efforts, *ambient) if found.score > 0)
    return tuple(sorted(matching, key=lambda one: (-one.score, -one.turn, one.effort or "")))


def _heading_turn(asking: Query, name: str) -> int:
    if asking.near and name in asking.near.headings.turns:
        return asking.near.headings.turns[name]
    return max(newest.get(name, 0) for newest in asking.headed.values())
