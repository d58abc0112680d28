"""Attention in the archive's own database: a row for each concluded effort of a user.

A conclusion and its memory are in one transaction. How much a memory holds is computed when it is
read, by `law.effective`; `attended` only says that no reading has let it leave yet. Who writes
locks the row of the user first, so that nothing is decided on what another is changing.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, or_, select, update

from ..attention.law import (
    BOOST,
    CAPACITY,
    DAY,
    DECAYING,
    LEAST_DECAY,
    Explanation,
    Kept,
    Memory,
    Ranked,
    in_context,
    ranked,
)
from ..efforts import Effort
from ..errors import ArchiveError, AttentionError
from ..messages import clean
from ..names import is_qualified, parted, qualified
from ..record import Event, Owner, Record
from ..settings import ATTENTION_THRESHOLD
from .database import Database, added, upsert
from .lineage import Branch, Lineage, Session, effort_of
from .records import left_by, packed
from .schema import memories, sessions, users

_USED = frozenset({"referenced", "returned"})
"""The events by which something that a search found was used."""

_FREE = ~or_(memories.c.suppressed, memories.c.withdrawn)
"""The condition that nobody took a memory out."""

_LOCK = select(users.c.id).where(users.c.id == bindparam("user")).with_for_update()
"""Lets others who write to a user's attention wait; SQLite lets them wait anyway."""


class SqlAttention:
    """Attention in the database of an archive; see the protocol `Attention`.

    Any number of threads, processes and machines may use it. What a turn concludes or accesses is
    judged by the next reading, which knows `threshold` and `capacity`.
    """

    def __init__(
        self,
        database: Database,
        *,
        threshold: float = ATTENTION_THRESHOLD,
        capacity: int = CAPACITY,
    ) -> None:
        """Read what is at `threshold` (0-100) or above; up to `capacity` memories of a user."""
        self.database = database
        self.threshold, self.capacity = threshold, capacity

    def add(self, user_id: str, memory: Memory, *, now: datetime) -> None:
        """Keep a memory, or renew it; it enters if it is at the threshold or above."""
        with self._writing(user_id) as (connection, owner):
            user = owner or added(connection, users, {"name": user_id})
            connection.execute(_LOCK, {"user": user})
            mine = sessions.c.owner == user, sessions.c.name == parted(memory.id)[0]
            session = connection.execute(select(sessions.c.id).where(*mine)).scalar()
            _put(connection, user, memory.id, memory, session)
            self._place(connection, user, memory.id, now)

    def touch(self, user_id: str, memory_id: str, *, now: datetime) -> None:
        """Count an access; the memory may enter again."""
        self._change(user_id, memory_id, now, accesses=memories.c.accesses + 1)

    def top(self, user_id: str, limit: int, *, now: datetime) -> tuple[Ranked, ...]:
        """Return the memories that hold most of attention; those that have faded leave first."""
        return self._settled(user_id, now)[0][: max(0, limit)]

    def prune(self, user_id: str, *, now: datetime) -> int:
        """Let those leave that have faded, and return how many did."""
        return self._settled(user_id, now)[1]

    def refresh_for_context(
        self, user_id: str, message: str, limit: int, *, now: datetime
    ) -> tuple[Ranked, ...]:
        """Return what `top` would if a message were the context, of all memories."""
        kept = self.within_reach(user_id, now=now)
        return ranked(kept, self.threshold, now=now, message=message)[: max(0, limit)]

    def all(self, user_id: str) -> tuple[Kept, ...]:
        """Return what is kept of all memories of a user."""
        return self._kept(user_id)

    def attended(self, user_id: str, *, now: datetime) -> tuple[Kept, ...]:  # noqa: ARG002 (others ask)
        """Return what has entered, and did not leave at a reading."""
        return self._kept(user_id, memories.c.attended)

    def within_reach(self, user_id: str, *, now: datetime) -> tuple[Kept, ...]:
        """Return what is attended, and what a message could lift to the threshold."""
        # What `is_liftable` may hold of, so that few of many rows are read: a memory that has not
        # decayed for good, or whose base and accesses are enough when it has. By whole days and a
        # bit below the threshold, however a database orders texts and rounds.
        decaying = (now.astimezone(UTC) - (DECAYING + 1) * DAY).date().isoformat()
        often = BOOST * memories.c.accesses + 1.0
        strength = memories.c.base * often * in_context(LEAST_DECAY, 1)
        liftable = or_(memories.c.created > decaying, strength > self.threshold - 0.001)
        kept = self._kept(user_id, or_(memories.c.attended, and_(_FREE, liftable)))
        return tuple(
            memory for memory in kept if memory.attended or memory.is_liftable(self.threshold, now)
        )

    def changed(self, user_id: str) -> bool:  # noqa: ARG002 (the protocol's)
        """Do nothing: what is read is not remembered."""
        return True

    def suppress(self, user_id: str, memory_id: str, *, now: datetime) -> bool:
        """Take a memory out of attention until `unsuppress`; tell whether it is known."""
        return self._change(user_id, memory_id, now, suppressed=True)

    def unsuppress(self, user_id: str, memory_id: str, *, now: datetime) -> bool:
        """Undo `suppress`: the memory may enter again; tell whether it is known."""
        return self._change(user_id, memory_id, now, suppressed=False)

    def suppressed(self, user_id: str, *, now: datetime) -> tuple[str, ...]:  # noqa: ARG002 (the protocol's)
        """Return the ids of the memories that are suppressed, in order."""
        return tuple(sorted(kept.memory.id for kept in self._kept(user_id, memories.c.suppressed)))

    def withdraw(self, user_id: str, memory_id: str, *, now: datetime) -> None:
        """Take out a memory whose effort was reopened, until it is added again."""
        self._change(user_id, memory_id, now, withdrawn=True)

    def forget(self, user_id: str, memory_id: str, *, now: datetime) -> None:  # noqa: ARG002 (as above)
        """Delete all that is kept of a memory."""
        if self.database.exists():
            with self._writing(user_id) as (connection, owner):
                connection.execute(delete(memories).where(*_is(owner, memory_id)))

    def explain(self, user_id: str, memory_id: str, *, now: datetime) -> Explanation | None:
        """Return how a memory stands, None if it is unknown."""
        beside = self._kept(user_id, or_(memories.c.attended, memories.c.memory == memory_id))
        attended = memory_id in {memory.id for memory in self._inside(beside, now)}
        for kept in beside:
            if kept.memory.id == memory_id:
                return kept.explained(self.threshold, attended=attended, now=now)
        return None

    def _inside(self, kept: Sequence[Kept], now: datetime) -> tuple[Ranked, ...]:
        entered = (memory for memory in kept if memory.attended)
        return ranked(entered, self.threshold, now=now)[: self.capacity]

    def _kept(self, user_id: str, *where: Any) -> tuple[Kept, ...]:
        if not self.database.exists():
            return ()
        with _errors_of_attention(), self.database.reading() as connection:
            query = select(memories).join(users, users.c.id == memories.c.owner)
            rows = connection.execute(query.where(users.c.name == user_id, *where))
            return tuple(_kept(row) for row in rows)

    def _change(self, user_id: str, memory_id: str, now: datetime, **values: Any) -> bool:
        """Change what is kept of a memory, which may enter or leave; tell whether it is known."""
        if not self.database.exists():
            return False
        with self._writing(user_id) as (connection, owner):
            change = update(memories).where(*_is(owner, memory_id)).values(values)
            known = bool(connection.execute(change).rowcount)
            if known:
                self._place(connection, owner, memory_id, now)
        return known

    def _place(self, connection: Connection, owner: int, memory_id: str, now: datetime) -> None:
        """Let a memory enter or leave, and the lowest leave if it takes their place."""
        query = select(memories).where(*_is(owner, memory_id))
        enters = _kept(connection.execute(query).one()).enters(self.threshold, now)
        _attend(connection, owner, [memory_id], attended=enters)
        if enters:
            self._settle(connection, owner, now)

    def _settled(self, user_id: str, now: datetime) -> tuple[tuple[Ranked, ...], int]:
        """Return the memories in attention, and how many left because they faded."""
        kept = self.attended(user_id, now=now)
        inside = self._inside(kept, now)
        if len(inside) == len(kept):  # nobody leaves, so nobody has to wait for a lock
            return inside, 0
        with self._writing(user_id) as (connection, owner):
            return self._settle(connection, owner, now)

    def _settle(
        self, connection: Connection, owner: int, now: datetime
    ) -> tuple[tuple[Ranked, ...], int]:
        query = select(memories).where(memories.c.owner == owner, memories.c.attended)
        stored = [_kept(row) for row in connection.execute(query)]
        inside = self._inside(stored, now)
        staying = {memory.id for memory in inside}
        leaving = [kept for kept in stored if kept.memory.id not in staying]
        _attend(connection, owner, [kept.memory.id for kept in leaving], attended=False)
        # One that never reached the threshold did not fall below it.
        faded = (
            kept.holds(now) < self.threshold <= kept.holds(kept.memory.created) for kept in leaving
        )
        return inside, sum(faded)

    @contextmanager
    def _writing(self, user_id: str) -> Iterator[tuple[Connection, int]]:
        """Write, with the number of the user, whose row is locked; 0 is nobody's."""
        locked = select(users.c.id).where(users.c.name == user_id).with_for_update()
        try:
            with _errors_of_attention(), self.database.writing() as connection:
                yield connection, connection.execute(locked).scalar() or 0
        finally:  # also if it failed: it may be written, and only the answer lost
            self.changed(user_id)


@contextmanager
def _errors_of_attention() -> Iterator[None]:
    """Raise what the archive's database raises as an error of attention."""
    try:
        yield
    except (ArchiveError, OSError) as error:
        raise AttentionError(str(error)) from error


def attend(connection: Connection, session: Session, owner: Owner, record: Record) -> None:
    """Write what a turn does to its user's attention; `session` is as it was before the turn.

    What was concluded is a memory, what was reopened none for a while; what was expanded, or found
    by a search and used, was accessed.
    """
    if owner.anonymous:
        return
    user, efforts, used = session.owner, left_by(record), accessed(record.events)
    elsewhere = session.branch not in {"", record.branch}
    if efforts or used or elsewhere:
        connection.execute(_LOCK, {"user": user})
    if elsewhere:
        branch = Branch.named(connection, session.id, record.branch)
        lineage = Lineage.of(lambda: connection, session.id, record.tip, branch)
        _renew(connection, user, owner, lineage)
    for effort in efforts:
        memory = _memory(owner, effort, record.at)
        _put(connection, user, qualified(owner, effort.id), memory, session.id)
    counted = {"accesses": memories.c.accesses + 1, "attended": _FREE}
    for name in used:
        memory_id = name if is_qualified(name) else qualified(owner, name)
        connection.execute(update(memories).where(*_is(user, memory_id)).values(counted))


def accessed(events: Sequence[Event]) -> tuple[str, ...]:
    """Return the efforts that the events of a turn made use of, each once.

    >>> search = {"type": "searched", "efforts": ["a", "b"]}
    >>> accessed([search, {"type": "referenced", "effort": "b"}])
    ('b',)
    """
    names = {name for event in events if event["type"] == "searched" for name in event["efforts"]}
    used = (
        event["effort"]
        for event in events
        if event["type"] == "expanded" or (event["type"] in _USED and event["effort"] in names)
    )
    return tuple(dict.fromkeys(used))


def _renew(connection: Connection, user: int, owner: Owner, seen: Lineage) -> None:
    """Make the memories of a session say what a branch says of their efforts, not the one left.

    What it does not know, or has not concluded, is none for a while.
    """
    mine = (memories.c.owner == user, memories.c.session == seen.session)
    stored = [_kept(row) for row in connection.execute(select(memories).where(*mine))]
    efforts = {kept.memory.id: parted(kept.memory.id)[1] for kept in stored}
    rows = seen.changes([*efforts.values()]) if stored else {}
    for kept in stored:
        row = rows.get(efforts[kept.memory.id])
        memory = None if row is None else _memory(owner, effort_of(row), row.at)
        if kept.withdrawn or kept.memory != memory:  # else it may have left, which stays so
            _put(connection, user, kept.memory.id, memory, seen.session)


def _memory(owner: Owner, effort: Effort, at: str) -> Memory | None:
    """Return what is kept of an effort, None unless it is concluded."""
    if effort.status != "concluded":
        return None
    return Memory(qualified(owner, effort.id), effort.importance, _moment(at), effort.keywords)


def _put(
    connection: Connection, owner: int, memory_id: str, memory: Memory | None, session: int | None
) -> None:
    """Keep a memory, which keeps its accesses and its suppression; None: it is none for a while."""
    if memory is None:
        out = {"withdrawn": True, "attended": False}
        connection.execute(update(memories).where(*_is(owner, memory_id)).values(out))
        return
    renewed = {
        "session": session,
        "base": memory.base,
        "created": memory.created.astimezone(UTC).isoformat(),
        "keywords": packed(clean(memory.keywords)),
        "withdrawn": False,
    }
    row = {**renewed, "owner": owner, "memory": memory_id, "accesses": 0, "suppressed": False}
    adding = upsert(connection, memories).values(**row, attended=True)
    free = {**renewed, "attended": ~memories.c.suppressed}
    connection.execute(adding.on_conflict_do_update(index_elements=["owner", "memory"], set_=free))


def _attend(connection: Connection, owner: int, ids: Sequence[str], *, attended: bool) -> None:
    """Let memories enter or leave, any number of them."""
    if ids:
        change = update(memories).where(*_is(owner, bindparam("of"))).values(attended=attended)
        connection.execute(change, [{"of": memory_id} for memory_id in ids])


def _kept(row: Any) -> Kept:
    memory = Memory(row.memory, row.base, _moment(row.created), tuple(json.loads(row.keywords)))
    return Kept(memory, row.accesses, row.suppressed, row.withdrawn, row.attended)


def _moment(at: str) -> datetime:
    """Return a stored time; now if it cannot be read."""
    try:
        moment = datetime.fromisoformat(at)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return datetime.now(UTC)


def _is(owner: int, memory_id: Any) -> tuple[Any, ...]:
    return memories.c.owner == owner, memories.c.memory == memory_id
