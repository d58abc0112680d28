"""Committing a turn: its record and the rows that are derived from it, in one transaction."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, bindparam, case, insert, select, update

from ..efforts import changed
from ..errors import SessionNotFoundError
from ..names import session_name
from ..passages import passages
from ..record import Group, Owner, Record, Slot, Tip, placement
from .database import added
from .index import add_terms, headings, layout, postings
from .lineage import AMBIENT, BRANCH, Branch, Lineage, Segment, Session, Snapshot
from .records import columns, left_by, packed, storable, zipped
from .schema import (
    branches,
    changes,
    headed,
    members,
    passage_id,
    said,
    sessions,
    turn_id,
    turns,
    users,
)

_PLACE = (turns.c.session == bindparam("session"), turns.c.branch == bindparam("branch"))
_SLOT = select(turns.c.digest, turns.c.parent).where(*_PLACE, turns.c.turn == bindparam("turn"))
_HEAD = (
    select(turns.c.turn)
    .where(*_PLACE, turns.c.turn < bindparam("below"))
    .order_by(turns.c.turn.desc())
    .limit(1)
)
_EXTEND_BRANCH = (
    update(branches)
    .where(branches.c.session == bindparam("id"), branches.c.branch == bindparam("name"))
    .values(last=bindparam("newest_turn"), at=bindparam("time"))
)

# `reseed` stays only if the turn follows it: a thread that continues from another has its state.
_UPDATE_SESSION = (
    update(sessions)
    .where(sessions.c.id == bindparam("session"))
    .values(
        turns=bindparam("count"),
        branch=bindparam("newest_branch"),
        reseed=case((sessions.c.reseed.contains(bindparam("after")), sessions.c.reseed)),
    )
)


@dataclass(slots=True)
class _Slots:
    """The occupied slots of a session; each branch is read once."""

    connection: Connection
    session: int
    branches: dict[str, Any] = field(default_factory=dict)

    def slot(self, branch: str, turn: int) -> Slot | None:
        """Return what occupies a slot, None if it is free."""
        row = self.branch(branch)
        if row is None or not row.first <= turn <= row.last:
            return None
        place = {"session": self.session, "branch": branch, "turn": turn}
        occupant = self.connection.execute(_SLOT, place).first()
        if occupant is None:
            return None
        ancestors = Branch.from_row(row).ancestors if row.first == turn else ()
        return Slot(occupant.digest, occupant.parent, ancestors[0][:2] if ancestors else None)

    def head(self, branch: str, below: int | None = None) -> int:
        """Return the newest turn of a branch, or the newest one before `below`; 0 if none."""
        row = self.branch(branch)
        if row is None or below is None or row.last < below:
            return row.last if row else 0
        place = {"session": self.session, "branch": branch, "below": below}
        return self.connection.execute(_HEAD, place).scalar() or 0

    def branch(self, name: str) -> Any:
        """Return the row of a branch, None if the name is free."""
        if name not in self.branches:
            place = {"session": self.session, "branch": name}
            self.branches[name] = self.connection.execute(BRANCH, place).first()
        return self.branches[name]


def commit(
    connection: Connection, session: Session, tip: Tip, group: Group, snapshot: Snapshot | None
) -> tuple[Record, int | None, Snapshot]:
    """Write a group after `tip`, once; `snapshot` is of the tip, None if none is cached.

    Return the record as it is stored, its id, None if it was stored before, and its own snapshot.
    """
    group = storable(group)
    slots = _Slots(connection, session.id)
    record, stored = placement(tip, group, slots)
    row = slots.branch(record.branch)
    if stored:  # what was committed first stays, even if its events differ
        snapshot = Snapshot.of(record.tip, Branch.from_row(row))
        (record,) = Lineage(lambda: connection, session, snapshot).turns([record.turn])
        return record, None, snapshot
    follows = (record.branch, record.turn) == (tip.branch, tip.turn + 1)
    if row is None:
        snapshot = None
    elif snapshot is None or not follows:
        snapshot = Snapshot.of(Tip(record.branch, record.turn - 1), Branch.from_row(row))
    return record, *write(connection, session, record, group.state, snapshot)


def session_of(connection: Connection, owner: Owner) -> Session:
    """Return a session, made if it does not exist, and let its other writers wait."""
    try:
        return Session.of(connection, owner, lock=True)
    except SessionNotFoundError:
        user = None
    while user is None:
        # Locked, so that nobody deletes the user meanwhile; read again if somebody just did.
        number = added(connection, users, {"name": owner.user})
        locked = select(users.c.id).where(users.c.id == number).with_for_update()
        user = connection.execute(locked).scalar()
    new = {"thread": owner.thread, "namespace": owner.namespace, "turns": 0, "branch": ""}
    added(connection, sessions, {"owner": user, "name": session_name(owner)}, **new)
    return Session.of(connection, owner, lock=True)


def write(
    connection: Connection,
    session: Session,
    record: Record,
    state: Mapping[str, Any] | None,
    snapshot: Snapshot | None,
) -> tuple[int, Snapshot]:
    """Write a record in its slot, with the rows by which it is found.

    `snapshot` is of the turn before it, None if its branch begins with it. Return the id of the
    record and its own snapshot.
    """
    number = turn_id(session.id, session.turns + 1)
    if snapshot is None:
        snapshot = _insert_branch(connection, session.id, record)
    else:
        newest = {"newest_turn": record.turn, "time": record.at}
        connection.execute(_EXTEND_BRANCH, {"id": session.id, "name": record.branch, **newest})
    lineage = Lineage(lambda: connection, session, snapshot)
    ambient, efforts = lineage.counts()
    names = [*{effort.id: effort for effort in left_by(record)}]
    parts = passages(record.messages)
    row = {
        **columns(record),
        "passages": layout(parts),
        "ambient": ambient + (not record.efforts),
        "efforts_seen": efforts + len(names) - len(lineage.efforts_named(names)),
        "id": number,
        "session": session.id,
        "state": None if state is None else zipped(packed(state)),
    }
    connection.execute(insert(turns), row)
    place = {"session": session.id, "branch": record.branch, "turn": record.turn}
    rows = [{"effort": effort, **place} for effort in record.efforts or (AMBIENT,)]
    connection.execute(insert(members), rows)
    add_terms(connection, said, session.owner, postings(number, parts))
    add_changes(connection, session, number, record)
    counted = {"session": session.id, "count": session.turns + 1, "newest_branch": record.branch}
    connection.execute(_UPDATE_SESSION, {**counted, "after": f'"{record.parent}"'})
    return number, snapshot.after(record)


def add_changes(connection: Connection, session: Session, number: int, record: Record) -> None:
    """Write the changes of efforts in a record; `number` is its id."""
    place = {"owner": session.owner, "session": session.id, "branch": record.branch}
    place |= {"turn": record.turn, "at": record.at}
    rows: list[dict[str, Any]] = []
    for event in record.events:
        effort = changed(event, record.turn)
        if effort is not None:
            change = {"effort": effort.id, "status": effort.status, "entry": packed(event)}
            rows.append({"id": passage_id(number, len(rows)), **change, **place})
    if rows:
        connection.execute(insert(changes), rows)
        add_terms(connection, headed, session.owner, headings(number, record))


def _insert_branch(connection: Connection, session: int, record: Record) -> Snapshot:
    """Write the branch that begins with a record, and return the snapshot of the turn before it."""
    ancestors: tuple[Segment, ...] = ()
    if record.origin is not None:
        parent, last = record.origin
        origin = Branch.named(connection, session, parent)
        if origin is not None:
            ancestors = (Segment(parent, last, origin.first), *origin.ancestors)
    row = {
        "session": session,
        "branch": record.branch,
        "ancestors": json.dumps(ancestors),
        "first": record.turn,
        "last": record.turn,
        "at": record.at,
    }
    connection.execute(insert(branches), row)
    return Snapshot.of(Tip(record.branch, record.turn - 1), Branch(record.turn, ancestors))
