"""What a tip sees of its session: records, efforts and compressions.

A question costs as much in a long session as in a short one: a lineage seldom has more than one
branch, so that one statement answers it. Statements are built once, since building one takes
several times as long as running it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from operator import attrgetter
from typing import Any, NamedTuple, Self, TypeVar, TypeVarTuple

from sqlalchemy import Connection, CursorResult, Row, Select, bindparam, select

from ..compressions import Compression, from_data
from ..efforts import Effort, changed
from ..embeddings import Matrix
from ..errors import SessionNotFoundError
from ..lru_cache import LruCache
from ..names import session_name
from ..record import Owner, Record, Tip
from .index import any_of
from .protocol import EffortList
from .records import left_by, record_of, unzipped
from .schema import branches, changes, compressions, members, sessions, turns, users

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

AMBIENT = "\0"
"""Stands for "no effort" in the table `members`; no effort can have this name."""

_FEW = 64
"""Names that are looked up at once; of more, only those that the session has are looked up."""

_MOST_NAMES = 2_000
"""Effort names of a session that are cached; a text of the usual length has about as many."""

_MOST_EFFORTS = 500
"""Efforts that stay cached after a turn: more than are ever in a context."""

RECORDS = 500
"""Records that are cached, of all sessions together."""

LARGE = 50_000
"""Characters from which on a record is not cached but read again."""

_SPARE = 8
"""Further changes that are read at once: an effort seldom changes its status more than twice."""

TIP = (turns.c.branch, turns.c.turn, turns.c.digest)
RECORD = (
    *(turns.c.id, turns.c.branch, turns.c.turn, turns.c.digest, turns.c.parent, turns.c.status),
    *(turns.c.at, turns.c.efforts, turns.c.events, turns.c.messages),
)


def _in_segment(table: Any) -> tuple[Any, ...]:
    """Return the conditions of a row in the part of a branch that a segment is."""
    own = table.c.session == bindparam("session")
    return own, table.c.branch == bindparam("branch"), table.c.turn <= bindparam("last")


_AMBIENT = (
    select(members.c.turn)
    .where(*_in_segment(members), members.c.effort == AMBIENT)
    .order_by(members.c.turn.desc())
    .limit(bindparam("limit"))
)
_COUNTS = (
    select(turns.c.ambient, turns.c.efforts_seen)
    .where(*_in_segment(turns))
    .order_by(turns.c.turn.desc())
    .limit(1)
)
_SESSION = (
    select(sessions)
    .join(users, users.c.id == sessions.c.owner)
    .where(users.c.name == bindparam("user"), sessions.c.name == bindparam("name"))
)
_SESSION_LOCKED = _SESSION.with_for_update(of=sessions)
_CHANGES_NAMED = select(changes).where(
    changes.c.session == bindparam("session"), any_of(changes.c.effort, "names")
)
CHANGES = select(changes.c.id, changes.c.effort, changes.c.branch, changes.c.turn).where(
    any_of(changes.c.id, "ids")
)
_EFFORT_TURNS = select(members.c.branch, members.c.turn).where(
    members.c.session == bindparam("session"), members.c.effort == bindparam("effort")
)
_COMPRESSION = (
    select(compressions.c.made)
    .where(*_in_segment(compressions), compressions.c.effort == bindparam("effort"))
    .order_by(compressions.c.turn.desc())
    .limit(1)
)
_NEWEST_CHANGES = (
    select(changes)
    .where(*_in_segment(changes))
    .order_by(changes.c.turn.desc(), changes.c.id.desc())
    .offset(bindparam("skipped"))
    .limit(bindparam("limit"))
)
_EFFORT_NAMES = (
    select(changes.c.effort).where(changes.c.session == bindparam("session")).distinct()
).limit(bindparam("limit"))
BRANCH = select(branches.c.first, branches.c.last, branches.c.ancestors).where(
    branches.c.session == bindparam("session"), branches.c.branch == bindparam("branch")
)


@lru_cache
def _turns(*columns: Any) -> Select[Any]:
    """Return the query for columns of turns of a branch by their numbers."""
    own = turns.c.session == bindparam("session")
    return select(*columns).where(
        own, turns.c.branch == bindparam("branch"), any_of(turns.c.turn, "numbers")
    )


@dataclass(frozen=True, slots=True)
class Session:
    """A session: its id, its user's id, how many records it has, how often some were rewritten.

    `branch` is the one that was committed to last.
    """

    id: int
    owner: int
    turns: int
    rewritten: int
    branch: str

    @classmethod
    def of(cls, connection: Connection, owner: Owner, *, lock: bool = False) -> Self:
        """Return the session of an owner; raises `SessionNotFoundError`.

        `lock`: other writers of the session wait for the end of the transaction.
        """
        key = {"user": owner.user, "name": session_name(owner)}
        row = connection.execute(_SESSION_LOCKED if lock else _SESSION, key).first()
        if row is None:
            raise SessionNotFoundError(owner.thread)
        return cls.from_row(row)

    @classmethod
    def from_row(cls, row: Any) -> Self:
        """Return the session of a row of `sessions`."""
        return cls(row.id, row.owner, row.turns, row.rewritten, row.branch)


class Segment(NamedTuple):
    """The part of one branch that a lineage sees: its turns from `first` to `last`.

    The table `branches` stores the fields in this order.
    """

    branch: str
    last: int
    first: int


@dataclass(frozen=True, slots=True)
class Branch:
    """The beginning of a branch: its first turn and the segments before it; it never changes."""

    first: int
    ancestors: tuple[Segment, ...] = ()

    @classmethod
    def from_row(cls, row: Any) -> Self:
        """Return the branch of a row of `branches`."""
        return cls(row.first, tuple(Segment(*ancestor) for ancestor in json.loads(row.ancestors)))

    @classmethod
    def named(cls, connection: Connection, session: int, name: str) -> Self | None:
        """Return the branch of a name, None if the session has none."""
        row = connection.execute(BRANCH, {"session": session, "branch": name}).first()
        return None if row is None else cls.from_row(row)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The segments that a tip sees, and what was read from them: efforts and other answers.

    The segment of the tip's own branch comes first. An effort that was looked up and does not exist
    is None.
    """

    segments: tuple[Segment, ...]
    efforts: dict[str, Effort | None] = field(default_factory=dict)
    answers: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, tip: Tip, branch: Branch | None) -> Self:
        """Return what a tip sees, given its branch, None if the archive has no such branch.

        A branch may end before its ancestor does: then no more is seen of the ancestor either.
        """
        segments = [Segment(tip.branch, tip.turn, branch.first if branch else 0)]
        for ancestor in branch.ancestors if branch else ():
            segments.append(ancestor._replace(last=min(ancestor.last, segments[-1].last)))
        return cls(tuple(segments))

    def after(self, record: Record) -> "Snapshot":
        """Return the snapshot of the next turn, so that a commit need not be followed by reads."""
        answers, efforts = self.answers.copy(), self.efforts.copy()  # other threads add to both
        changed_now: dict[str, Effort] = {}
        for effort in reversed(left_by(record)):
            changed_now.setdefault(effort.id, effort)
        older = {
            name: effort for name, effort in efforts.items() if effort and name not in changed_now
        }
        own, *ancestors = self.segments
        own = Segment(own.branch, record.turn, own.first or record.turn)
        snapshot = Snapshot(
            (own, *ancestors), {**dict([*older.items()][-_MOST_EFFORTS:]), **changed_now}
        )
        if not efforts.keys() >= changed_now.keys():  # how many efforts are new cannot be told
            return snapshot
        new = sum(efforts[name] is None for name in changed_now)
        for (question, arguments), answer in answers.items():
            match question:
                case "ambient":
                    numbers = answer if record.efforts else (*answer, record.turn)
                    updated = numbers[max(0, len(numbers) - arguments[0]) :]
                case "effort_turns":
                    updated = (*answer, record.turn) if arguments[0] in record.efforts else answer
                case "counts":
                    updated = answer[0] + (not record.efforts), answer[1] + new
                case "efforts":
                    unchanged = (one for one in answer.efforts if one.id not in changed_now)
                    listed = (*changed_now.values(), *unchanged)[: arguments[0]]
                    updated = EffortList(listed, answer.total + new)
                case "_effort_names":
                    updated = None if answer is None else answer.union(changed_now)
                case "compression":
                    updated = answer
                case _:  # a search must look at the new turn
                    continue
            snapshot.answers[question, arguments] = updated
        return snapshot


def _cached(read: Callable[["Lineage", *Ts], T]) -> Callable[["Lineage", *Ts], T]:
    """Cache the answers of a method; `Snapshot.after` knows the methods by their names."""

    @wraps(read)
    def answer(lineage: "Lineage", *args: *Ts) -> T:
        return lineage.cached(read.__name__, args, lambda: read(lineage, *args))

    return answer


@dataclass(frozen=True, slots=True)
class Lineage:
    """What one tip of a session sees.

    `records` and `vectors` are caches that lineages share. Their keys have the `edition` of the
    session, which changes when a record loses something or an older one gets a vector.
    """

    connect: Callable[[], Connection]
    session: Session
    snapshot: Snapshot
    records: LruCache[Record] = field(default_factory=lambda: LruCache(RECORDS))
    vectors: LruCache[Matrix] = field(default_factory=lambda: LruCache(0, attrgetter("size")))
    edition: tuple[int, ...] = ()

    @property
    def connection(self) -> Connection:
        """The connection to read from, opened when it is first needed."""
        return self.connect()

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments that the tip sees, the newest first."""
        return self.snapshot.segments

    def sees(self, branch: str, turn: int) -> bool:
        """Tell whether the tip sees a turn of a branch."""
        return any(segment.branch == branch and turn <= segment.last for segment in self.segments)

    def visible(self, query: Any, **parameters: Any) -> list[Row[Any]]:
        """Return the rows of a query whose columns `branch` and `turn` the tip sees."""
        last_turns = {segment.branch: segment.last for segment in self.segments}
        rows = self.connection.execute(query, {"session": self.session.id, **parameters}).all()
        return [row for row in rows if row.turn <= last_turns.get(row.branch, 0)]

    def turns(self, numbers: Sequence[int]) -> tuple[Record, ...]:
        """Return the records of these turns, ascending."""
        by_number: dict[int, Record] = {}
        for segment, part in self._by_segment(numbers):
            for number in part:
                if record := self.records.get((self.edition, segment.branch, number)):
                    by_number[number] = record
        for row in self._rows([number for number in numbers if number not in by_number], RECORD):
            record = by_number[row.turn] = record_of(row, self.origin(row.branch, row.turn))
            if len(row.messages) < LARGE:
                self.records.put((self.edition, row.branch, row.turn), record)
        return tuple(by_number[number] for number in sorted(by_number))

    def tips(self, numbers: Iterable[int]) -> Mapping[int, Tip]:
        """Return the tips of those of these turns that are seen."""
        return {row.turn: Tip(*row) for row in self._rows([*numbers], TIP)}

    def row(self, turn: int, *columns: Any) -> Row[Any] | None:
        """Return columns of the row of a turn, None if it is not seen."""
        return next(self._rows([turn], columns), None)

    def origin(self, branch: str, turn: int) -> tuple[str, int] | None:
        """Return the branch and turn that a branch left, if it began with this turn."""
        for segment, before in zip(self.segments, self.segments[1:], strict=False):
            if (segment.branch, segment.first) == (branch, turn):
                return before.branch, before.last
        return None

    @_cached
    def ambient(self, limit: int) -> tuple[int, ...]:
        """Return the `limit` newest ambient turns, ascending."""
        numbers: list[int] = []
        for segment in self.segments:
            if len(numbers) >= limit:
                break
            numbers += self._execute(_AMBIENT, segment, limit=limit - len(numbers)).scalars()
        return tuple(reversed(numbers))

    @_cached
    def counts(self) -> tuple[int, int]:
        """Return how many ambient turns there are, and how many efforts."""
        for segment in self.segments:
            row = self._execute(_COUNTS, segment).first()
            if row is not None:
                return row.ambient, row.efforts_seen
        return 0, 0

    def changes(self, ids: Sequence[str]) -> Mapping[str, Row[Any]]:
        """Return the newest change of each of these efforts, without those that do not exist."""
        rows = self.visible(_CHANGES_NAMED, names=[*ids])
        return {row.effort: row for row in sorted(rows, key=lambda row: (row.turn, row.id))}

    def efforts_named(self, ids: Sequence[str]) -> tuple[Effort, ...]:
        """Return the efforts of these ids that exist, in the order of the ids."""
        existing = self._effort_names() if len(ids) > _FEW else None
        candidates = ids if existing is None else [name for name in ids if name in existing]
        efforts = self.snapshot.efforts
        unread = [name for name in candidates if name not in efforts]
        if unread:
            rows = self.changes(unread)
            efforts.update(
                (name, effort_of(rows[name]) if name in rows else None) for name in unread
            )
        return tuple(effort for name in candidates if (effort := efforts[name]))

    @_cached
    def _effort_names(self) -> frozenset[str] | None:
        """Return the names of all efforts of the session, None if they are too many to cache."""
        parameters = {"session": self.session.id, "limit": _MOST_NAMES + 1}
        names = frozenset(self.connection.execute(_EFFORT_NAMES, parameters).scalars())
        return names if len(names) <= _MOST_NAMES else None

    @_cached
    def effort_turns(self, effort: str) -> tuple[int, ...]:
        """Return the turns of an effort, ascending."""
        return tuple(sorted(row.turn for row in self.visible(_EFFORT_TURNS, effort=effort)))

    @_cached
    def efforts(self, limit: int) -> EffortList:
        """Return the `limit` efforts that changed last, and how many efforts there are."""
        _, total = self.counts()
        number = min(limit, total)
        efforts: dict[str, Effort] = {}
        for row in self._newest_changes(number) if number > 0 else ():
            if len(efforts) >= number:
                break
            efforts.setdefault(row.effort, effort_of(row))
        return EffortList(tuple(efforts.values()), total)

    @_cached
    def compression(self, effort: str) -> Compression | None:
        """Return the newest compression of an effort, None if there is none."""
        for segment in self.segments:
            data = self._execute(_COMPRESSION, segment, effort=effort).scalar()
            if data is not None:
                return from_data(json.loads(unzipped(data)))
        return None

    def cached(self, question: str, arguments: Any, read: Callable[[], T]) -> T:
        """Return the cached answer to a question, which `read` answers the first time."""
        key = question, arguments
        if key not in self.snapshot.answers:
            self.snapshot.answers[key] = read()
        answer: T = self.snapshot.answers[key]
        return answer

    def _newest_changes(self, efforts: int) -> Iterator[Row[Any]]:
        """Yield the changes, newest first, in pages that have about so many efforts."""
        for segment in self.segments:
            skipped, size = 0, efforts * 2 + _SPARE
            while rows := self._execute(
                _NEWEST_CHANGES, segment, skipped=skipped, limit=size
            ).all():
                yield from rows
                skipped += size

    def _by_segment(self, numbers: Sequence[int]) -> Iterator[tuple[Segment, list[int]]]:
        """Yield each segment with those of these turns that it has."""
        floors = [*(segment.last for segment in self.segments[1:]), 0]
        for segment, floor in zip(self.segments, floors, strict=True):
            yield segment, [number for number in numbers if floor < number <= segment.last]

    def _rows(self, numbers: Sequence[int], columns: tuple[Any, ...]) -> Iterator[Row[Any]]:
        """Yield columns of the rows of those of these turns that are seen."""
        for segment, part in self._by_segment(numbers):
            if part:
                yield from self._execute(_turns(*columns), segment, numbers=part)

    def _execute(
        self, query: Select[Any], segment: Segment, **parameters: Any
    ) -> CursorResult[Any]:
        place = {"session": self.session.id, "branch": segment.branch, "last": segment.last}
        return self.connection.execute(query, {**place, **parameters})


def effort_of(row: Any) -> Effort:
    """Return an effort as the change in a row left it."""
    effort = changed(json.loads(row.entry), row.turn)
    if effort is None:
        raise ValueError(f"{row.entry[:80]!r} changes no effort")
    return effort
