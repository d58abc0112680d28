"""Committing a turn: its record and all that follows from it, in one transaction."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, bindparam, case, insert, select, update

from ..efforts import changed
from ..names import session_name
from ..passages import passages
from ..record import Group, Owner, Record, Slot, Tip, placement
from . import memories
from .database import added
from .index import Postings, heading, layout, postings
from .lineage import AMBIENT, BRANCH, Branch, Known, Lineage, beginning, branch_of, lineage
from .records import columns, left_by, packed, storable, zipped
from .schema import (
    branches,
    changes,
    headed,
    members,
    nth_change,
    nth_turn,
    said,
    sessions,
    turns,
    users,
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


_PLACE = (turns.c.session == bindparam("session"), turns.c.branch == bindparam("branch"))
_SLOT = select(turns.c.digest, turns.c.parent).where(*_PLACE, turns.c.turn == bindparam("turn"))
_HEAD = (
    select(turns.c.turn)
    .where(*_PLACE, turns.c.turn < bindparam("below"))
    .order_by(turns.c.turn.desc())
    .limit(1)
)
SESSION = (
    select(
        *(sessions.c.id, sessions.c.owner, sessions.c.name),
        *(sessions.c.turns, sessions.c.rewritten, sessions.c.branch),
    )
    .join(users, users.c.id == sessions.c.owner)
    .where(users.c.name == bindparam("user"), sessions.c.name == bindparam("named"))
)
_OWNED = SESSION.with_for_update(of=sessions)
_EXTENDED = (
    update(branches)
    .where(branches.c.session == bindparam("of"), branches.c.branch == bindparam("named"))
    .values(last=bindparam("newest"), at=bindparam("when"))
)

# A thread that goes on from elsewhere than where it was to be seeded again has its state.
_COUNTED = (
    update(sessions)
    .where(sessions.c.id == bindparam("of"))
    .values(
        turns=bindparam("count"),
        branch=bindparam("newest"),
        reseed=case((sessions.c.reseed.contains(bindparam("after")), sessions.c.reseed)),
    )
)


@dataclass(slots=True)
class _Slots:
    """The occupied places of a session, each asked for once."""

    connection: Connection
    session: int
    known: dict[str, Any] = field(default_factory=dict)

    def slot(self, branch: str, turn: int) -> Slot | None:
        """Return what occupies this place, None if it is free."""
        known = self.branch(branch)
        if known is None or not known.first <= turn <= known.last:
            return None
        place = {"session": self.session, "branch": branch, "turn": turn}
        row = self.connection.execute(_SLOT, place).first()
        if row is None:
            return None
        ancestors = beginning(known).ancestors if known.first == turn else ()
        return Slot(row.digest, row.parent, ancestors[0][:2] if ancestors else None)

    def head(self, branch: str, below: int | None = None) -> int:
        """Return the newest turn of a branch, or the newest before `below`; 0 if none."""
        known = self.branch(branch)
        if known is None or below is None or known.last < below:
            return known.last if known else 0
        place = {"session": self.session, "branch": branch, "below": below}
        return self.connection.execute(_HEAD, place).scalar() or 0

    def branch(self, name: str) -> Any:
        """Return the row of a branch, None if it is free."""
        if name not in self.known:
            place = {"session": self.session, "branch": name}
            self.known[name] = self.connection.execute(BRANCH, place).first()
        return self.known[name]


def commit(
    connection: Connection, owner: Owner, tip: Tip, group: Group, known: Callable[[Session], Known]
) -> tuple[Session, Record, int | None]:
    """Write a group after `tip`, once; return its record and its number, None if it was there.

    `known` returns what is known of `tip` in a session as it is now.
    """
    group = storable(group)
    session = session_of(connection, owner)
    slots = _Slots(connection, session.id)
    record, stored = placement(tip, group, slots)
    if stored:
        return session, record, None
    follows = (record.branch, record.turn) == (tip.branch, tip.turn + 1)
    row, kept = slots.branch(record.branch), {"known": known(session)} if follows else {}
    seen = before(connection, session, record, beginning(row), **kept) if row else None
    number = write(connection, session, record, group.state, seen)
    attend(connection, session, owner, record)
    return session, record, number


def attend(connection: Connection, session: Session, owner: Owner, record: Record) -> None:
    """Tell attention of a turn that was written; `session` is as it was before."""
    if owner.anonymous:
        return
    if session.branch not in {"", record.branch}:  # attention was told of one that was left
        branch = branch_of(connection, session.id, record.branch)
        seen = lineage(lambda: connection, session.id, record.tip, branch)
        memories.renew(connection, session.owner, owner, seen)
    memories.attend(connection, session.owner, owner, session.id, record)


def as_stored(connection: Connection, session: Session, record: Record) -> Record:
    """Return a record as the archive has it, which may have other events."""
    branch = branch_of(connection, session.id, record.branch)
    records = lineage(lambda: connection, session.id, record.tip, branch).turns([record.turn])
    return records[0] if records else record


def session_of(connection: Connection, owner: Owner) -> Session:
    """Return a session to be written, made if it is not there; others wait for the transaction."""
    name = session_name(owner)
    asked = {"user": owner.user, "named": name}
    row = connection.execute(_OWNED, asked).first()
    if row is None:
        user = _user(connection, owner.user)
        rest = {"thread": owner.thread, "namespace": owner.namespace, "turns": 0, "branch": ""}
        added(connection, sessions, {"owner": user, "name": name}, **rest)
        row = connection.execute(_OWNED, asked).one()
    return Session(*row)


def _user(connection: Connection, name: str) -> int:
    """Return the number of a user, added if need be, and lock the row.

    Whoever deletes the user is waited for, or waits: a session begun meanwhile is nobody's.
    """
    while True:
        user = added(connection, users, {"name": name})
        locked = select(users.c.id).where(users.c.id == user).with_for_update()
        if connection.execute(locked).scalar() is not None:
            return user


def write(
    connection: Connection,
    session: Session,
    record: Record,
    state: Mapping[str, Any] | None,
    seen: Lineage | None,
) -> int:
    """Write a record at its place, with the rows by which it is found, and return its number.

    `seen` is what the turn before it sees, None if its branch begins with it.
    """
    number = nth_turn(session.id, session.turns + 1)
    if seen is None:
        seen = before(connection, session, record, _begin(connection, session.id, record))
    else:
        newest = {"newest": record.turn, "when": record.at}
        connection.execute(_EXTENDED, {"of": session.id, "named": record.branch, **newest})
    parts = passages(record.messages)
    row = {
        **columns(record),
        "passages": layout(parts),
        **_counts(seen, record),
        "id": number,
        "session": session.id,
        "content": None,
        "state": None if state is None else zipped(packed(state)),
    }
    connection.execute(insert(turns), row)
    place = {"session": session.id, "branch": record.branch, "turn": record.turn}
    efforts = [{"effort": effort, **place} for effort in record.efforts or (AMBIENT,)]
    connection.execute(insert(members), efforts)
    Postings(connection, said, session.owner).add(postings(number, parts))
    add_changes(connection, session, number, record)
    count = {"count": session.turns + 1, "newest": record.branch, "after": f'"{record.parent}"'}
    connection.execute(_COUNTED, {"of": session.id, **count})
    return number


def before(
    connection: Connection, session: Session, record: Record, branch: Branch, **kept: Any
) -> Lineage:
    """Return what the turn before a record sees."""
    tip = Tip(record.branch, record.turn - 1)
    return lineage(lambda: connection, session.id, tip, branch, **kept)


def _counts(seen: Lineage, record: Record) -> dict[str, int]:
    """Return how many ambient turns and efforts there are after a record."""
    ambient, efforts = seen.counts()
    names = list(dict.fromkeys(effort.id for effort in left_by(record)))
    fresh = len(names) - len(seen.efforts_named(names))
    return {"ambient": ambient + (not record.efforts), "efforts_seen": efforts + fresh}


def add_changes(connection: Connection, session: Session, number: int, record: Record) -> None:
    """Write how a record left efforts, given the number of its turn."""
    rows: list[dict[str, Any]] = []
    terms: list[tuple[int, list[str]]] = []
    for event in record.events:
        effort = changed(event, record.turn)
        if effort is not None:
            key = nth_change(number, len(rows))
            rows.append(
                {
                    "id": key,
                    "owner": session.owner,
                    "session": session.id,
                    "effort": effort.id,
                    "branch": record.branch,
                    "turn": record.turn,
                    "status": effort.status,
                    "at": record.at,
                    "entry": packed(event),
                }
            )
            terms.append((key, heading(effort)))
    if rows:
        connection.execute(insert(changes), rows)
        Postings(connection, headed, session.owner).add(terms)


def _begin(connection: Connection, session: int, record: Record) -> Branch:
    """Write where a branch begins: after its origin and all that this one sees."""
    ancestors: tuple[tuple[str, int, int], ...] = ()
    if record.origin is not None:
        parent, upto = record.origin
        origin = branch_of(connection, session, parent)
        if origin is not None:
            ancestors = ((parent, upto, origin.first), *origin.ancestors)
    row = {
        "session": session,
        "branch": record.branch,
        "ancestors": json.dumps(ancestors),
        "first": record.turn,
        "last": record.turn,
        "at": record.at,
    }
    connection.execute(insert(branches), row)
    return Branch(record.turn, ancestors)
