"""The archive as seen from a tip: which records, efforts and compressions there are.

What is asked costs as much in a long session as in a short one; a lineage is seldom of more than
one branch, so that each question is one statement. Statements are built once: to build one takes
several times as long as to run it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy import BindParameter, Connection, CursorResult, Row, Select, bindparam, select

from ..efforts import Effort, changed
from ..embeddings import Matrix
from ..lately import Lately
from ..record import Record, Tip
from ..salience import Compression, from_data
from .index import any_of
from .protocol import EffortList
from .records import left_by, record_of, unzipped
from .schema import branches, changes, compressions, members, turns

T = TypeVar("T")

AMBIENT = "\0"
"""Stands for no effort among the members; no effort can be called so."""

_FEW = 64
"""Names that are looked up one by one; of more, those that a session of few efforts has."""

_NAMED_AT_MOST = 2_000
"""Names of efforts of a session that are held; a text of the usual length has about as many."""

_CARRIED = 500
"""Efforts that are known of a turn from the turn before it: more than are ever in a context."""

RECORDS = 500
"""Records that are held, of all sessions together."""

LARGE = 50_000
"""Characters from which on a record is read again instead."""

VECTORS = 256 << 20
"""Bytes of vectors that are held, of all sessions together: three sessions of 10,000 efforts."""

_SPARE = 8
"""Further changes that are read at once: an effort seldom changes its status more than twice."""

RECORD = (
    *(turns.c.id, turns.c.branch, turns.c.turn, turns.c.digest, turns.c.parent, turns.c.status),
    *(turns.c.at, turns.c.efforts, turns.c.events, turns.c.messages),
)


_UPTO: BindParameter[int] = bindparam("upto")
_MOST: BindParameter[int] = bindparam("most")


def _on_branch(table: Any) -> tuple[Any, ...]:
    """Return the conditions of a row on the part of a branch that a segment sees."""
    own = table.c.session == bindparam("session")
    return own, table.c.branch == bindparam("branch"), table.c.turn <= _UPTO


_AMBIENT = (
    select(members.c.turn)
    .where(*_on_branch(members), members.c.effort == AMBIENT)
    .order_by(members.c.turn.desc())
    .limit(_MOST)
)
_COUNTS = (
    select(turns.c.ambient, turns.c.efforts_seen)
    .where(*_on_branch(turns))
    .order_by(turns.c.turn.desc())
    .limit(1)
)
_NAMED = select(changes).where(
    changes.c.session == bindparam("session"), any_of(changes.c.effort, "names")
)
_OF_EFFORT = select(members.c.branch, members.c.turn).where(
    members.c.session == bindparam("session"), members.c.effort == bindparam("effort")
)
_COMPRESSION = (
    select(compressions.c.made)
    .where(*_on_branch(compressions), compressions.c.effort == bindparam("effort"))
    .order_by(compressions.c.turn.desc())
    .limit(1)
)
_CHANGED = (
    select(changes)
    .where(*_on_branch(changes))
    .order_by(changes.c.turn.desc(), changes.c.id.desc())
    .offset(bindparam("skipped"))
    .limit(_MOST)
)
_NAMES = (
    select(changes.c.effort).where(changes.c.session == bindparam("session")).distinct()
).limit(_MOST)
BRANCH = select(branches.c.first, branches.c.last, branches.c.ancestors).where(
    branches.c.session == bindparam("session"), branches.c.branch == bindparam("branch")
)


@lru_cache
def _turns(*wanted: Any) -> Select[Any]:
    """Return the query for columns of turns of a branch by their numbers."""
    own = turns.c.session == bindparam("session")
    return select(*wanted).where(
        own, turns.c.branch == bindparam("branch"), any_of(turns.c.turn, "numbers")
    )


@dataclass(frozen=True, slots=True)
class Segment:
    """The part of one branch that a lineage sees: turns up to and including `upto`."""

    branch: str
    upto: int


@dataclass(frozen=True, slots=True)
class Branch:
    """Where a branch begins: its first turn, and its ancestors, the nearest first.

    Of each ancestor its name, the last turn of it that is seen, and its first turn. Nothing of it
    ever changes.
    """

    first: int
    ancestors: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """What was asked of a lineage: the efforts as they were left, if any, and other answers."""

    efforts: dict[str, Effort | None] = field(default_factory=dict)
    answers: dict[Any, Any] = field(default_factory=dict)

    def after(self, record: Record) -> "Known":
        """Return what is known, brought up to date with one more turn."""
        # Other threads add to both meanwhile; an effort is there before an answer that has it.
        answers, efforts = self.answers.copy(), self.efforts.copy()
        left: dict[str, Effort] = {}
        for effort in reversed(left_by(record)):
            left.setdefault(effort.id, effort)
        kept = {name: one for name, one in efforts.items() if one and name not in left}
        known = Known({**dict([*kept.items()][-_CARRIED:]), **left})
        if not efforts.keys() >= left.keys():  # whether there were such efforts is not known
            return known
        fresh = sum(efforts[name] is None for name in left)
        for (kind, of), answer in answers.items():
            if kind == "ambient":
                found = answer if record.efforts else (*answer, record.turn)
                known.answers[kind, of] = found[max(0, len(found) - of) :]
            elif kind == "turns":
                known.answers[kind, of] = (*answer, *[record.turn] * (of in record.efforts))
            elif kind == "counts":
                known.answers[kind, of] = (answer[0] + (not record.efforts), answer[1] + fresh)
            elif kind == "efforts":
                newest = {**left, **{one.id: one for one in answer.efforts if one.id in kept}}
                listed = EffortList((*newest.values(),)[:of], answer.total + fresh)
                known.answers[kind, of] = listed
            elif kind == "names":
                known.answers[kind, of] = None if answer is None else answer.union(left)
            elif kind == "compression":
                known.answers[kind, of] = answer
        return known


@dataclass(frozen=True, slots=True)
class Lineage:
    """What one tip of a session sees, newest branch first; `firsts`: the first turn of each.

    What was asked of it is kept in `known`, and its records are `held` for all lineages of the same
    `edition` of a session, which is another one when a record loses something, or an older one got
    a vector; so are its `vectors`. `read` has the records that were asked for in this moment, some
    hundred times in a turn.
    """

    connect: Callable[[], Connection]
    session: int
    segments: tuple[Segment, ...]
    firsts: Mapping[str, int]
    known: Known = field(default_factory=Known)
    held: Lately[Record] = field(default_factory=lambda: Lately(RECORDS))
    vectors: Lately[Matrix] = field(default_factory=lambda: Lately(0, attrgetter("size")))
    edition: tuple[int, ...] = ()
    read: dict[int, Record] = field(default_factory=dict)

    @property
    def connection(self) -> Connection:
        """The connection over which it is read, made when something is."""
        return self.connect()

    @property
    def seen(self) -> Mapping[str, int]:
        """By branch, the last turn of it that is seen."""
        return {segment.branch: segment.upto for segment in self.segments}

    def sees(self, branch: str, turn: int) -> bool:
        """Tell whether a turn of a branch is seen."""
        return turn <= self.seen.get(branch, 0)

    def turns(self, numbers: Sequence[int]) -> tuple[Record, ...]:
        """Return the records of these turns, ascending."""
        records = {number: self.read[number] for number in numbers if number in self.read}
        missing = [number for number in numbers if number not in records]
        if missing:
            records |= self._read(missing)
        return tuple(records[number] for number in sorted(records))

    def _read(self, numbers: Sequence[int]) -> dict[int, Record]:
        records: dict[int, Record] = {}
        for segment, wanted in self._parted(numbers):
            place = self.edition, segment.branch
            held = {n: record for n in wanted if (record := self.held.get((*place, n)))}
            self.read.update(islice(held.items(), max(0, RECORDS - len(self.read))))
            missing = [number for number in wanted if number not in held]
            for row in self._rows(_turns(*RECORD), segment, missing):
                held[row.turn] = record_of(row, self.origin(row.branch, row.turn))
                if len(row.messages) < LARGE:
                    self.held.put((*place, row.turn), held[row.turn])
            records |= held
        return records

    def tips(self, numbers: Iterable[int]) -> Mapping[int, Tip]:
        """Return the tips of these turns, as far as they are seen."""
        rows = self._numbered(_turns(turns.c.branch, turns.c.turn, turns.c.digest), [*numbers])
        return {row.turn: tip_at(row) for row in rows}

    def row(self, turn: int, *wanted: Any) -> Row[Any] | None:
        """Return columns of the row of a turn, None if it is not seen."""
        return next(self._numbered(_turns(*wanted), [turn]), None)

    def origin(self, branch: str, turn: int) -> tuple[str, int] | None:
        """Return where a branch began, if it began with this turn and is no root."""
        names = [segment.branch for segment in self.segments]
        after = names.index(branch) + 1
        if self.firsts.get(branch) != turn or after == len(names):
            return None
        return names[after], self.segments[after].upto

    def ambient(self, last: int) -> tuple[int, ...]:
        """Return the newest ambient turns, up to `last`, ascending."""
        return self.once("ambient", last, lambda: self._ambient(last))

    def _ambient(self, last: int) -> tuple[int, ...]:
        numbers: list[int] = []
        for segment in self.segments:
            if len(numbers) >= last:
                break
            numbers += self._asked(_AMBIENT, segment, most=last - len(numbers)).scalars()
        return tuple(reversed(numbers))

    def counts(self) -> tuple[int, int]:
        """Count the ambient turns and the efforts."""
        return self.once("counts", "", self._counts)

    def _counts(self) -> tuple[int, int]:
        for segment in self.segments:
            row = self._asked(_COUNTS, segment).first()
            if row is not None:
                return row.ambient, row.efforts_seen
        return 0, 0

    def changes(self, ids: Sequence[str]) -> Mapping[str, Row[Any]]:
        """Return the newest change of each of these efforts, as far as there are such efforts."""
        answer = self.connection.execute(_NAMED, {"session": self.session, "names": [*ids]})
        rows = [row for row in answer if self.sees(row.branch, row.turn)]
        rows.sort(key=lambda row: (row.turn, row.id))
        return {row.effort: row for row in rows}

    def efforts_named(self, ids: Sequence[str]) -> tuple[Effort, ...]:
        """Return the efforts of these ids that there are, in their order."""
        asked, known = self._likely(ids), self.known.efforts
        unknown = [name for name in asked if name not in known]
        if unknown:
            rows = self.changes(unknown)
            known.update((n, effort_of(rows[n]) if n in rows else None) for n in unknown)
        return tuple(effort for name in asked if (effort := known[name]))

    def effort_turns(self, effort: str) -> tuple[int, ...]:
        """Return the turns of an effort, ascending."""
        return self.once("turns", effort, lambda: self._effort_turns(effort))

    def _effort_turns(self, effort: str) -> tuple[int, ...]:
        rows = self.connection.execute(_OF_EFFORT, {"session": self.session, "effort": effort})
        return tuple(sorted(row.turn for row in rows if self.sees(row.branch, row.turn)))

    def efforts(self, newest: int) -> EffortList:
        """Return the efforts that changed last, and how many there are."""
        return self.once("efforts", newest, lambda: self._efforts(newest))

    def _efforts(self, newest: int) -> EffortList:
        _, total = self.counts()
        found: dict[str, Effort] = {}
        for row in self._changed(min(newest, total)) if newest and total else ():
            if len(found) >= min(newest, total):
                break
            found.setdefault(row.effort, effort_of(row))
        return EffortList(tuple(found.values()), total)

    def compression(self, effort: str) -> Compression | None:
        """Return the newest compression of an effort, None if there is none."""
        return self.once("compression", effort, lambda: self._compression(effort))

    def _compression(self, effort: str) -> Compression | None:
        for segment in self.segments:
            data = self._asked(_COMPRESSION, segment, effort=effort).scalar()
            if data is not None:
                return from_data(json.loads(unzipped(data)))
        return None

    def _likely(self, ids: Sequence[str]) -> Sequence[str]:
        """Return those of these names that the session may have; of few names, all."""
        names = self.once("names", "", self._names) if len(ids) > _FEW else None
        return ids if names is None else [name for name in ids if name in names]

    def _names(self) -> frozenset[str] | None:
        """Return all names of efforts, None if there are too many to be held."""
        asked = {"session": self.session, "most": _NAMED_AT_MOST + 1}
        names = frozenset(self.connection.execute(_NAMES, asked).scalars())
        return names if len(names) <= _NAMED_AT_MOST else None

    def once(self, kind: str, of: Any, read: Callable[[], T]) -> T:
        """Return the answer to a question of a kind, read if it is not known."""
        key = kind, of
        if key not in self.known.answers:
            self.known.answers[key] = read()
        answer: T = self.known.answers[key]
        return answer

    def _changed(self, at_once: int) -> Iterator[Row[Any]]:
        """Yield the changes, newest first."""
        for segment in self.segments:
            at, size = 0, at_once * 2 + _SPARE
            while rows := self._asked(_CHANGED, segment, skipped=at, most=size).all():
                yield from rows
                at += size

    def _numbered(self, query: Select[Any], numbers: Sequence[int]) -> Iterator[Row[Any]]:
        """Yield the rows of turns of these numbers, as far as they are seen."""
        for segment, wanted in self._parted(numbers):
            yield from self._rows(query, segment, wanted)

    def _parted(self, numbers: Sequence[int]) -> Iterator[tuple[Segment, list[int]]]:
        """Yield each segment with those of these turns that it sees."""
        floors = [*(segment.upto for segment in self.segments[1:]), 0]
        for segment, floor in zip(self.segments, floors, strict=True):
            yield segment, [number for number in numbers if floor < number <= segment.upto]

    def _rows(self, query: Select[Any], segment: Segment, numbers: list[int]) -> Iterable[Row[Any]]:
        if not numbers:
            return ()
        asked = {"session": self.session, "branch": segment.branch, "numbers": numbers}
        return self.connection.execute(query, asked)

    def _asked(self, query: Select[Any], segment: Segment, **rest: Any) -> CursorResult[Any]:
        place = {"session": self.session, "branch": segment.branch, "upto": segment.upto}
        return self.connection.execute(query, {**place, **rest})


def lineage(
    connect: Callable[[], Connection], session: int, tip: Tip, branch: Branch | None, **kept: Any
) -> Lineage:
    """Return what a tip sees, given its branch, None if the archive has no such branch.

    A segment sees no more of its branch than the one before it, which may end before it began.
    """
    segments, firsts = [Segment(tip.branch, tip.turn)], {}
    if branch is not None:
        firsts[tip.branch] = branch.first
        for name, upto, first in branch.ancestors:
            segments.append(Segment(name, min(upto, segments[-1].upto)))
            firsts[name] = first
    return Lineage(connect, session, tuple(segments), firsts, **kept)


def branch_of(connection: Connection, session: int, name: str) -> Branch | None:
    """Return where a branch begins, None if there is no such branch."""
    row = connection.execute(BRANCH, {"session": session, "branch": name}).first()
    return None if row is None else beginning(row)


def beginning(row: Any) -> Branch:
    """Return where the branch of a row begins."""
    return Branch(
        row.first,
        tuple((ancestor[0], ancestor[1], ancestor[2]) for ancestor in json.loads(row.ancestors)),
    )


def effort_of(row: Any) -> Effort:
    """Return an effort as a change left it."""
    effort = changed(json.loads(row.entry), row.turn)
    if effort is None:
        raise ValueError(f"{row.entry[:80]!r} changes no effort")
    return effort


def tip_at(row: Any) -> Tip:
    """Return the tip of a row of turns."""
    return Tip(row.branch, row.turn, row.digest)
