"""Attention in the archive's own database: a row for each memory of a user.

A conclusion and its memory are written in one transaction. How much attention a memory holds is
computed when it is read, by `law.effective`; the column `attended` only says that no reading has
let it leave yet. Writers lock the user's row first: none decides on rows that another changes.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, insert, or_, select, update

from ..attention.law import (
    BOOST,
    CAPACITY,
    DAY,
    DECAYING,
    LEAST_DECAY,
    Attention,
    Explanation,
    Kept,
    Memory,
    Ranked,
    in_context,
    ranked,
)
from ..dates import stamped
from ..efforts import Effort, left_by
from ..errors import ArchiveError, AttentionError
from ..facts import ENDED, keywords_of
from ..names import is_qualified, parted, qualified
from ..serialised import clean
from ..settings import ATTENTION_THRESHOLD
from ..turn import Event, Session, StoredTurn, without_controls
from .database import Database, added, upsert
from .index import among
from .load import Past, effort_of
from .rows import packed
from .schema import facts, memories, sessions, users

_USED = frozenset({"referenced", "returned"})
"""Events that use an effort which a search of the same turn found."""

FREE = ~or_(memories.c.suppressed, memories.c.withdrawn)
"""The condition that a memory may enter attention."""

_ENDED = select(facts.c.memory).where(facts.c.owner == memories.c.owner, facts.c.field == ENDED)
_KNOWN = or_(~memories.c.withdrawn, memories.c.memory.in_(_ENDED))
"""The condition that a memory is listed; those of abandoned branches are not."""

_BY_HAND = "00"
"""Stands for the turn that ended a fact, if it was suppressed instead."""

_LOCK = select(users.c.id).where(users.c.id == bindparam("user")).with_for_update()
"""Makes other writers of a user's attention wait; SQLite has one writer at a time anyway."""


class SqlAttention(Attention):
    """Attention in the database of an archive.

    Any number of threads, processes and machines may use it. A commit does not know `threshold` and
    `capacity`: the next reading applies them to what the turn concluded or accessed.
    """

    def __init__(
        self,
        database: Database,
        *,
        threshold: float = ATTENTION_THRESHOLD,
        capacity: int = CAPACITY,
    ) -> None:
        """Attend up to `capacity` memories of a user that hold `threshold` (0-100) or more."""
        self.database = database
        self.threshold, self.capacity = threshold, capacity

    def add(self, user_id: str, memory: Memory, *, now: datetime) -> None:
        with self._writing(user_id) as (connection, known_user):
            user = known_user or added(connection, users, {"name": user_id})
            lock(connection, user)
            own = sessions.c.owner == user, sessions.c.name == parted(memory.id)[0]
            session = connection.execute(select(sessions.c.id).where(*own)).scalar()
            put(connection, user, memory.id, memory, session)
            self._settle(connection, user, now)

    def touch(self, user_id: str, memory_id: str, *, now: datetime) -> None:
        self._change(user_id, memory_id, now, accesses=memories.c.accesses + 1)

    def top(self, user_id: str, limit: int, *, now: datetime) -> tuple[Ranked, ...]:
        return self._settled(user_id, now)[0][: max(0, limit)]

    def prune(self, user_id: str, *, now: datetime) -> int:
        return self._settled(user_id, now)[1]

    def refresh_for_context(
        self, user_id: str, message: str, limit: int, *, now: datetime
    ) -> tuple[Ranked, ...]:
        candidates = self.within_reach(user_id, now=now)
        return ranked(candidates, self.threshold, now=now, message=message)[: max(0, limit)]

    def attended(self, user_id: str, *, now: datetime) -> tuple[Kept, ...]:  # noqa: ARG002 (the protocol's)
        """Return the memories that have entered, and did not leave at a reading."""
        return self._stored(user_id, memories.c.attended)

    def within_reach(self, user_id: str, *, now: datetime) -> tuple[Kept, ...]:
        """Return the attended memories, and those that a message could lift to the threshold."""
        # And a few more that none could lift, but few of many rows: a memory is still decaying, or
        # its base and accesses suffice when it has decayed. Whole days and a bit below the
        # threshold, because databases differ in how they order texts and round.
        decaying = (now.astimezone(UTC) - (DECAYING + 1) * DAY).date().isoformat()
        boost = BOOST * memories.c.accesses + 1.0
        strength = memories.c.base * boost * in_context(LEAST_DECAY, 1)
        liftable = or_(memories.c.created > decaying, strength > self.threshold - 0.001)
        return self._stored(user_id, or_(memories.c.attended, and_(FREE, liftable)))

    def changed(self, user_id: str) -> bool:  # noqa: ARG002 (the protocol's)
        return True  # nothing is cached

    def suppress(self, user_id: str, memory_id: str, *, now: datetime) -> bool:
        return self._change(user_id, memory_id, now, suppressed=True)

    def unsuppress(self, user_id: str, memory_id: str, *, now: datetime) -> bool:
        return self._change(user_id, memory_id, now, suppressed=False)

    def suppressed(self, user_id: str, *, now: datetime) -> tuple[str, ...]:  # noqa: ARG002 (the protocol's)
        return tuple(sorted(row.memory.id for row in self._stored(user_id, memories.c.suppressed)))

    def forget(self, user_id: str, memory_id: str, *, now: datetime) -> None:  # noqa: ARG002 (as above)
        if self.database.exists():
            with self._writing(user_id) as (connection, user):
                connection.execute(delete(memories).where(*row_of(user, memory_id)))
                connection.execute(delete(facts).where(*row_of(user, memory_id, facts)))

    def reword(self, user_id: str, memory_id: str, text: str) -> bool:
        if not self.database.exists():
            return False
        with self._writing(user_id) as (connection, user):
            said = update(facts).where(*row_of(user, memory_id, facts))
            change = said.values(text=storable_text(text))
            set_keywords(connection, user, memory_id, text)
            return bool(connection.execute(change).rowcount)

    def remembered(self, user_id: str) -> tuple[str, ...]:
        stored = [one.memory for one in self._stored(user_id, _KNOWN)]
        by_id = sorted(stored, key=attrgetter("id"))
        newest_first = sorted(by_id, key=attrgetter("created"), reverse=True)
        return tuple(memory.id for memory in newest_first)

    def explain(self, user_id: str, memory_id: str, *, now: datetime) -> Explanation | None:
        stored = self._stored(user_id, or_(memories.c.attended, memories.c.memory == memory_id))
        attended = memory_id in {memory.id for memory in self._inside(stored, now)}
        for kept in stored:
            if kept.memory.id == memory_id:
                return kept.explained(self.threshold, attended=attended, now=now)
        return None

    def _inside(self, stored: Sequence[Kept], now: datetime) -> tuple[Ranked, ...]:
        """Return the attended memories that hold the threshold, up to the capacity."""
        entered = (memory for memory in stored if memory.attended)
        return ranked(entered, self.threshold, now=now)[: self.capacity]

    def _stored(self, user_id: str, *conditions: Any) -> tuple[Kept, ...]:
        without_controls("user_id", user_id)
        if not self.database.exists():
            return ()
        with _errors_of_attention(), self.database.reading() as connection:
            query = select(memories).join(users, users.c.id == memories.c.owner)
            rows = connection.execute(query.where(users.c.name == user_id, *conditions))
            return tuple(_memory_of(row) for row in rows)

    def _change(self, user_id: str, memory_id: str, now: datetime, **values: Any) -> bool:
        """Change a memory, which may enter or leave by it; tell whether it is stored."""
        if not self.database.exists():
            return False
        with self._writing(user_id) as (connection, user):
            change = update(memories).where(*row_of(user, memory_id))
            # As at a commit it enters first, and leaves at once if it may not stay.
            stored = connection.execute(change.values(**values, attended=True)).rowcount
            if "suppressed" in values:
                _lift(connection, user, memory_id, stamped(now) if values["suppressed"] else "")
            self._settle(connection, user, now)
        return bool(stored)

    def _settled(self, user_id: str, now: datetime) -> tuple[tuple[Ranked, ...], int]:
        """Return the memories in attention, and how many left now because they faded."""
        attended = self.attended(user_id, now=now)
        inside = self._inside(attended, now)
        if len(inside) == len(attended):  # none leaves, so that no lock is needed
            return inside, 0
        with self._writing(user_id) as (connection, user):
            return self._settle(connection, user, now)

    def _settle(
        self, connection: Connection, user: int, now: datetime
    ) -> tuple[tuple[Ranked, ...], int]:
        """Let memories leave that may not stay, and those that hold least above the capacity."""
        query = select(memories).where(memories.c.owner == user, memories.c.attended)
        stored = [_memory_of(row) for row in connection.execute(query)]
        inside = self._inside(stored, now)
        staying = {memory.id for memory in inside}
        leaving = [kept for kept in stored if kept.memory.id not in staying]
        for kept in leaving:
            leave = update(memories).where(*row_of(user, kept.memory.id))
            connection.execute(leave.values(attended=False))
        # A memory that never reached the threshold has not faded.
        faded = (
            kept.holds(now) < self.threshold <= kept.holds(kept.memory.created) for kept in leaving
        )
        return inside, sum(faded)

    @contextmanager
    def _writing(self, user_id: str) -> Iterator[tuple[Connection, int]]:
        """Yield a connection to write and the id of the user, locked; 0 if there is no user."""
        without_controls("user_id", user_id)
        locked = select(users.c.id).where(users.c.name == user_id).with_for_update()
        try:
            with _errors_of_attention(), self.database.writing() as connection:
                yield connection, connection.execute(locked).scalar() or 0
        finally:  # after a failure too: the commit may have succeeded and only its answer be lost
            self.changed(user_id)


@contextmanager
def _errors_of_attention() -> Iterator[None]:
    try:
        yield
    except (ArchiveError, OSError) as error:
        raise AttentionError(str(error)) from error


def _lift(connection: Connection, user: int, memory_id: str, at: str) -> None:
    """Note when somebody suppressed a fact, "" if it is no longer suppressed."""
    own = row_of(user, memory_id, facts)
    connection.execute(delete(facts).where(*own, facts.c.hash == _BY_HAND))
    said = select(facts).where(*own).order_by(facts.c.at.desc()).limit(1)
    if at and (row := connection.execute(said).first()):
        ended = {"hash": _BY_HAND, "field": ENDED, "at": at}
        connection.execute(insert(facts).values({**row._asdict(), **ended}))


def lock(connection: Connection, user: int) -> None:
    """Let other writers of a user's attention wait."""
    connection.execute(_LOCK, {"user": user})


def attend(
    connection: Connection, session: Session, past: Past, turn: StoredTurn, *, moved: bool
) -> None:
    """Write what a turn, which `past` ends with, does to its user's attention.

    A concluded effort becomes a memory, a reopened one is withdrawn; one that was expanded, or
    found by a search and used, counts an access. `moved`: the turn does not follow the session's
    newest one, so that other efforts are concluded.
    """
    row, efforts, used = past.session, left_by(turn), accessed(turn.events)
    if efforts or used or moved:
        lock(connection, row.user)
    if moved:
        _renew(connection, session, past)
    for effort in efforts:
        memory = _memory(session, effort, turn.at)
        put(connection, row.user, qualified(session, effort.id), memory, row.id)
    names = (name if is_qualified(name) else qualified(session, name) for name in used)
    count_accesses(connection, row.user, {*names})


def count_accesses(connection: Connection, user: int, ids: Collection[str]) -> None:
    """Count an access of each of these memories."""
    counted = {"accesses": memories.c.accesses + 1, "attended": FREE}
    own = memories.c.owner == user, among(memories.c.memory, ids)
    if ids:
        connection.execute(update(memories).where(*own).values(counted))


def accessed(events: Sequence[Event]) -> tuple[str, ...]:
    """Return the efforts that a turn used, by its events, each once.

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


def touches_attention(turn: StoredTurn) -> bool:
    """Tell whether a commit changed the attention of its user, see `attend` and `remember`."""
    said = any(event["type"] == "anchored" for event in turn.events)
    return bool(left_by(turn) or accessed(turn.events) or said)


def _renew(connection: Connection, session: Session, past: Past) -> None:
    """Bring the memories of a session up to date with a branch, when the thread moved to it.

    Those of efforts that the branch has not concluded are withdrawn.
    """
    own_row = past.session
    own = (memories.c.owner == own_row.user, memories.c.session == own_row.id)  # no facts
    stored = [_memory_of(row) for row in connection.execute(select(memories).where(*own))]
    prefix = qualified(session, "")  # the name of an effort may have a slash as well
    efforts = {kept.memory.id: kept.memory.id.removeprefix(prefix) for kept in stored}
    rows = past.changes([*efforts.values()]) if stored else {}
    for kept in stored:
        row = rows.get(efforts[kept.memory.id])
        memory = None if row is None else _memory(session, effort_of(row), row.at)
        if kept.withdrawn or kept.memory != memory:  # an unchanged one that left must not re-enter
            put(connection, own_row.user, kept.memory.id, memory, own_row.id)


def _memory(session: Session, effort: Effort, at: str) -> Memory | None:
    if effort.status != "concluded":
        return None
    return Memory(qualified(session, effort.id), effort.importance, moment(at), effort.keywords)


def put(
    connection: Connection, user: int, memory_id: str, memory: Memory | None, session: int | None
) -> None:
    """Store a memory, without changing its accesses and suppression; None withdraws it."""
    if memory is None:
        withdrawn = {"withdrawn": True, "attended": False}
        connection.execute(update(memories).where(*row_of(user, memory_id)).values(withdrawn))
        return
    renewed = {
        "session": session,
        "base": memory.base,
        "created": memory.created.astimezone(UTC).isoformat(),
        "keywords": packed(clean(memory.keywords)),
        "withdrawn": False,
    }
    row = {**renewed, "owner": user, "memory": memory_id, "accesses": 0, "suppressed": False}
    statement = (
        upsert(connection, memories)
        .values(**row, attended=True)
        .on_conflict_do_update(
            index_elements=["owner", "memory"],
            set_={**renewed, "attended": ~memories.c.suppressed},
        )
    )
    connection.execute(statement)


def _memory_of(row: Any) -> Kept:
    memory = Memory(row.memory, row.base, moment(row.created), tuple(json.loads(row.keywords)))
    return Kept(memory, row.accesses, row.suppressed, row.withdrawn, row.attended)


def moment(at: str) -> datetime:
    """Return a stored time in UTC, the present if it cannot be read."""
    try:
        time = datetime.fromisoformat(at)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return datetime.now(UTC)


def storable_text(text: str) -> str:
    """Return a text without NUL, which PostgreSQL does not store."""
    return str(clean(text)).replace("\0", "\ufffd")


def set_keywords(connection: Connection, user: int, memory_id: str, text: str) -> None:
    """Give a fact the keywords of its text."""
    keywords = packed(clean(keywords_of(text)))
    connection.execute(update(memories).where(*row_of(user, memory_id)).values(keywords=keywords))


def row_of(user: int, memory_id: Any, table: Any = memories) -> tuple[Any, ...]:
    """Return the conditions of a memory's row, or of its rows in another table."""
    return table.c.owner == user, table.c.memory == memory_id
