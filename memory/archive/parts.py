"""Parts of turns: rounds that left the state of a running turn before its commit.

They are a chain: the id of a part hashes the one before. The commit of the turn joins them: from
then on each names its place in the turn, so that a run can still fork from the middle of it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection, bindparam, delete, select, update

from ..serialised import to_messages
from ..turn import Part, Session, StoredTurn, first_round
from .attachments import awaiting, compressed
from .attachments import put as put_attachments
from .database import upsert
from .rows import storable, unzipped, zipped_json
from .schema import parts, turns, users

JOIN = (
    update(parts)
    .where(parts.c.owner == bindparam("user"), parts.c.id == bindparam("part"))
    .values(turn=bindparam("row"), first=bindparam("begin"), messages=None)
)

_PORTABLE = [column for column in parts.columns if column.name not in {"owner", "turn"}]
"""The columns of a part but the numbers of its user and its turn, which differ by archive."""


def prepared(session: Session, part: Part) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the row of a part but its user, and the attachments that it refers to."""
    turn = storable(StoredTurn(0, part.messages, "", events=part.events))
    row = {
        "id": Part(part.nonce, part.before, turn.messages, turn.events).id,
        "session": awaiting(session),
        "nonce": part.nonce,
        "before": part.before,
        "size": len(turn.messages),
        "events": zipped_json(turn.events),
        "messages": zipped_json(turn.messages),
    }
    return row, compressed(turn.attachments)


def put(
    connection: Connection, user: int, row: Mapping[str, Any], files: Mapping[str, bytes]
) -> None:
    """Store a part, once; `row` and `files` are from `prepared`."""
    insert = upsert(connection, parts).on_conflict_do_nothing()
    connection.execute(insert, {**row, "owner": user})
    put_attachments(connection, user, row["session"], files)


def read(connection: Connection, user: str, last: str) -> tuple[Part, ...]:
    """Return the parts of a user up to the one with the id `last`; none if one is missing."""
    number = select(users.c.id).where(users.c.name == user).scalar_subquery()
    own = select(parts.c.nonce).where(parts.c.owner == number, parts.c.id == last)
    query = select(parts).where(parts.c.owner == number, parts.c.nonce == own.scalar_subquery())
    rows = {row.id: row for row in connection.execute(query)}
    chain = []
    while last:
        if last not in rows:
            return ()
        chain.append(rows[last])
        last = rows[last].before
    numbers = {row.turn for row in chain if row.turn is not None}
    joined = {
        row.id: _messages(row.messages)
        for row in connection.execute(
            select(turns.c.id, turns.c.messages).where(turns.c.id.in_(numbers))
        )
    }
    found = [_part(row, joined.get(row.turn, ())) for row in reversed(chain)]
    known = tuple(part for part in found if part is not None)
    return known if len(known) == len(found) else ()


def places(chain: Sequence[Part], turn: StoredTurn) -> list[dict[str, Any]]:
    """Return the ids of the parts that a turn joins, and where each of them begins in it."""
    found, begin = [], first_round(turn.messages)
    for part in chain:
        if turn.messages[begin : begin + len(part.messages)] != part.messages:
            break
        found.append({"part": part.id, "begin": begin})
        begin += len(part.messages)
    return found


def forget(connection: Connection, user: int, session: Session, rows: Sequence[Any]) -> None:
    """Delete the parts of a session that no turn joined, and those of turns, given their rows."""
    left = (parts.c.session == awaiting(session)) & parts.c.turn.is_(None)
    # Also of forks from the middle of a turn.
    same_run = parts.c.nonce.in_([row.nonce for row in rows if row.nonce])
    gone = left | parts.c.turn.in_([row.id for row in rows]) | same_run
    connection.execute(delete(parts).where(parts.c.owner == user, gone))


def forget_all(connection: Connection, user: int, session: Session) -> None:
    """Delete all parts of a session."""
    own = parts.c.owner == user, parts.c.session == awaiting(session)
    connection.execute(delete(parts).where(*own))


def unjoined(connection: Connection, user: int, session: Session) -> tuple[str, ...]:
    """Return the ids of the last parts of the chains of a session that no turn joined."""
    own = parts.c.owner == user, parts.c.session == awaiting(session), parts.c.turn.is_(None)
    rows = connection.execute(select(parts.c.id, parts.c.before).where(*own)).all()
    followed = {row.before for row in rows}
    return tuple(sorted(row.id for row in rows if row.id not in followed))


def of_user(connection: Connection, user: str) -> list[dict[str, Any]]:
    """Return the rows of all parts of a user, with the `hash` of the turn that joined them."""
    own = select(users.c.id).where(users.c.name == user).scalar_subquery()
    query = select(*_PORTABLE, turns.c.hash).join(turns, turns.c.id == parts.c.turn, isouter=True)
    return [dict(row) for row in connection.execute(query.where(parts.c.owner == own)).mappings()]


def put_copied(connection: Connection, user: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store rows of `of_user`, after the turns; one whose turn is not there is left out."""
    query = select(turns.c.hash, turns.c.id).where(turns.c.owner == user)
    there = {row.hash: row.id for row in connection.execute(query)} if rows else {}
    for row in rows:
        turn = there.get(row["hash"])
        if row["hash"] is not None and turn is None:
            continue
        values = {**{column.name: row[column.name] for column in _PORTABLE}, "owner": user}
        insert = upsert(connection, parts).values({**values, "turn": turn})
        now = {"turn": turn, "first": row["first"], "messages": None}
        joining = insert.on_conflict_do_update(index_elements=["owner", "id"], set_=now)
        connection.execute(insert.on_conflict_do_nothing() if turn is None else joining)


def _part(row: Any, turn: Sequence[BaseMessage]) -> Part | None:
    """Return the part of a row, which may be a range of a turn; None if that was erased."""
    own = row.turn is None
    messages = _messages(row.messages) if own else tuple(turn[row.first : row.first + row.size])
    if len(messages) != row.size:
        return None
    return Part(row.nonce, row.before, messages, tuple(json.loads(unzipped(row.events))))


def _messages(data: bytes) -> tuple[BaseMessage, ...]:
    return to_messages(json.loads(unzipped(data)))
