"""Deleting sessions and users, but for the turns that copies of a thread go on from."""

import json
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, Table, delete, false, not_, or_, select, update

from ..names import session_name
from ..turn import Session
from . import attachments, facts, parts
from .erasures import Scope, scope_of, to_sweep, unpost
from .load import Segment, SessionRow
from .rows import turn_of
from .schema import (
    OF_RUNS,
    PASSAGE_BITS,
    attached,
    blocks,
    changes,
    extractions,
    heading_vectors,
    memories,
    passages_of,
    runs,
    sessions,
    turns,
    users,
    vectors,
)
from .schema import attachments as stored_attachments
from .schema import facts as fact_rows
from .schema import parts as stored_parts


def delete_session(scope: Scope) -> tuple[list[Session], set[str]]:
    """Delete a session; return the sessions of copied threads that keep some of its turns.

    And the texts of facts that are gone with it, folded.

    Those turns stay in a session without a name, which nobody is shown. Of such sessions, too, is
    deleted what only this one saw.
    """
    connection, user = scope.connection, scope.row.user
    lost = _delete(scope)
    # A copy has a higher id than what it was copied from, which it may have been the last to see.
    hidden = select(sessions).where(sessions.c.owner == user, sessions.c.hidden)
    for row in connection.execute(hidden.order_by(sessions.c.id.desc()).with_for_update()).all():
        session = Session(scope.session.user, row.thread, row.namespace)
        lost |= _delete(scope_of(connection, SessionRow.from_row(row), session))
    to_sweep(connection)
    keeping = {number for number, _ in _segments_of_others(scope)}
    return scope.others(keeping), lost


def delete_rest(connection: Connection, user: str) -> None:
    """Delete what a user has beside sessions, and then the user."""
    query = select(users.c.id).where(users.c.name == user).with_for_update()
    number = connection.execute(query).scalar()
    if number is None:
        return
    for table in (memories, fact_rows, attached, stored_attachments, stored_parts):
        connection.execute(delete(table).where(table.c.owner == number))
    connection.execute(delete(users).where(users.c.id == number))
    to_sweep(connection)


def _delete(scope: Scope) -> set[str]:
    """Delete the rows of a session but for the turns that other sessions go on from.

    Returns the texts of facts that are gone with it, folded.
    """
    connection, session = scope.connection, scope.row.id
    seen: dict[int, int] = {}
    for _, part in _segments_of_others(scope):
        seen[part.run] = max(part.last, seen.get(part.run, 0))
    kept = 0
    for row in scope.turns():
        if row.place <= seen.get(row.run, 0):
            kept, newest = kept + 1, row.id
        else:
            unpost(scope, row.id, turn_of(row))
    own_runs = select(runs.c.id).where(runs.c.session == session)
    for table in OF_RUNS:
        connection.execute(delete(table).where(table.c.run.in_(own_runs), _unseen(table, seen)))
    own_turns = select(turns.c.id).where(turns.c.session == session, _unseen(turns, seen))
    attachments.forget(connection, scope.row.user, own_turns, awaiting_in=scope.session)
    parts.forget_all(connection, scope.row.user, scope.session)
    connection.execute(delete(blocks).where(blocks.c.id.in_(own_turns)))
    for table in (vectors, heading_vectors):
        of_gone = (table.c.id // (1 << PASSAGE_BITS)).in_(own_turns)
        connection.execute(delete(table).where(table.c.id.between(*passages_of(session)), of_gone))
    for table in (changes, turns):
        gone = table.c.session == session, _unseen(table, seen)
        connection.execute(delete(table).where(*gone))
    for table in (extractions, memories):
        connection.execute(delete(table).where(table.c.session == session))
    lost = facts.forget(connection, scope.row.user, fact_rows.c.session == session)
    connection.execute(delete(runs).where(runs.c.session == session, runs.c.id.not_in(seen)))
    if not kept:
        connection.execute(delete(sessions).where(sessions.c.id == session))
        return lost
    for run, last in seen.items():
        connection.execute(update(runs).where(runs.c.id == run).values(last=last))
    nameless = Session(scope.session.user, f"deleted {uuid4()}")
    names = {"name": session_name(nameless), "thread": nameless.thread, "namespace": ""}
    scope.note(**names, hidden=True, turns=kept, newest=newest, reseed=None)
    scope.count_rewritten()
    return lost


def _segments_of_others(scope: Scope) -> list[tuple[int, Segment]]:
    """Return the parts of a session's runs that others of the user go on from, with those."""
    of_user = select(sessions.c.id).where(sessions.c.owner == scope.row.user)
    others = runs.c.session.in_(of_user), runs.c.session != scope.row.id
    rows = scope.connection.execute(select(runs.c.session, runs.c.ancestors).where(*others))
    segments = ((row.session, Segment(*part)) for row in rows for part in json.loads(row.ancestors))
    return [(other, part) for other, part in segments if part.session == scope.row.id]


def _unseen(table: Table, seen: Mapping[int, int]) -> ColumnElement[bool]:
    """Return the condition for rows of runs that no other session sees."""
    conditions: list[Any] = [
        (table.c.run == run) & (table.c.place <= last) for run, last in seen.items()
    ]
    return not_(or_(false(), *conditions))
