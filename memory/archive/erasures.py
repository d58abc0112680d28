"""Erasing from the archive: a turn with all that was made from it, a session, a user."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, delete, select, update

from ..anchor import Written, written
from ..efforts import Effort
from ..erasing import (
    Erased,
    Target,
    Told,
    quoted,
    quotes,
    tombstone,
    without,
    without_copies,
    without_summaries,
)
from ..errors import TurnNotFoundError
from ..messages import digest
from ..names import qualified
from ..passages import passages
from ..record import Owner, Record, Tip
from ..salience import as_data, from_data, without_turn
from . import index
from .commit import add_changes
from .index import Postings
from .lineage import RECORD, Branch, Lineage, Session, beginning, effort_of, lineage
from .records import columns, packed, record_of, unzipped, zipped
from .schema import (
    OF_SESSIONS,
    branches,
    changes,
    compressions,
    extractions,
    first_turn,
    has_vectors,
    headed,
    heading_vectors,
    memories,
    said,
    sessions,
    turns,
    users,
    vectors,
    version,
)

_CHUNK = 500
"""Records that are read at once, so that a long session is not held as a whole."""

_STATE = (*RECORD, turns.c.state, turns.c.content)


@dataclass(frozen=True, slots=True)
class Scope:
    """A session from which something is erased, with all its branches."""

    connection: Connection
    session: Session
    owner: Owner
    branches: Mapping[str, Branch]

    def lineage(self, branch: str, turn: int) -> Lineage:
        """Return what a turn of a branch sees."""
        tip = Tip(branch, turn)
        return lineage(lambda: self.connection, self.session.id, tip, self.branches.get(branch))

    def rows(self, since: int = 0) -> Iterator[Any]:
        """Yield the rows of turns from this number on, in the order of their commit."""
        last = first_turn(self.session.id)
        where = (turns.c.session == self.session.id, turns.c.turn >= since)
        query = select(*_STATE).where(*where).order_by(turns.c.id).limit(_CHUNK)
        while part := self.connection.execute(query.where(turns.c.id > last)).all():
            yield from part
            last = part[-1].id


def erase(scope: Scope, tip: Tip, turn: int) -> Erased:
    """Erase a turn that `tip` sees, and what was made from it; see `Archive.erase`."""
    seen = scope.lineage(tip.branch, tip.turn)
    records = seen.turns([turn])
    if not records:
        raise TurnNotFoundError(turn, tip.turn)
    record = records[0]
    copies = _copies(scope, record)
    opened = (event["effort"] for event in record.events if event["type"] == "opened")
    erased = Erased(turn, record.digest, tuple(copies), named=tuple(opened))
    count_rewritten(scope)
    if record.status == "erased":
        return _erased_again(scope, record, erased)
    target = _target(scope, record, copies)
    told = _rewritten(scope, target)
    while told:  # what retold it went into summaries of other efforts, which others retold in turn
        told = _summaries_of(scope, _retelling(scope, told))
    elsewhere = _quoting(scope, target)
    stale = _stale(scope, target)
    _forget_made(scope, target)
    _to_sweep(scope.connection)
    return replace(erased, quoted=elsewhere, stale=stale)


def resummarised(scope: Scope, tip: Tip, effort: Effort) -> None:
    """Store a summary that was written again; see `Archive.resummarised`."""
    row = scope.lineage(tip.branch, tip.turn).row(effort.turn, *_STATE)
    if row is None:
        return
    record = record_of(row)
    after = replace(record, events=tuple(_resummed(event, effort) for event in record.events))
    if after != record:
        count_rewritten(scope)
        _put(scope, row, record, after)
        fresh = {"keywords": packed(effort.keywords), "base": effort.importance}
        where = _memory(scope, effort.id)
        scope.connection.execute(update(memories).where(*where).values(fresh))


def delete_session(scope: Scope) -> None:
    """Delete all rows of a session."""
    connection, session = scope.connection, scope.session
    for row in scope.rows():
        _unpost(scope, row.id, record_of(row))
    tables = list(OF_SESSIONS)
    if has_vectors(connection):
        tables += [vectors, heading_vectors]
    for table in tables:
        connection.execute(delete(table).where(table.c.session == session.id))
    connection.execute(delete(sessions).where(sessions.c.id == session.id))
    _to_sweep(connection)


def delete_user(connection: Connection, user: str) -> tuple[Owner, ...]:
    """Delete all rows of a user, and return which sessions these were."""
    asked = select(users.c.id).where(users.c.name == user)
    number = connection.execute(asked).scalar()
    if number is None:
        return ()
    mine = select(sessions).where(sessions.c.owner == number).order_by(sessions.c.id)
    # As commits do: the sessions, then their user. Then none begins, so that these are all.
    connection.execute(mine.with_for_update()).all()
    connection.execute(asked.with_for_update())
    gone = []
    for row in connection.execute(mine.with_for_update()).all():
        gone.append(owner := Owner(user, row.thread, row.namespace))
        session = Session(row.id, number, row.name, row.turns, row.rewritten, row.branch)
        delete_session(scope_of(connection, session, owner))
    connection.execute(delete(memories).where(memories.c.owner == number))
    connection.execute(delete(users).where(users.c.id == number))
    _to_sweep(connection)
    return tuple(sorted(gone, key=lambda owner: (owner.thread, owner.namespace)))


def scope_of(connection: Connection, session: Session, owner: Owner) -> Scope:
    """Return a session with all its branches."""
    query = select(branches).where(branches.c.session == session.id)
    beginnings = {row.branch: beginning(row) for row in connection.execute(query)}
    return Scope(connection, session, owner, beginnings)


def count_rewritten(scope: Scope) -> None:
    """Note that what is kept of the session is other now than what anybody has read of it."""
    own = update(sessions).where(sessions.c.id == scope.session.id)
    scope.connection.execute(own.values(rewritten=sessions.c.rewritten + 1))


def _to_sweep(connection: Connection) -> None:
    """Note that something was erased, which the files of the database may still hold."""
    connection.execute(update(version).values(sweep=version.c.sweep + 1))


def _copies(scope: Scope, record: Record) -> list[tuple[str, int]]:
    """Return the places of the turn, on all branches that hold it."""
    query = select(turns.c.branch, turns.c.turn).where(
        turns.c.session == scope.session.id,
        turns.c.turn == record.turn,
        turns.c.digest == record.digest,
    )
    return [(row.branch, row.turn) for row in scope.connection.execute(query)]


def _erased_again(scope: Scope, record: Record, erased: Erased) -> Erased:
    """Take out of anchors what came back after an erasure that was cut short."""
    bare = replace(record, efforts=(), events=())
    plain = _target(scope, bare, erased.places)
    target = replace(plain, wrote=_come_back(scope, plain))
    if not target.wrote:
        return erased
    _rewritten(scope, target)
    _to_sweep(scope.connection)
    return replace(erased, quoted=_quoting(scope, target))


def _come_back(scope: Scope, target: Target) -> Written:
    """Return fields that anchors after a tombstone have although no turn had written them.

    A run whose checkpoint the erasure had not reached yet carried them on. One that wrote them
    again itself cannot be told from one that wrote them first.
    """
    known: set[tuple[str, str]] = set()
    carried: set[tuple[str, str]] = set()
    for row in scope.rows():
        known |= written([record_of(row)])
        if row.state and target.sees(row.branch, row.turn):
            carried |= json.loads(unzipped(row.state)).get("anchor", {}).items() - known
    return frozenset(carried)


def _target(scope: Scope, record: Record, copies: Sequence[tuple[str, int]]) -> Target:
    past = scope.lineage(record.branch, record.turn - 1)
    before = (record_of(row) for row in scope.rows() if past.sees(row.branch, row.turn))
    known = past.changes([event["effort"] for event in record.events if "effort" in event])

    def effort(name: str) -> Effort | None:
        return effort_of(known[name]) if name in known else None

    def sees(branch: str, turn: int) -> bool:
        seen = scope.lineage(branch, turn)
        return turn > record.turn and any(seen.sees(*place) for place in copies)

    return Target(record, effort, sees, frozenset(copies), written([record]) - written(before))


def _rewritten(scope: Scope, target: Target) -> frozenset[Told]:
    """Bury the turn, and take out of later events and states what was made from it."""
    told: set[Told] = set()
    for row in scope.rows():
        record = record_of(row)
        if target.is_copy(record) and record.status != "erased":
            after = tombstone(record, target)
        else:
            after, gone = without(record, target)
            told |= gone
        if after != record:
            _put(scope, row, record, after)
        if row.state:
            _clean_state(scope, row, record, target)
    return frozenset(told)


def _retelling(scope: Scope, told: frozenset[Told]) -> dict[str, list[tuple[str, int]]]:
    """Take out of tools' results what they retell; return where the logs of efforts lost it."""
    lost: dict[str, list[tuple[str, int]]] = {}
    for row in scope.rows():
        record = record_of(row)
        after = without_copies(record, told)
        if after != record:
            _put(scope, row, record, after)
            for effort in record.efforts:
                lost.setdefault(effort, []).append((row.branch, row.turn))
    return lost


def _summaries_of(scope: Scope, lost: Mapping[str, list[tuple[str, int]]]) -> frozenset[Told]:
    """Empty summaries that were made from logs that lost something; return what these said."""
    told: set[Told] = set()
    for row in scope.rows() if lost else ():
        record = record_of(row)
        named = {event["effort"] for event in record.events if event.get("effort") in lost}
        seen = scope.lineage(row.branch, row.turn)
        emptied = [effort for effort in named if any(seen.sees(*place) for place in lost[effort])]
        after, gone = without_summaries(record, emptied)
        if after != record:
            _put(scope, row, record, after)
            told |= gone
    return frozenset(told)


def _quoting(scope: Scope, target: Target) -> tuple[tuple[str, int], ...]:
    """Return which other turns say some of the same."""
    records = (record_of(row) for row in scope.rows())
    quoting = [record for record in records if quoted(record, target.sought)]
    return tuple(sorted((record.branch, record.turn) for record in quoting))


def _clean_state(scope: Scope, row: Any, record: Record, target: Target) -> None:
    """Take out of the anchor in a saved state what the turn wrote, and what says the same."""
    state = json.loads(unzipped(row.state))
    before = state.get("anchor")
    if not before:
        return
    own = quotes(record.messages, target.sought)
    copy = target.is_copy(record)
    anchor = target.anchor(before) if copy else target.anchor_of(record, own, before)
    if anchor != before:
        values = {"state": zipped(packed({**state, "anchor": anchor}))}
        scope.connection.execute(update(turns).where(turns.c.id == row.id).values(values))


def _put(scope: Scope, row: Any, before: Record, after: Record) -> None:
    """Write a record that lost text in the place of the one before, and what is searched anew."""
    connection, owner = scope.connection, scope.session.owner
    _unpost(scope, row.id, before)
    if has_vectors(connection):
        for table in (vectors, heading_vectors):
            connection.execute(delete(table).where(table.c.id.between(*index.places(row.id))))
    lost = after.messages != before.messages and after.status != "erased"
    parts = passages(after.messages)
    content = digest(after.messages) if lost else row.content
    values = {**columns(after), "passages": index.layout(parts), "content": content}
    connection.execute(update(turns).where(turns.c.id == row.id).values(values))
    connection.execute(delete(changes).where(changes.c.id.between(*index.places(row.id))))
    Postings(connection, said, owner).add(index.postings(row.id, parts))
    add_changes(connection, scope.session, row.id, after)


def _unpost(scope: Scope, turn: int, record: Record) -> None:
    """Take the terms of a turn, and of how it left efforts, out of the index."""
    connection, owner = scope.connection, scope.session.owner
    Postings(connection, said, owner).remove(index.postings(turn, passages(record.messages)))
    Postings(connection, headed, owner).remove(index.headings(turn, record))


def _stale(scope: Scope, target: Target) -> tuple[str, ...]:
    """Return the efforts whose summary is to be written again; attention has no words of them."""
    query = select(changes.c.effort).where(
        changes.c.session == scope.session.id, changes.c.entry.contains('"stale":true')
    )
    names = sorted({*scope.connection.execute(query).scalars()})
    for name in {*names, *target.record.efforts}:
        emptied = update(memories).where(*_memory(scope, name)).values(keywords="[]")
        scope.connection.execute(emptied)
    return tuple(names)


def _forget_made(scope: Scope, target: Target) -> None:
    """Empty compressions of logs that hold the turn, and delete what was logged of making them."""
    connection, record = scope.connection, target.record
    where = compressions.c.session == scope.session.id
    of_logs = compressions.c.effort.in_(record.efforts)
    for row in connection.execute(select(compressions).where(where, of_logs)).all():
        made = from_data(json.loads(unzipped(row.made)))
        seen = target.sees(row.branch, row.turn) or (row.branch, row.turn) in target.places
        if seen and made.through >= record.turn:
            key = (compressions.c.effort == row.effort, compressions.c.branch == row.branch)
            changed = update(compressions).where(where, *key, compressions.c.turn == row.turn)
            left = zipped(packed(as_data(without_turn(made, record.turn))))
            connection.execute(changed.values(made=left))
    rows = connection.execute(
        select(extractions).where(extractions.c.session == scope.session.id)
    ).all()
    for row in rows:
        entry = json.loads(unzipped(row.entry))
        if entry["effort"] in record.efforts and entry["turn"] >= record.turn:
            connection.execute(delete(extractions).where(extractions.c.id == row.id))


def _memory(scope: Scope, effort: str) -> tuple[Any, ...]:
    name = qualified(scope.owner, effort)
    return memories.c.owner == scope.session.owner, memories.c.memory == name


def _resummed(event: Mapping[str, Any], effort: Effort) -> Mapping[str, Any]:
    if not event.get("stale") or event.get("effort") != effort.id or event["type"] != "concluded":
        return event
    kept = {key: value for key, value in event.items() if key != "stale"}
    fresh = {"summary": effort.summary, "keywords": [*effort.keywords]}
    return {**kept, **fresh, "importance": effort.importance}
