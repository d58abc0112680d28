"""What a tip sees of its session, read once: its turns, efforts and compressions.

A question costs as much in a long session as in a short one: a branch seldom has more than one
run, so that one statement answers it. Statements are built once, since building one takes
several times as long as running it.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache, wraps
from typing import Any, Literal, NamedTuple, Self, TypeVar, TypeVarTuple

from sqlalchemy import Connection, Row, Select, bindparam, select

from ..compressions import Compression, from_data
from ..efforts import Effort, changed, left_by
from ..errors import ArchiveFormatError, SessionNotFoundError
from ..messages import length
from ..names import session_name
from ..turn import Session, StoredTurn, Tip
from .database import again_if_lost
from .index import any_of
from .rows import state_of, turn_of, unzipped
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
    thread_owners,
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

_KEPT = 500
"""Turns of a session that are kept at most: more than are ever in a context."""

_CHUNK = 200
"""Turns that are read at once, so that those of a long session do not fill the memory."""

_LARGE = 500_000
"""Characters of a turn from which it is read again in each turn, lest the memory be full."""

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
    *(sessions.c.rewritten, sessions.c.newest, sessions.c.thread),
    *(sessions.c.reseed, sessions.c.hidden),
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
SESSION_AND_CLAIM = _SESSION.outerjoin(
    thread_owners, thread_owners.c.thread == bindparam("thread", type_=thread_owners.c.thread.type)
).add_columns(thread_owners.c.user.label("claimed"))
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
TIP_PLACE = (
    *(turns.c.id.label("row"), turns.c.run, turns.c.place, turns.c.turn),
    runs.c.ancestors,
)
_PLACE = (
    select(*TIP_PLACE)
    .join(runs, runs.c.id == turns.c.run)
    .where(turns.c.hash == bindparam("hash"), turns.c.owner == bindparam("owner"))
    .order_by((turns.c.session == bindparam("session")).desc())
    .limit(1)
)
_BETWEEN = select(turns.c.run, turns.c.place, turns.c.turn).where(
    any_of(turns.c.session, "sessions"),
    turns.c.status != "command",
    turns.c.at >= bindparam("since"),
    turns.c.at < bindparam("until"),
)


@lru_cache
def _turns(*columns: Any) -> Select[Any]:
    is_turn = turns.c.status != "command"
    return select(*columns).where(*_in_segment(turns), any_of(turns.c.turn, "numbers"), is_turn)


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session: its id, its user's id, how many turns it has, how often some were rewritten.

    `newest` is the id of the row that was committed last, 0 for none, `reseed` what `Past.reseed`
    is. A `hidden` one was deleted; copied threads go on from its turns.
    """

    id: int = 0
    user: int = 0
    turns: int = 0
    rewritten: int = 0
    newest: int = 0
    thread: str = ""
    reseed: Tip | None = None
    hidden: bool = False

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
        return None if row is None else replace(cls.from_row(row), reseed=None)

    @classmethod
    def from_row(cls, row: Any) -> Self:
        """Return the session of a row of `sessions`."""
        counts = row.turns, row.rewritten, row.newest
        reseed = Tip(*json.loads(row.reseed)) if row.reseed else None
        return cls(row.id, row.owner, *counts, row.thread, reseed, row.hidden)


class Segment(NamedTuple):
    """The part of one run that a tip sees: up to the place `last`, which has the turn `turn`.

    `session` is the session that it was written in. The table `runs` stores the fields in this
    order.
    """

    run: int
    session: int
    last: int
    turn: int


def _cached(read: Callable[["Past", *Ts], T]) -> Callable[["Past", *Ts], T]:
    """Cache the answers of a method; `Past.after` knows the methods by their names."""

    @wraps(read)
    def answer(past: "Past", *args: *Ts) -> T:
        return past.cached(read.__name__, args, lambda: read(past, *args))

    return answer


def _bounded(answers: dict[Any, Any]) -> dict[Any, Any]:
    """Return cached answers, but of those about one effort the newest `_MOST_EFFORTS` alone."""
    of_efforts = [key for key in answers if key[0] in {"turns_of", "compression"}]
    older = {*of_efforts[:-_MOST_EFFORTS]}
    return {key: answer for key, answer in answers.items() if key not in older}


@dataclass(frozen=True, slots=True)
class EffortList:
    """The newest efforts, newest change first, and the total number of efforts."""

    efforts: tuple[Effort, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Past:
    """What a tip sees of its session: its turns, in order, their efforts and compressions.

    What is asked for is read when it is first asked for, and kept; threads share it. After
    something was erased, `Archive.load` returns another one. Reading raises `ArchiveFormatError`
    for stored data that are damaged, and `ArchiveUnavailableError`.

    Attributes:
        connect: Opens a connection, or gives the one of a transaction.
        session: The session of the thread; in a copied thread without turns that of the tip's turn.
        id: The id of the tip, "" before the first turn.
        segments: What the tip sees of runs, that of its own run first; none before the first turn,
            and if the user has no such turn.
        until: The number of the last turn that is seen.
        row: The id of the tip's row, 0 for no turn.
        turns_read: Turns by their numbers.
        before: Those that were read at the tip before, when this one was committed.
        efforts_read: Efforts by name; one that was looked up and does not exist is None.
        answers: Answers by question and arguments.
        ids_read: Ids of turns by their numbers.
        earlier: What earlier turns of the branch see, by their numbers.
        owner: Whose the thread is: this user's own, nobody's, or another's.
    """

    connect: Callable[[], AbstractContextManager[Connection]]
    session: SessionRow
    id: str = ""
    segments: tuple[Segment, ...] = ()
    until: int = 0
    row: int = 0
    turns_read: dict[int, StoredTurn] = field(default_factory=dict)
    before: Mapping[int, StoredTurn] = field(default_factory=dict)
    efforts_read: dict[str, Effort | None] = field(default_factory=dict)
    answers: dict[Any, Any] = field(default_factory=dict)
    ids_read: dict[int, str] = field(default_factory=dict)
    earlier: dict[int, "Past"] = field(default_factory=dict)
    owner: Literal["own", "nobody", "other"] = "nobody"

    @classmethod
    def of(cls, connection: Connection, session: SessionRow, tip: Tip) -> Self | None:
        """Return what a tip sees over a connection; None if the user has no such turn."""
        own = cls(lambda: nullcontext(connection), session)
        if not tip.id:
            return own
        values = {"owner": session.user, "session": session.id, "hash": tip.id}
        row = connection.execute(_PLACE, values).first()
        return None if row is None else replace(own.at(row), id=tip.id)

    def at(self, row: Any) -> Self:
        """Return what a turn of the session sees, given the row of its turn and run."""
        own = Segment(row.run, row.row >> TURN_BITS, row.place, row.turn)
        with self.parsing():
            ancestors = [Segment(*segment) for segment in json.loads(row.ancestors)]
        return replace(self, segments=(own, *ancestors), until=row.turn, row=row.row)

    @property
    def tip(self) -> Tip | None:
        """The tip with its turn's own number, None if the user has no such turn."""
        return Tip(self.segments[0].turn, self.id) if self.segments else None

    @property
    def reseed(self) -> Tip | None:
        """The turn from which the thread continues without checkpoints, None if none is noted."""
        return self.session.reseed

    def as_of(self, turn: int) -> "Past":
        """Return what an earlier turn of the branch sees."""
        if turn >= self.until:
            return self
        if turn not in self.earlier:
            self.earlier[turn] = replace(
                self, until=turn, efforts_read={}, answers={}, ids_read={}, earlier={}
            )
        return self.earlier[turn]

    def after(self, turn: StoredTurn, row: int, segments: tuple[Segment, ...]) -> "Past":
        """Return the past that ends with a turn just committed to a row, so that it is not read."""
        # Other threads add to both.
        answers, efforts = _bounded(self.answers.copy()), self.efforts_read.copy()
        changed_now: dict[str, Effort] = {}
        for effort in reversed(left_by(turn)):
            changed_now.setdefault(effort.id, effort)
        older = {
            name: effort for name, effort in efforts.items() if effort and name not in changed_now
        }
        known: dict[str, Effort | None] = {**dict([*older.items()][-_MOST_EFFORTS:]), **changed_now}
        own = {} if turn.status == "command" else {turn.number: turn.id}
        ids = {**dict([*self.ids_read.copy().items()][-_MOST_EFFORTS:]), **own}
        read = self.turns_read.copy().items()  # what was kept before is small enough
        kept = {n: t for n, t in read if n in self.before or length(t.messages) < _LARGE}
        past = replace(
            self,
            id=turn.id,
            turns_read={} if turn.status == "command" else {turn.number: turn},
            before=kept,
            segments=segments,
            until=turn.number,
            row=row,
            efforts_read=known,
            answers={},
            ids_read=ids,
            earlier={},
        )
        if not efforts.keys() >= changed_now.keys():  # how many efforts are new cannot be told
            return past
        new = sum(efforts[name] is None for name in changed_now)
        for (question, arguments), answer in answers.items():
            match question:
                case "ambient":
                    numbers = (*answer, turn.number) if is_ambient(turn) else answer
                    updated = numbers[max(0, len(numbers) - arguments[0]) :]
                case "turns_of":
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
            past.answers[question, arguments] = updated
        return past

    @property
    def sessions(self) -> tuple[int, ...]:
        """The sessions whose turns the tip sees: in a copied thread those that it comes from."""
        return tuple(dict.fromkeys([self.session.id, *(part.session for part in self.segments)]))

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The first and the last id of passages in each of these sessions."""
        return tuple(map(passages_of, self.sessions))

    def visible(self, query: Any, **parameters: Any) -> list[Row[Any]]:
        """Return the rows of a query with columns `run`, `place` and `turn` that the tip sees."""
        if not self.segments:
            return []
        last, until = {part.run: part.last for part in self.segments}, self.until
        rows = self.rows(query, runs=[*last], **parameters)
        return [row for row in rows if row.turn <= until and row.place <= last.get(row.run, -1)]

    def rows(self, query: Any, **parameters: Any) -> Sequence[Row[Any]]:
        """Return the rows of a query."""

        def read() -> Sequence[Row[Any]]:
            with self.connect() as connection:
                return connection.execute(query, parameters).all()

        return again_if_lost(read)

    def value(self, query: Any, **parameters: Any) -> Any:
        """Return the first value of a query, None if it finds nothing."""
        rows = self.rows(query, **parameters)
        return rows[0][0] if rows else None

    def turns(self, numbers: Sequence[int]) -> tuple[StoredTurn, ...]:
        """Return the visible turns with these numbers, ascending; missing ones left out."""
        found, wanted = self.turns_read, sorted({*numbers})
        for number in wanted:
            if number not in found and number in self.before:
                found[number] = self.before[number]
        if unread := [number for number in wanted if number not in found]:
            with self.parsing():
                read = {row.turn: turn_of(row) for row in self._rows(unread, STORED_TURN)}
            if len(found) + len(read) > _KEPT:
                found = {**found, **read}
            found.update(read)
        return tuple(found[one] for one in wanted if one in found and one <= self.until)

    def commits(self, numbers: Sequence[int]) -> tuple[StoredTurn, ...]:
        """Return the turns with these numbers, each with the commands that follow it, in order.

        The commands before the first turn have the number 0.
        """
        seen = [number for number in numbers if number <= self.until]
        rows = [self._in(segment, _COMMITS, numbers=seen) for segment in self.segments[::-1]]
        with self.parsing():
            return tuple(turn_of(row) for part in rows for row in part)

    def every_commit(self) -> Iterator[StoredTurn]:
        """Yield all turns, oldest first, and the commands by hand between them."""
        for first in range(0, self.until + 1, _CHUNK):
            yield from self.commits(range(first, first + _CHUNK))

    def every_turn(self) -> Iterator[StoredTurn]:
        """Yield all turns, oldest first."""
        return (one for one in self.every_commit() if one.status != "command")

    def every_effort(self) -> tuple[Effort, ...]:
        """Return all efforts, newest status change first."""
        return self.efforts(self.efforts(0).total).efforts

    def saved(self) -> Mapping[str, Any] | None:
        """Return the state that was stored with the last commit that is seen, None without one.

        That is the turn's, or that of the last command after it.
        """
        for segment in self.segments:
            for row in self._in(segment, _STATE):
                with self.parsing():
                    state: Mapping[str, Any] | None = state_of(row)
                return state
        return None

    def ids(self, numbers: Sequence[int]) -> Mapping[int, str]:
        """Return the ids of the visible turns with these numbers, without reading the turns."""
        known = self.ids_read
        unread = [number for number in numbers if number not in known]
        known.update((row.turn, row.hash) for row in self._rows(unread, TIP))
        return {number: known[number] for number in numbers if number in known}

    def turns_between(self, since: str, until: str) -> tuple[int, ...]:
        """Return the numbers of the visible turns from one time until before another, ascending."""
        bounds = {"sessions": [*self.sessions], "since": since, "until": until}
        return tuple(sorted(row.turn for row in self.visible(_BETWEEN, **bounds)))

    def of_turn(self, turn: int, *columns: Any) -> Row[Any] | None:
        """Return columns of the row of a turn, None if it is not seen."""
        return next(self._rows([turn], columns), None)

    @_cached
    def ambient(self, newest: int) -> tuple[int, ...]:
        """Return the numbers of the `newest` visible turns of no effort, ascending."""
        numbers: list[int] = []
        for segment in self.segments:
            if (left := newest - len(numbers)) > 0:
                numbers += (row.turn for row in self._in(segment, _AMBIENT, limit=left))
        return tuple(reversed(numbers))

    @_cached
    def effort_count(self) -> int:
        """Return how many efforts there are."""
        for segment in self.segments:
            for row in self._in(segment, _EFFORTS_SEEN):
                return int(row.efforts_seen)
        return 0

    def changes(self, ids: Sequence[str]) -> Mapping[str, Row[Any]]:
        """Return the newest change of each of these efforts, without those that do not exist."""
        rows = self.visible(_CHANGES_NAMED, names=[*ids])
        return {row.effort: row for row in sorted(rows, key=lambda row: (row.place, row.id))}

    def efforts_named(self, ids: Sequence[str]) -> tuple[Effort, ...]:
        """Return the efforts of these ids that exist, in the order of the ids."""
        efforts = self.efforts_read
        unread = [name for name in ids if name not in efforts]
        is_known = ("effort_names", ()) in self.answers
        if unread and (is_known or len(unread) > _FEW):
            names = self.effort_names()
            unread = [name for name in unread if names is None or name in names]
        if unread:
            rows = self.changes(unread)
            # What does not exist is cached too, but not all words of a long text.
            found = unread if len(unread) <= _MOST_NAMES else [*rows]
            with self.parsing():
                read = {name: effort_of(rows[name]) if name in rows else None for name in found}
            efforts.update(read)
        return tuple(effort for name in ids if (effort := efforts.get(name)))

    @_cached
    def effort_names(self) -> frozenset[str] | None:
        """Return the ids of all efforts, maybe with some of other branches.

        Returns None if there are thousands: look up the ids with `efforts_named` then.
        """
        if not self.segments:
            return frozenset()
        parameters = {"runs": [part.run for part in self.segments], "limit": _MOST_NAMES + 1}
        names = frozenset(row.effort for row in self.rows(_EFFORT_NAMES, **parameters))
        return names if len(names) <= _MOST_NAMES else None

    @_cached
    def turns_of(self, effort: str) -> tuple[int, ...]:
        """Return the numbers of the visible turns of an effort, ascending."""
        return tuple(sorted(row.turn for row in self.visible(_EFFORT_TURNS, effort=effort)))

    @_cached
    def efforts(self, newest: int) -> EffortList:
        """Return the `newest` efforts by their last change, and how many efforts there are."""
        total = self.effort_count()
        number = min(newest, total)
        efforts: dict[str, Effort] = {}
        with self.parsing():
            for row in self._newest_changes(number) if number > 0 else ():
                if len(efforts) >= number:
                    break
                efforts.setdefault(row.effort, effort_of(row))
        return EffortList(tuple(efforts.values()), total)

    @_cached
    def compression(self, effort: str) -> Compression | None:
        """Return the newest visible compression of an effort, None if there is none."""
        for segment in self.segments:
            for row in self._in(segment, _COMPRESSION, effort=effort):
                with self.parsing():
                    return from_data(json.loads(unzipped(row.made)))
        return None

    def cached(self, question: str, arguments: Any, read: Callable[[], T]) -> T:
        """Return the cached answer to a question, which `read` answers the first time."""
        key = question, arguments
        if key not in self.answers:
            self.answers[key] = read()
        answer: T = self.answers[key]
        return answer

    @contextmanager
    def parsing(self) -> Iterator[None]:
        """Raise `ArchiveFormatError` where stored data cannot be read."""
        try:
            yield
        except ValueError as error:
            raise ArchiveFormatError(
                f"session {self.session.thread!r} is damaged ({error}): `ebbtide archive verify` "
                "says where; restore the archive from a backup"
            ) from error

    def _newest_changes(self, efforts: int) -> Iterator[Row[Any]]:
        """Yield the changes, newest first, in pages that have about so many efforts."""
        for segment in self.segments:
            skipped, size = 0, efforts * 2 + _SPARE
            while rows := self._in(segment, _NEWEST_CHANGES, skipped=skipped, limit=size):
                yield from rows
                skipped += size

    def _by_segment(self, numbers: Sequence[int]) -> Iterator[tuple[Segment, list[int]]]:
        seen = [number for number in numbers if number <= self.until]
        floors = [*(segment.turn for segment in self.segments[1:]), 0]
        for segment, floor in zip(self.segments, floors, strict=False):
            yield segment, [number for number in seen if floor < number <= segment.turn]

    def _rows(self, numbers: Sequence[int], columns: tuple[Any, ...]) -> Iterator[Row[Any]]:
        """Yield columns of the rows of those of these turns that are seen."""
        for segment, part in self._by_segment(numbers):
            if part:
                yield from self._in(segment, _turns(*columns), numbers=part)

    def _in(self, segment: Segment, query: Any, **parameters: Any) -> Sequence[Row[Any]]:
        return self.rows(query, run=segment.run, last=segment.last, until=self.until, **parameters)


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
