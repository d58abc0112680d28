"""Committing a turn: its record and the rows that are derived from it, in one transaction."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import Connection, bindparam, case, insert, select, update

from ..attachments import references
from ..efforts import changed, left_by
from ..errors import SessionNotFoundError, TipNotFoundError
from ..names import session_name
from ..record import Group, Owner, Record, Tip, commit_id
from ..search.passages import passages
from . import attachments, parts
from .database import added
from .index import add_terms, headings, layout, postings, preset
from .lineage import RECORD, Lineage, Segment, Session, Snapshot, listed_under
from .records import columns, packed, parted_state, record_of, storable, unzipped, zipped
from .schema import (
    ANCHOR,
    blocks,
    changes,
    headed,
    members,
    passage_id,
    runs,
    said,
    sessions,
    turn_id,
    turns,
    users,
)

_STORED = select(*RECORD).where(
    turns.c.hash == bindparam("id"), turns.c.session == bindparam("of_session")
)
_LOCK = select(sessions.c.id).where(sessions.c.id == bindparam("of_session")).with_for_update()
_END = select(turns.c.end).where(turns.c.id == bindparam("number"))
_BLOCK = select(turns.c.block, ANCHOR).where(turns.c.id == bindparam("number"))
_EXTEND_RUN = (
    update(runs)
    .where(runs.c.id == bindparam("of_run"), runs.c.last == bindparam("newest_place") - 1)
    .values(last=bindparam("newest_place"))
)
"""Changes no row if another turn followed the end of the run meanwhile."""

# `reseed` stays only if the turn follows it: a thread that continues from another has its state.
_UPDATE_SESSION = (
    update(sessions)
    .where(sessions.c.id == bindparam("session"))
    .values(
        turns=bindparam("count"),
        newest=bindparam("newest_row"),
        reseed=case((sessions.c.reseed.contains(bindparam("after")), sessions.c.reseed)),
    )
)


@dataclass(frozen=True, slots=True)
class Committed:
    """A record as it is stored, with its own snapshot and the snapshot of its parent.

    `before` is None if the record was stored before.
    """

    record: Record
    snapshot: Snapshot
    before: Snapshot | None = None


def commit(
    connection: Connection, session: Session, tip: Tip, group: Group, snapshot: Snapshot | None
) -> Committed:
    """Write a group after `tip`, once; `snapshot` is of the tip, None if none is cached.

    A turn's number is the one after its parent's, a command's that of its parent, whatever the
    group says. Raises `TipNotFoundError` if the user has no turn of the tip.
    """
    group = storable(group)
    number = commit_id(group.nonce, tip.id, group.content)
    stored = connection.execute(_STORED, {"of_session": session.id, "id": number}).first()
    if stored is not None:  # what was committed first stays, even if its events differ
        record = record_of(stored)
        return Committed(record, cast("Snapshot", Snapshot.of(connection, session, record.tip)))
    if snapshot is None:
        snapshot = Snapshot.of(connection, session, tip)
    parents = snapshot.segments[:1] if snapshot else ()
    if parents and parents[0].session != session.id:
        # Of a copied thread; whoever deletes the original waits, or has deleted it meanwhile.
        connection.execute(_LOCK, {"of_session": parents[0].session})
        snapshot = Snapshot.of(connection, session, tip)
    if snapshot is None:
        raise TipNotFoundError(tip.id, tip.turn)
    record = Record(
        sum(parent.turn for parent in parents) + (group.status != "command"),
        number,
        tip.id,
        group.messages,
        group.at,
        group.efforts,
        group.events,
        group.status,
    )
    return Committed(record, write(connection, session, record, group, snapshot), snapshot)


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
    new = {"thread": owner.thread, "namespace": owner.namespace, "turns": 0, "newest": 0}
    added(connection, sessions, {"owner": user, "name": session_name(owner)}, **new)
    return Session.of(connection, owner, lock=True)


def write(
    connection: Connection, session: Session, record: Record, group: Group, snapshot: Snapshot
) -> Snapshot:
    """Write a record after the snapshot of its parent, with the rows by which it is found."""
    number = turn_id(session.id, session.turns + 1)
    segments = _segments(connection, session.id, record, snapshot)
    run, place = segments[0].run, segments[0].last
    lineage = Lineage(lambda: connection, session, snapshot)
    names = [*{effort.id: effort for effort in left_by(record)}]
    said_in = passages(record.messages)
    state, anchor = parted_state(group.state)
    row = {
        **columns(record),
        "id": number,
        "owner": session.owner,
        "session": session.id,
        "run": run,
        "place": place,
        "nonce": group.nonce,
        "passages": layout(said_in),
        "efforts_seen": lineage.effort_count() + len(names) - len(lineage.efforts_named(names)),
        "state": None if state is None else zipped(packed(state)),
        "block": None if anchor is None else _block(connection, number, anchor, snapshot),
    }
    if record.status == "command":  # found like the turn that it follows
        row["end"] = connection.execute(_END, {"number": snapshot.row}).scalar() or ""
    connection.execute(insert(turns), row)
    at = {"run": run, "place": place, "turn": record.turn}
    if rows := [{"effort": effort, **at} for effort in listed_under(record)]:
        connection.execute(insert(members), rows)
    add_terms(connection, said, session.owner, postings(number, said_in, preset(record)))
    add_changes(connection, session, {"id": number, **at}, record)
    if group.attachments:
        attachments.put(connection, session.owner, number, group.attachments)
    contents = [message["data"].get("content") for message in record.messages]
    if digests := references(contents):
        attachments.refer(connection, session.owner, number, digests)
    if group.part:
        parts.join(connection, session.owner, number, group)
    counted = {"session": session.id, "count": session.turns + 1, "newest_row": number}
    connection.execute(_UPDATE_SESSION, {**counted, "after": f'"{record.parent}"'})
    return snapshot.after(record, number, segments)


def add_changes(
    connection: Connection, session: Session, at: Mapping[str, int], record: Record
) -> None:
    """Write the changes of efforts in a record; `at` has the id, run, place and turn of its row."""
    place = {"owner": session.owner, "session": session.id, **at, "at": record.at}
    rows: list[dict[str, Any]] = []
    for event in record.events:
        effort = changed(event, record.turn)
        if effort is not None:
            change = {"effort": effort.id, "status": effort.status, "entry": packed(event)}
            rows.append({**place, "id": passage_id(at["id"], len(rows)), **change})
    if rows:
        connection.execute(insert(changes), rows)
        add_terms(connection, headed, session.owner, headings(at["id"], record))


def _block(
    connection: Connection, number: int, anchor: Mapping[str, str], snapshot: Snapshot
) -> int:
    """Return the row of a state block: the parent's if that one is the same, else a new one."""
    text, before = packed(anchor), connection.execute(_BLOCK, {"number": snapshot.row}).first()
    if before is not None and before.anchor is not None and unzipped(before.anchor) == text:
        return int(before.block)
    connection.execute(insert(blocks), {"id": number, "anchor": zipped(text)})
    return number


def _segments(
    connection: Connection, session: int, record: Record, snapshot: Snapshot
) -> tuple[Segment, ...]:
    """Return the segments of a record after those of its parent; extend a run, or begin one."""
    before = snapshot.segments
    place = before[0].last + 1 if before else 1
    if before and before[0].session == session:
        end = {"of_run": before[0].run, "newest_place": place}
        if connection.execute(_EXTEND_RUN, end).rowcount:
            own = before[0]._replace(last=place, turn=record.turn)
            return (own, *before[1:])
    row = {"session": session, "ancestors": json.dumps(before), "first": place, "last": place}
    (run,) = connection.execute(insert(runs).values(row)).inserted_primary_key or (0,)
    return (Segment(run, session, place, record.turn), *before)
