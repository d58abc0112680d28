"""Committing a turn: its row and the rows that are derived from it, in one transaction.

All that grows with its messages is computed before the transaction (`Prepared`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

from sqlalchemy import Connection, bindparam, case, insert, select, update

from ..attachments import references
from ..efforts import changed, left_by
from ..errors import SessionNotFoundError, TipNotFoundError, UserDeletedError
from ..names import session_name
from ..search.passages import passages
from ..turn import Part, Session, StoredTurn, Tip, commit_id
from . import attachments, parts
from .database import added
from .index import Rows, add_terms, headings, layout, postings, preset
from .load import STORED_TURN, Past, Segment, SessionRow, listed_under
from .rows import columns, packed, parted_state, storable, turn_of, zipped
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

_STORED = select(*STORED_TURN).where(
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
class Prepared:
    """A turn and the values of its rows, but the numbers that its place in the archive gives it.

    It is made before the transaction, in which other writers wait: only inserts are left then.
    """

    turn: StoredTurn
    row: Mapping[str, Any]
    anchor: bytes | None
    said: Rows
    headed: Rows
    files: Mapping[str, bytes]
    refers: Sequence[str]
    parts: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def of(cls, turn: StoredTurn) -> Self:
        """Prepare a turn that has its id."""
        said_in = passages(turn.messages)
        rest, anchor = parted_state(turn.state)
        row = {
            **columns(turn),
            "passages": layout(said_in),
            "state": None if rest is None else zipped(packed(rest)),
        }
        return cls(
            replace(turn, state=None, attachments={}, part=""),
            row,
            None if anchor is None else zipped(packed(anchor)),
            postings(said_in, preset(turn)),
            headings(turn),
            attachments.compressed(turn.attachments),
            [*references(message.content for message in turn.messages)],
        )

    @classmethod
    def after(cls, tip: Tip, turn: StoredTurn, chain: Sequence[Part] = ()) -> Self:
        """Prepare a new turn after `tip`; `chain` are the parts that it joins."""
        turn = storable(turn)
        number = tip.turn + (turn.status != "command")
        own_id = commit_id(turn.nonce, tip.id, turn.hashed)
        new = cls.of(replace(turn, number=number, id=own_id, parent=tip.id))
        return replace(new, parts=parts.places(chain, turn))


@dataclass(frozen=True, slots=True)
class Committed:
    """A turn as it is stored, with the past that ends with it, and that of its parent.

    `before` is None if the turn was stored before.
    """

    turn: StoredTurn
    past: Past
    before: Past | None = None

    @property
    def moved(self) -> bool:
        """Whether the turn does not follow the newest one of its session."""
        return self.before is not None and self.before.row != self.before.session.newest


def commit(
    connection: Connection, session: SessionRow, tip: Tip, new: Prepared, past: Past | None
) -> Committed:
    """Write a prepared turn after `tip`, once; `past` is of the tip, None if it is not known.

    A turn's number is the one after its parent's, a command's that of its parent, whatever the
    tip says. Raises `TipNotFoundError` if the user has no turn of the tip.
    """
    stored, key = None, {"of_session": session.id, "id": new.turn.id}
    if past is None or past.row != session.newest:  # else nothing was committed after the tip
        stored = connection.execute(_STORED, key).first()
    if stored is not None:  # what was committed first stays, even if its events differ
        turn = turn_of(stored)
        return Committed(turn, cast("Past", Past.of(connection, session, turn.tip)))
    if past is None:
        past = Past.of(connection, session, tip)
    parents = past.segments[:1] if past else ()
    if parents and parents[0].session != session.id:
        # Of a copied thread; whoever deletes the original waits, or has deleted it meanwhile.
        connection.execute(_LOCK, {"of_session": parents[0].session})
        past = Past.of(connection, session, tip)
    if past is None:
        raise TipNotFoundError(tip.id, tip.turn)
    number = sum(parent.turn for parent in parents) + (new.turn.status != "command")
    new = replace(new, turn=replace(new.turn, number=number))
    return Committed(new.turn, write(connection, session, new, past), past)


def session_row(connection: Connection, session: Session) -> SessionRow:
    """Return a session, made if it does not exist, and let its other writers wait."""
    try:
        return SessionRow.of(connection, session, lock=True)
    except SessionNotFoundError:
        user = None
    while user is None:
        # Locked, so that nobody deletes the user meanwhile; read again if somebody just did.
        number = added(connection, users, {"name": session.user})
        locked = select(users.c.id, users.c.going).where(users.c.id == number).with_for_update()
        user = connection.execute(locked).first()
    if user.going:
        raise UserDeletedError(session.user)
    new = {"thread": session.thread, "namespace": session.namespace, "turns": 0, "newest": 0}
    added(connection, sessions, {"owner": user.id, "name": session_name(session)}, **new)
    return SessionRow.of(connection, session, lock=True)


def write(connection: Connection, session: SessionRow, new: Prepared, past: Past) -> Past:
    """Write a turn after the past of its parent, with the rows by which it is found."""
    turn, number = new.turn, turn_id(session.id, session.turns + 1)
    segments = _segments(connection, session.id, turn, past)
    run, place = segments[0].run, segments[0].last
    names = [*{effort.id: effort for effort in left_by(turn)}]
    at = {"run": run, "place": place, "turn": turn.number}
    row = {
        **new.row,
        **at,
        "id": number,
        "owner": session.user,
        "session": session.id,
        "efforts_seen": past.effort_count() + len(names) - len(past.efforts_named(names)),
        "block": None if new.anchor is None else _block(connection, number, new.anchor, past),
    }
    if turn.status == "command":  # found like the turn that it follows
        row["end"] = connection.execute(_END, {"number": past.row}).scalar() or ""
    connection.execute(insert(turns), row)
    if rows := [{"effort": effort, **at} for effort in listed_under(turn)]:
        connection.execute(insert(members), rows)
    add_terms(connection, said, (session.user, number), new.said)
    add_changes(connection, session, {"id": number, **at}, turn, new.headed)
    if new.files:
        attachments.put(connection, session.user, number, new.files)
    if new.refers:
        attachments.refer(connection, session.user, number, new.refers)
    if new.parts:
        own = {"user": session.user, "row": number}
        connection.execute(parts.JOIN, [{**own, **part} for part in new.parts])
    counted = {"session": session.id, "count": session.turns + 1, "newest_row": number}
    connection.execute(_UPDATE_SESSION, {**counted, "after": f'"{turn.parent}"'})
    return past.after(turn, number, segments)


def add_changes(
    connection: Connection,
    session: SessionRow,
    at: Mapping[str, int],
    turn: StoredTurn,
    terms: Rows,
) -> None:
    """Write the changes of efforts in a turn with the `terms` of their headings.

    `at` has the id, run and place of the turn's row, and its number.
    """
    place = {"owner": session.user, "session": session.id, **at, "at": turn.at}
    rows: list[dict[str, Any]] = []
    for event in turn.events:
        effort = changed(event, turn.number)
        if effort is not None:
            change = {"effort": effort.id, "status": effort.status, "entry": packed(event)}
            rows.append({**place, "id": passage_id(at["id"], len(rows)), **change})
    if rows:
        connection.execute(insert(changes), rows)
        add_terms(connection, headed, (session.user, at["id"]), terms)


def _block(connection: Connection, number: int, anchor: bytes, past: Past) -> int:
    """Return the row of a state block: the parent's if that one is the same, else a new one."""
    before = connection.execute(_BLOCK, {"number": past.row}).first()
    if before is not None and before.anchor == anchor:
        return int(before.block)
    connection.execute(insert(blocks), {"id": number, "anchor": anchor})
    return number


def _segments(
    connection: Connection, session: int, turn: StoredTurn, past: Past
) -> tuple[Segment, ...]:
    """Return the segments of a turn after those of its parent; extend a run, or begin one."""
    before = past.segments
    place = before[0].last + 1 if before else 1
    if before and before[0].session == session:
        end = {"of_run": before[0].run, "newest_place": place}
        if connection.execute(_EXTEND_RUN, end).rowcount:
            own = before[0]._replace(last=place, turn=turn.number)
            return (own, *before[1:])
    row = {"session": session, "ancestors": json.dumps(before), "first": place, "last": place}
    (run,) = connection.execute(insert(runs).values(row)).inserted_primary_key or (0,)
    return (Segment(run, session, place, turn.number), *before)
