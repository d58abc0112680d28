"""Committing a turn: its record and all that follows from it, in one transaction."""

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
from .index import Postings, headings, layout, postings
from .lineage import (
    AMBIENT,
    BRANCH,
    Branch,
    Known,
    Lineage,
    Segment,
    Session,
    beginning,
    branch_of,
)
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

_PLACE = (turns.c.session == bindparam("session"), turns.c.branch == bindparam("branch"))
_SLOT = select(turns.c.digest, turns.c.parent).where(*_PLACE, turns.c.turn == bindparam("turn"))
_HEAD = (
    select(turns.c.turn)
    .where(*_PLACE, turns.c.turn < bindparam("below"))
    .order_by(turns.c.turn.desc())
    .limit(1)
)
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
    """The occupied places of a session, each branch asked for once."""

    connection: Connection
    session: int
    branches: dict[str, Any] = field(default_factory=dict)

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
        if name not in self.branches:
            place = {"session": self.session, "branch": name}
            self.branches[name] = self.connection.execute(BRANCH, place).first()
        return self.branches[name]


def commit(
    connection: Connection, session: Session, tip: Tip, group: Group, known: Known | None
) -> tuple[Record, int | None, Known]:
    """Write a group after `tip`, once, given what is known of what the tip sees, if anything is.

    Return the record as it is stored, its number, None if it was there, and what is known of what
    it sees.
    """
    group = storable(group)
    slots = _Slots(connection, session.id)
    record, stored = placement(tip, group, slots)
    row = slots.branch(record.branch)
    if stored:  # it may have other events
        known = Known.of(record.tip, beginning(row))
        (record,) = Lineage(lambda: connection, session.id, known).turns([record.turn])
        return record, None, known
    follows = (record.branch, record.turn) == (tip.branch, tip.turn + 1)
    if row is None:
        known = None
    elif known is None or not follows:
        known = Known.of(Tip(record.branch, record.turn - 1), beginning(row))
    return record, *write(connection, session, record, group.state, known)


def session_of(connection: Connection, owner: Owner) -> Session:
    """Return a session to be written, made if it is not there; others wait for the transaction."""
    try:
        return Session.of(connection, owner, lock=True)
    except SessionNotFoundError:
        user = None
    while user is None:
        # Whoever deletes the user is waited for, or waits: a session begun meanwhile is nobody's.
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
    known: Known | None,
) -> tuple[int, Known]:
    """Write a record at its place, with the rows by which it is found; return its number.

    Given what is known of what the turn before it sees, None if its branch begins with it, and
    returning what is known of what it sees itself.
    """
    number = nth_turn(session.id, session.turns + 1)
    if known is None:
        known = _begin(connection, session.id, record)
    else:
        newest = {"newest": record.turn, "when": record.at}
        connection.execute(_EXTENDED, {"of": session.id, "named": record.branch, **newest})
    seen = Lineage(lambda: connection, session.id, known)
    ambient, efforts = seen.counts()
    names = [*{effort.id: effort for effort in left_by(record)}]
    parts = passages(record.messages)
    row = {
        **columns(record),
        "passages": layout(parts),
        "ambient": ambient + (not record.efforts),
        "efforts_seen": efforts + len(names) - len(seen.efforts_named(names)),
        "id": number,
        "session": session.id,
        "state": None if state is None else zipped(packed(state)),
    }
    connection.execute(insert(turns), row)
    place = {"session": session.id, "branch": record.branch, "turn": record.turn}
    members_of = [{"effort": effort, **place} for effort in record.efforts or (AMBIENT,)]
    connection.execute(insert(members), members_of)
    Postings(connection, said, session.owner).add(postings(number, parts))
    add_changes(connection, session, number, record)
    count = {"count": session.turns + 1, "newest": record.branch, "after": f'"{record.parent}"'}
    connection.execute(_COUNTED, {"of": session.id, **count})
    return number, known.after(record)


def add_changes(connection: Connection, session: Session, number: int, record: Record) -> None:
    """Write how a record left efforts, given the number of its turn."""
    rows: list[dict[str, Any]] = []
    for event in record.events:
        effort = changed(event, record.turn)
        if effort is not None:
            row = {
                "id": nth_change(number, len(rows)),
                "owner": session.owner,
                "session": session.id,
                "effort": effort.id,
                "branch": record.branch,
                "turn": record.turn,
                "status": effort.status,
                "at": record.at,
                "entry": packed(event),
            }
            rows.append(row)
    if rows:
        connection.execute(insert(changes), rows)
        Postings(connection, headed, session.owner).add(headings(number, record))


def _begin(connection: Connection, session: int, record: Record) -> Known:
    """Write where a branch begins: after its origin and all that this one sees."""
    ancestors: tuple[Segment, ...] = ()
    if record.origin is not None:
        parent, upto = record.origin
        origin = branch_of(connection, session, parent)
        if origin is not None:
            ancestors = (Segment(parent, upto, origin.first), *origin.ancestors)
    row = {
        "session": session,
        "branch": record.branch,
        "ancestors": json.dumps(ancestors),
        "first": record.turn,
        "last": record.turn,
        "at": record.at,
    }
    connection.execute(insert(branches), row)
    return Known.of(Tip(record.branch, record.turn - 1), Branch(record.turn, ancestors))
