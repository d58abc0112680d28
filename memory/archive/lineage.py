"""What a tip sees of its session: turns, efforts and compressions.

A question costs as much in a long session as in a short one: a lineage seldom has more than one
run, so that one statement answers it. Statements are built once, since building one takes
several times as long as running it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import Any, NamedTuple, Self, TypeVar, TypeVarTuple

from cachetools import LRUCache
from sqlalchemy import Connection, CursorResult, Row, Select, bindparam, select

from ..compressions import Compression, from_data
from ..efforts import Effort, changed, left_by
from ..errors import SessionNotFoundError
from ..locks import CACHES
from ..messages import length
from ..names import session_name
from ..turn import Session, StoredTurn, Tip
from .index import any_of
from .protocol import EffortList
from .rows import turn_of, unzipped
from .schema import (
    ANCHOR,
    STORED,
    TURN_BITS,
    changes,
    compressions,
    members,
    passages_of,
    runs,
    sessions,
    turns,
    users,
)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

AMBIENT = "\0"
"""Stands for "no effort" in the table `members`; no effort can have this name."""


_FEW = 64
"""Names that are looked up at once; of more, only those that the session has are looked up."""

_MOST_NAMES = 2_000
"""Effort names of a session that are cached; a text of the usual length has about as many."""

_MOST_EFFORTS = 500
"""Efforts, and answers about one effort each, that stay cached after a turn: more than are ever in
a context. Without a bound what each turn copies would grow with the session."""

KEPT_TURNS = 500
"""Turns that are cached, of all sessions together; a large one counts as several."""

_LARGE = 50_000
"""Characters of each further turn that a large one counts as."""


def weight(turn: StoredTurn) -> int:
    """Return as how many turns one counts in the cache."""
    return min(KEPT_TURNS, 1 + length(turn.messages) // _LARGE)


_SPARE = 8
"""Further changes that are read at once: an effort seldom changes its status more than twice."""

TIP = (turns.c.turn, turns.c.hash)
STORED_TURN = (turns.c.id, *STORED.values())


def _in_segment(table: Any) -> tuple[Any, ...]:
    """Return the conditions of a row in the part of a run that a segment is."""
    return table.c.run == bindparam("run"), table.c.place <= bindparam("last")


_AMBIENT = (
    select(members.c.turn)
    .where(*_in_segment(members), members.c.effort == AMBIENT, members.c.turn <= bindparam("until"))
    .order_by(members.c.place.desc())
    .limit(bindparam("limit"))
)
_EFFORTS_SEEN = (
    select(turns.c.efforts_seen)
    .where(*_in_segment(turns), turns.c.turn <= bindparam("until"))
    .order_by(turns.c.turn.desc(), turns.c.place.desc())
    .limit(1)
)
_STATE = (
    select(*TIP, turns.c.state, ANCHOR)
    .where(*_in_segment(turns), turns.c.turn <= bindparam("until"))
    .order_by(turns.c.turn.desc(), turns.c.place.desc())
    .limit(1)
)
_COMMITS = (
    select(*STORED_TURN)
    .where(*_in_segment(turns), any_of(turns.c.turn, "numbers"))
    .order_by(turns.c.place)
)
_SESSION_COLUMNS = (
    *(sessions.c.id, sessions.c.owner, sessions.c.turns),
    *(sessions.c.rewritten, sessions.c.newest),
)
_SESSION = (
    select(*_SESSION_COLUMNS)
    .join(users, users.c.id == sessions.c.owner)
    .where(users.c.name == bindparam("user"), sessions.c.name == bindparam("name"))
)
_SESSION_WITH_TURN = (
    select(*_SESSION_COLUMNS)
    .join(users, users.c.id == sessions.c.owner)
    .join(turns, turns.c.session == sessions.c.id)
    .where(users.c.name == bindparam("user"), turns.c.hash == bindparam("hash"))
)
_SESSION_LOCKED = _SESSION.with_for_update(of=sessions)
_CHANGES_NAMED = select(changes).where(
    any_of(changes.c.run, "runs"), any_of(changes.c.effort, "names")
)
CHANGES = select(
    *(changes.c.id, changes.c.effort, changes.c.run, changes.c.place, changes.c.turn)
).where(any_of(changes.c.id, "ids"))
_EFFORT_TURNS = select(members.c.run, members.c.place, members.c.turn).where(
    any_of(members.c.run, "runs"), members.c.effort == bindparam("effort")
)
_COMPRESSION = (
    select(compressions.c.made)
    .where(*_in_segment(compressions), compressions.c.effort == bindparam("effort"))
    .where(compressions.c.turn <= bindparam("until"))
    .order_by(compressions.c.place.desc())
    .limit(1)
)
_NEWEST_CHANGES = (
    select(changes)
    .where(*_in_segment(changes), changes.c.turn <= bindparam("until"))
    .order_by(changes.c.place.desc(), changes.c.id.desc())
    .offset(bindparam("skipped"))
    .limit(bindparam("limit"))
)
_EFFORT_NAMES = (select(changes.c.effort).where(any_of(changes.c.run, "runs")).distinct()).limit(
    bindparam("limit")
)
_PLACE = (
    select(turns.c.id, turns.c.run, turns.c.place, turns.c.turn, runs.c.ancestors)
    .join(runs, runs.c.id == turns.c.run)
    .where(turns.c.hash == bindparam("hash"), turns.c.owner == bindparam("owner"))
    .order_by((turns.c.session == bindparam("session")).desc())
    .limit(1)
)


@lru_cache
def _turns(*columns: Any) -> Select[Any]:
    """Return the query for columns of turns of a run by their numbers."""
    is_turn = turns.c.status != "command"
    return select(*columns).where(*_in_segment(turns), any_of(turns.c.turn, "numbers"), is_turn)


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session: its id, its user's id, how many turns it has, how often some were rewritten.

    `newest` is the id of the row that was committed last, 0 for none.
    """

    id: int
    user: int
    turns: int
    rewritten: int
    newest: int

    @classmethod
    def of(cls, connection: Connection, session: Session, *, lock: bool = False) -> Self:
        """Return the row of a session; raises `SessionNotFoundError`.

        `lock`: other writers of the session wait for the end of the transaction.
        """
        key = {"user": session.user, "name": session_name(session)}
        row = connection.execute(_SESSION_LOCKED if lock else _SESSION, key).first()
        if row is None:
            raise SessionNotFoundError(session.thread)
        return cls.from_row(row)

    @classmethod
    def with_turn(cls, connection: Connection, user: str, tip: Tip) -> Self | None:
        """Return the session of a user that a turn was written in, None if there is none."""
        row = connection.execute(_SESSION_WITH_TURN, {"user": user, "hash": tip.id}).first()
        return None if row is None else cls.from_row(row)

    @classmethod
    def from_row(cls, row: Any) -> Self:
        """Return the session of a row of `sessions`."""
        return cls(row.id, row.owner, row.turns, row.rewritten, row.newest)


class Segment(NamedTuple):
    """The part of one run that a lineage sees: up to the place `last`, which has the turn `turn`.

    `session` is the session that it was written in. The table `runs` stores the fields in this
    order.
    """

    run: int
    session: int
    last: int
    turn: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The segments that a tip sees, and what was read from them: efforts and other answers.

    The segment of the tip's own run comes first. `until` is the last turn that is seen, `row` is
    the id of the tip's row, 0 for no turn. An effort that was looked up and does not exist is None.
    `ids` has the ids of turns by their numbers.
    """

    segments: tuple[Segment, ...]
    until: int
    row: int = 0
    efforts: dict[str, Effort | None] = field(default_factory=dict)
    answers: dict[Any, Any] = field(default_factory=dict)
    ids: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, connection: Connection, session: SessionRow, tip: Tip) -> Self | None:
        """Return what a tip of a session sees, or of another one of the same user; else None."""
        if not tip.id:
            return cls((), 0)
        values = {"owner": session.user, "session": session.id, "hash": tip.id}
        row = connection.execute(_PLACE, values).first()
        return None if row is None else cls.at(row, row.id, tip.turn)

    @classmethod
    def at(cls, row: Any, number: int, until: int | None = None) -> Self:
        """Return what a turn sees, given a row of turn and run, and the id of the turn's row."""
        own = Segment(row.run, number >> TURN_BITS, row.place, row.turn)
        ancestors = (Segment(*segment) for segment in json.loads(row.ancestors))
        last = row.turn if until is None else min(until, row.turn)
        return cls((own, *ancestors), last, number)

    def after(self, turn: StoredTurn, row: int, segments: tuple[Segment, ...]) -> "Snapshot":
        """Return the snapshot of the turn that was committed to a row, so that it is not read."""
        # Other threads add to both.
        answers, efforts = _bounded(self.answers.copy()), self.efforts.copy()
        changed_now: dict[str, Effort] = {}
        for effort in reversed(left_by(turn)):
            changed_now.setdefault(effort.id, effort)
        older = {
            name: effort for name, effort in efforts.items() if effort and name not in changed_now
        }
        known: dict[str, Effort | None] = {**dict([*older.items()][-_MOST_EFFORTS:]), **changed_now}
        own = {} if turn.status == "command" else {turn.number: turn.id}
        ids = {**dict([*self.ids.copy().items()][-_MOST_EFFORTS:]), **own}
        snapshot = Snapshot(segments, turn.number, row, known, ids=ids)
        if not efforts.keys() >= changed_now.keys():  # how many efforts are new cannot be told
            return snapshot
        new = sum(efforts[name] is None for name in changed_now)
        for (question, arguments), answer in answers.items():
            match question:
                case "ambient":
                    numbers = (*answer, turn.number) if is_ambient(turn) else answer
                    updated = numbers[max(0, len(numbers) - arguments[0]) :]
                case "effort_turns":
                    updated = (*answer, turn.number) if arguments[0] in turn.efforts else answer
                case "effort_count":
                    updated = answer + new
                case "efforts":
                    unchanged = (one for one in answer.efforts if one.id not in changed_now)
                    listed = (*changed_now.values(), *unchanged)[: arguments[0]]
                    updated = EffortList(listed, answer.total + new)
                case "effort_names":
                    updated = None if answer is None else answer.union(changed_now)
                case "compression":
                    updated = answer
                case _:  # a search must look at the new turn
                    continue
            snapshot.answers[question, arguments] = updated
        return snapshot


def _bounded(answers: dict[Any, Any]) -> dict[Any, Any]:
    """Return cached answers, but of those about a single effort only the newest 500."""
    of_efforts = [key for key in answers if key[0] in {"effort_turns", "compression"}]
    older = {*of_efforts[:-_MOST_EFFORTS]}
    return {key: answer for key, answer in answers.items() if key not in older}


def _cached(read: Callable[["Lineage", *Ts], T]) -> Callable[["Lineage", *Ts], T]:
    """Cache the answers of a method; `Snapshot.after` knows the methods by their names."""

    @wraps(read)
    def answer(lineage: "Lineage", *args: *Ts) -> T:
        return lineage.cached(read.__name__, args, lambda: read(lineage, *args))

    return answer


@dataclass(frozen=True, slots=True)
class Lineage:
    """What one tip of a session sees.

    `kept` are turns that lineages share under `CACHES`. Its keys have the `edition` of the
    session, which changes when a turn loses something.
    """

    connect: Callable[[], Connection]
    session: SessionRow
    snapshot: Snapshot
    kept: LRUCache[Any, StoredTurn] = field(default_factory=lambda: LRUCache(KEPT_TURNS, weight))
    edition: tuple[int, ...] = ()

    @property
    def connection(self) -> Connection:
        """The connection to read from, opened when it is first needed."""
        return self.connect()

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments that the tip sees, the newest first."""
        return self.snapshot.segments

    @property
    def sessions(self) -> tuple[int, ...]:
        """The sessions whose turns the tip sees: in a copied thread those that it comes from."""
        return tuple(dict.fromkeys([self.session.id, *(part.session for part in self.segments)]))

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The first and the last id of passages in each of these sessions."""
        return tuple(map(passages_of, self.sessions))

    def sees(self, row: Any) -> bool:
        """Tell whether the tip sees a row, by its columns `run`, `place` and `turn`."""
        return row.turn <= self.snapshot.until and any(
            segment.run == row.run and row.place <= segment.last for segment in self.segments
        )

    def visible(self, query: Any, **parameters: Any) -> list[Row[Any]]:
        """Return the rows of a query with columns `run`, `place` and `turn` that the tip sees."""
        last, until = {part.run: part.last for part in self.segments}, self.snapshot.until
        rows = self.connection.execute(query, {"runs": [*last], **parameters}).all()
        return [row for row in rows if row.turn <= until and row.place <= last.get(row.run, -1)]

    def turns(self, numbers: Sequence[int]) -> tuple[StoredTurn, ...]:
        """Return the turns with these numbers, ascending."""
        parts = [*self._by_segment(numbers)]
        keys = [(self.edition, one.run, number) for one, part in parts for number in part]
        with CACHES:
            by_number = {key[-1]: self.kept[key] for key in keys if key in self.kept}
        unread = [number for number in numbers if number not in by_number]
        for row in self._rows(unread, (*STORED_TURN, turns.c.run)):
            turn = by_number[row.turn] = turn_of(row)
            with CACHES:
                self.kept[self.edition, row.run, row.turn] = turn
        return tuple(by_number[number] for number in sorted(by_number))

    def commits(self, numbers: Sequence[int]) -> tuple[StoredTurn, ...]:
        """Return the turns with these numbers, each with the commands that follow it, in order."""
        seen = [number for number in numbers if number <= self.snapshot.until]
        rows = [self._execute(_COMMITS, segment, numbers=seen) for segment in self.segments[::-1]]
        return tuple(turn_of(row) for part in rows for row in part)

    def state(self) -> Row[Any] | None:
        """Return tip and state of the last commit that is seen, None if there is none."""
        rows = (self._execute(_STATE, segment).first() for segment in self.segments)
        return next((row for row in rows if row is not None), None)

    def tips(self, numbers: Iterable[int]) -> Mapping[int, Tip]:
        """Return the tips of those of these turns that are seen."""
        return {row.turn: Tip(*row) for row in self._rows([*numbers], TIP)}

    def ids(self, numbers: Sequence[int]) -> Mapping[int, str]:
        """Return the ids of those of these turns that are seen, by their numbers."""
        known = self.snapshot.ids
        unread = [number for number in numbers if number not in known]
        known.update((number, tip.id) for number, tip in self.tips(unread).items())
        return {number: known[number] for number in numbers if number in known}

    def row(self, turn: int, *columns: Any) -> Row[Any] | None:
        """Return columns of the row of a turn, None if it is not seen."""
        return next(self._rows([turn], columns), None)

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
    def effort_count(self) -> int:
        """Return how many efforts there are."""
        for segment in self.segments:
            count = self._execute(_EFFORTS_SEEN, segment).scalar()
            if count is not None:
                return int(count)
        return 0

    def changes(self, ids: Sequence[str]) -> Mapping[str, Row[Any]]:
        """Return the newest change of each of these efforts, without those that do not exist."""
        rows = self.visible(_CHANGES_NAMED, names=[*ids])
        return {row.effort: row for row in sorted(rows, key=lambda row: (row.place, row.id))}

    def efforts_named(self, ids: Sequence[str]) -> tuple[Effort, ...]:
        """Return the efforts of these ids that exist, in the order of the ids."""
        existing = self.effort_names() if len(ids) > _FEW else None
        candidates = ids if existing is None else [name for name in ids if name in existing]
        efforts = self.snapshot.efforts
        unread = [name for name in candidates if name not in efforts]
        if unread:
            rows = self.changes(unread)
            # What does not exist is cached too, but not all words of a long text.
            found = unread if len(unread) <= _MOST_NAMES else [*rows]
            efforts.update(
                (name, effort_of(rows[name]) if name in rows else None) for name in found
            )
        return tuple(effort for name in candidates if (effort := efforts.get(name)))

    @_cached
    def effort_names(self) -> frozenset[str] | None:
        """Return the ids of all efforts of the session, None if there are too many to cache."""
        parameters = {"runs": [part.run for part in self.segments], "limit": _MOST_NAMES + 1}
        names = frozenset(self.connection.execute(_EFFORT_NAMES, parameters).scalars())
        return names if len(names) <= _MOST_NAMES else None

    @_cached
    def effort_turns(self, effort: str) -> tuple[int, ...]:
        """Return the turns of an effort, ascending."""
        return tuple(sorted(row.turn for row in self.visible(_EFFORT_TURNS, effort=effort)))

    @_cached
    def efforts(self, limit: int) -> EffortList:
        """Return the `limit` efforts that changed last, and how many efforts there are."""
        total = self.effort_count()
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
        seen = [number for number in numbers if number <= self.snapshot.until]
        floors = [*(segment.turn for segment in self.segments[1:]), 0]
        for segment, floor in zip(self.segments, floors, strict=False):
            yield segment, [number for number in seen if floor < number <= segment.turn]

    def _rows(self, numbers: Sequence[int], columns: tuple[Any, ...]) -> Iterator[Row[Any]]:
        """Yield columns of the rows of those of these turns that are seen."""
        for segment, part in self._by_segment(numbers):
            if part:
                yield from self._execute(_turns(*columns), segment, numbers=part)

    def _execute(
        self, query: Select[Any], segment: Segment, **parameters: Any
    ) -> CursorResult[Any]:
        place = {"run": segment.run, "last": segment.last, "until": self.snapshot.until}
        return self.connection.execute(query, {**place, **parameters})


def effort_of(row: Any) -> Effort:
    """Return an effort as the change in a row left it."""
    effort = changed(json.loads(row.entry), row.turn)
    if effort is None:
        raise ValueError(f"{row.entry[:80]!r} changes no effort")
    return effort


def listed_under(turn: StoredTurn) -> tuple[str, ...]:
    """Return under which names the table `members` lists a turn; a command is in no log."""
    return (AMBIENT,) if is_ambient(turn) else turn.efforts


def is_ambient(turn: StoredTurn) -> bool:
    """Tell whether a turn belongs to no effort."""
    return not turn.efforts and turn.status != "command"
