"""A session as seen from a tip: which records, efforts and compressions there are.

What is asked costs as much in a long session as in a short one; a lineage is seldom of more than
one branch, so that each question is one statement. Statements are built once: to build one takes
several times as long as to run it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple, Self, TypeVar, TypeVarTuple

from sqlalchemy import BindParameter, Connection, CursorResult, Row, Select, bindparam, select

from ..efforts import Effort, changed
from ..embeddings import Matrix
from ..errors import SessionNotFoundError
from ..lru_cache import LruCache
from ..names import session_name
from ..record import Owner, Record, Tip
from ..salience import Compression, from_data
from .index import any_of
from .protocol import EffortList
from .records import left_by, record_of, unzipped
from .schema import branches, changes, compressions, members, sessions, turns, users

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

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

_SPARE = 8
"""Further changes that are read at once: an effort seldom changes its status more than twice."""

TIP = (turns.c.branch, turns.c.turn, turns.c.digest)
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
_SESSION = (
    select(
        *(sessions.c.id, sessions.c.owner, sessions.c.name),
        *(sessions.c.turns, sessions.c.rewritten, sessions.c.branch),
    )
    .join(users, users.c.id == sessions.c.owner)
    .where(users.c.name == bindparam("user"), sessions.c.name == bindparam("named"))
)
_LOCKED = _SESSION.with_for_update(of=sessions)
_NAMED = select(changes).where(
    changes.c.session == bindparam("session"), any_of(changes.c.effort, "names")
)
CHANGES = select(changes.c.id, changes.c.effort, changes.c.branch, changes.c.turn).where(
    any_of(changes.c.id, "ids")
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
class Session:
    """A session: its number, its user's, how many records it has, how often some were rewritten.

    `branch` is the one that was committed to last.
    """

    id: int
    owner: int
    name: str
    turns: int
    rewritten: int
    branch: str

    @classmethod
    def of(cls, connection: Connection, owner: Owner, *, lock: bool = False) -> Self:
        """Return the session of an owner; raises `SessionNotFoundError`.

        `lock`: others who want to write to it wait for the transaction.
        """
        asked = {"user": owner.user, "named": session_name(owner)}
        row = connection.execute(_LOCKED if lock else _SESSION, asked).first()
        if row is None:
            raise SessionNotFoundError(owner.thread)
        return cls(*row)


class Segment(NamedTuple):
    """The part of one branch that a lineage sees: its turns from `first` to `upto`."""

    branch: str
    upto: int
    first: int


@dataclass(frozen=True, slots=True)
class Branch:
    """Where a branch begins: its first turn, and what it sees of others; it never changes."""

    first: int
    ancestors: tuple[Segment, ...] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of what a tip sees: which turns, efforts as they were left, other answers.

    The segments are in order, the one of the tip's branch first; of an effort that there is not,
    None is known.
    """

    segments: tuple[Segment, ...]
    efforts: dict[str, Effort | None] = field(default_factory=dict)
    answers: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, tip: Tip, branch: Branch | None) -> Self:
        """Return what a tip sees, given its branch, None if the archive has no such branch.

        Of an ancestor no more is seen than of the one before it, which may end before it began.
        """
        segments = [Segment(tip.branch, tip.turn, branch.first if branch else 0)]
        for ancestor in branch.ancestors if branch else ():
            segments.append(ancestor._replace(upto=min(ancestor.upto, segments[-1].upto)))
        return cls(tuple(segments))

    def after(self, record: Record) -> "Known":
        """Return what is known, brought up to date with one more turn."""
        answers, efforts = self.answers.copy(), self.efforts.copy()  # other threads add to both
        newest: dict[str, Effort] = {}
        for effort in reversed(left_by(record)):
            newest.setdefault(effort.id, effort)
        older = {name: effort for name, effort in efforts.items() if effort and name not in newest}
        own, *ancestors = self.segments
        own = Segment(own.branch, record.turn, own.first or record.turn)
        known = Known((own, *ancestors), {**dict([*older.items()][-_CARRIED:]), **newest})
        if not efforts.keys() >= newest.keys():  # whether there were such efforts is not known
            return known
        fresh = sum(efforts[name] is None for name in newest)
        for (kind, of), answer in answers.items():
            after = answer
            if kind == "ambient":
                numbers = answer if record.efforts else (*answer, record.turn)
                after = numbers[max(0, len(numbers) - of[0]) :]
            elif kind == "effort_turns":
                after = (*answer, record.turn) if of[0] in record.efforts else answer
            elif kind == "counts":
                after = answer[0] + (not record.efforts), answer[1] + fresh
            elif kind == "efforts":
                others = (effort for effort in answer.efforts if effort.id not in newest)
                listed = (*newest.values(), *others)[: of[0]]
                after = EffortList(listed, answer.total + fresh)
            elif kind == "_names":
                after = None if answer is None else answer.union(newest)
            elif kind != "compression":
                continue  # a search is made again
            known.answers[kind, of] = after
        return known


def _once(read: Callable[["Lineage", *Ts], T]) -> Callable[["Lineage", *Ts], T]:
    """Let a question to a lineage be read once; `Known.after` knows questions by their names."""

    @wraps(read)
    def answer(seen: "Lineage", *args: *Ts) -> T:
        return seen.once(read.__name__, args, lambda: read(seen, *args))

    return answer


@dataclass(frozen=True, slots=True)
class Lineage:
    """What one tip of a session sees.

    What was asked of it is kept in `known`, and its records in `cache` for all lineages of the same
    `edition` of a session, which is another one when a record loses something, or an older one got
    a vector; so are its `vectors`. `read` has the records that were asked for in this moment, some
    hundred times in a turn.
    """

    connect: Callable[[], Connection]
    session: int
    known: Known
    cache: LruCache[Record] = field(default_factory=lambda: LruCache(RECORDS))
    vectors: LruCache[Matrix] = field(default_factory=lambda: LruCache(0, attrgetter("size")))
    edition: tuple[int, ...] = ()
    read: dict[int, Record] = field(default_factory=dict)

    @property
    def connection(self) -> Connection:
        """The connection over which it is read, made when something is."""
        return self.connect()

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The parts of branches that it sees, the newest first."""
        return self.known.segments

    def sees(self, branch: str, turn: int) -> bool:
        """Tell whether a turn of a branch is seen."""
        return any(one.branch == branch and turn <= one.upto for one in self.segments)

    def visible(self, query: Any, **asked: Any) -> list[Row[Any]]:
        """Return the rows of a query that are of turns it sees; they have a branch and a turn."""
        upto = {segment.branch: segment.upto for segment in self.segments}
        rows = self.connection.execute(query, {"session": self.session, **asked}).all()
        return [row for row in rows if row.turn <= upto.get(row.branch, 0)]

    def turns(self, numbers: Sequence[int]) -> tuple[Record, ...]:
        """Return the records of these turns, ascending."""
        records = {number: self.read[number] for number in numbers if number in self.read}
        missing = [number for number in numbers if number not in records]
        for segment, wanted in self._parted(missing):
            place = self.edition, segment.branch
            cached = {n: record for n in wanted if (record := self.cache.get((*place, n)))}
            self.read.update(islice(cached.items(), max(0, RECORDS - len(self.read))))
            records |= cached
            uncached = [number for number in wanted if number not in cached]
            for row in self._numbered(segment, uncached, RECORD):
                record = record_of(row, self.origin(row.branch, row.turn))
                records[row.turn] = record
                if len(row.messages) < LARGE:
                    self.cache.put((*place, row.turn), record)
        return tuple(records[number] for number in sorted(records))

    def tips(self, numbers: Iterable[int]) -> Mapping[int, Tip]:
        """Return the tips of these turns, as far as they are seen."""
        parts = self._parted([*numbers])
        rows = (row for part in parts for row in self._numbered(*part, TIP))
        return {row.turn: Tip(*row) for row in rows}

    def row(self, turn: int, *wanted: Any) -> Row[Any] | None:
        """Return columns of the row of a turn, None if it is not seen."""
        rows = (row for part in self._parted([turn]) for row in self._numbered(*part, wanted))
        return next(rows, None)

    def origin(self, branch: str, turn: int) -> tuple[str, int] | None:
        """Return where a branch began, if it began with this turn and is no root."""
        for segment, before in zip(self.segments, self.segments[1:], strict=False):
            if (segment.branch, segment.first) == (branch, turn):
                return before.branch, before.upto
        return None

    @_once
    def ambient(self, last: int) -> tuple[int, ...]:
        """Return the newest ambient turns, up to `last`, ascending."""
        numbers: list[int] = []
        for segment in self.segments:
            if len(numbers) >= last:
                break
            numbers += self._asked(_AMBIENT, segment, most=last - len(numbers)).scalars()
        return tuple(reversed(numbers))

    @_once
    def counts(self) -> tuple[int, int]:
        """Count the ambient turns and the efforts."""
        for segment in self.segments:
            row = self._asked(_COUNTS, segment).first()
            if row is not None:
                return row.ambient, row.efforts_seen
        return 0, 0

    def changes(self, ids: Sequence[str]) -> Mapping[str, Row[Any]]:
        """Return the newest change of each of these efforts, as far as there are such efforts."""
        rows = self.visible(_NAMED, names=[*ids])
        return {row.effort: row for row in sorted(rows, key=lambda row: (row.turn, row.id))}

    def efforts_named(self, ids: Sequence[str]) -> tuple[Effort, ...]:
        """Return the efforts of these ids that there are, in their order."""
        names = self._names() if len(ids) > _FEW else None
        asked = ids if names is None else [name for name in ids if name in names]
        known = self.known.efforts
        unknown = [name for name in asked if name not in known]
        if unknown:
            rows = self.changes(unknown)
            known.update((n, effort_of(rows[n]) if n in rows else None) for n in unknown)
        return tuple(effort for name in asked if (effort := known[name]))

    @_once
    def _names(self) -> frozenset[str] | None:
        """Return all names of efforts of the session, None if there are too many to be kept."""
        asked = {"session": self.session, "most": _NAMED_AT_MOST + 1}
        names = frozenset(self.connection.execute(_NAMES, asked).scalars())
        return names if len(names) <= _NAMED_AT_MOST else None

    @_once
    def effort_turns(self, effort: str) -> tuple[int, ...]:
        """Return the turns of an effort, ascending."""
        return tuple(sorted(row.turn for row in self.visible(_OF_EFFORT, effort=effort)))

    @_once
    def efforts(self, newest: int) -> EffortList:
        """Return the efforts that changed last, and how many there are."""
        _, total = self.counts()
        wanted = min(newest, total)
        efforts: dict[str, Effort] = {}
        for row in self._changed(wanted) if wanted > 0 else ():
            if len(efforts) >= wanted:
                break
            efforts.setdefault(row.effort, effort_of(row))
        return EffortList(tuple(efforts.values()), total)

    @_once
    def compression(self, effort: str) -> Compression | None:
        """Return the newest compression of an effort, None if there is none."""
        for segment in self.segments:
            data = self._asked(_COMPRESSION, segment, effort=effort).scalar()
            if data is not None:
                return from_data(json.loads(unzipped(data)))
        return None

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

    def _parted(self, numbers: Sequence[int]) -> Iterator[tuple[Segment, list[int]]]:
        """Yield each segment with those of these turns that it sees."""
        floors = [*(segment.upto for segment in self.segments[1:]), 0]
        for segment, floor in zip(self.segments, floors, strict=True):
            yield segment, [number for number in numbers if floor < number <= segment.upto]

    def _numbered(
        self, segment: Segment, numbers: list[int], wanted: tuple[Any, ...]
    ) -> Iterable[Row[Any]]:
        return self._asked(_turns(*wanted), segment, numbers=numbers) if numbers else ()

    def _asked(self, query: Select[Any], segment: Segment, **more: Any) -> CursorResult[Any]:
        place = {"session": self.session, "branch": segment.branch, "upto": segment.upto}
        return self.connection.execute(query, {**place, **more})


def lineage(
    connect: Callable[[], Connection], session: int, tip: Tip, branch: Branch | None
) -> Lineage:
    """Return what a tip sees, given its branch; see `Known.of`."""
    return Lineage(connect, session, Known.of(tip, branch))


def branch_of(connection: Connection, session: int, name: str) -> Branch | None:
    """Return where a branch begins, None if there is no such branch."""
    row = connection.execute(BRANCH, {"session": session, "branch": name}).first()
    return None if row is None else beginning(row)


def beginning(row: Any) -> Branch:
    """Return where the branch of a row begins."""
    return Branch(row.first, tuple(Segment(*ancestor) for ancestor in json.loads(row.ancestors)))


def effort_of(row: Any) -> Effort:
    """Return an effort as a change left it."""
    effort = changed(json.loads(row.entry), row.turn)
    if effort is None:
        raise ValueError(f"{row.entry[:80]!r} changes no effort")
    return effort
