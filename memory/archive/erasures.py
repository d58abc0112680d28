"""A session with all its branches: notes in it, erasing of turns, deleting."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, select, update

from ..anchor import parsed
from ..compressions import Compression, as_data, from_data
from ..efforts import Effort
from ..erasing import Erased, Gone, Target, TurnPlace, without_copies, without_summaries
from ..errors import TurnNotFoundError
from ..messages import clean, digest
from ..names import qualified
from ..passages import passages
from ..record import Event, Owner, Record, Tip
from ..state_blocks import blocks
from . import index
from .commit import add_changes
from .database import upsert
from .lineage import RECORD, Branch, Lineage, Session, Snapshot, effort_of
from .records import columns, packed, plain, record_of, unzipped, zipped
from .schema import (
    OF_SESSIONS,
    branches,
    changes,
    compressions,
    extractions,
    has_vectors,
    headed,
    heading_vectors,
    memories,
    said,
    sessions,
    turn_id,
    turns,
    users,
    vectors,
    version,
)

_CHUNK = 500
"""Records that are read at once, so that a long session is never in memory as a whole."""

_COLUMNS = (*RECORD, turns.c.state, turns.c.content)


@dataclass(frozen=True, slots=True)
class Scope:
    """A session with all its branches, and the connection to read or write it."""

    connection: Connection
    session: Session
    owner: Owner
    branches: Mapping[str, Branch]

    def lineage(self, branch: str, turn: int) -> Lineage:
        """Return the lineage of a turn of a branch."""
        snapshot = Snapshot.of(Tip(branch, turn), self.branches.get(branch))
        return Lineage(lambda: self.connection, self.session, snapshot)

    def turns(self) -> Iterator[Any]:
        """Yield the rows of the session's turns, in the order of their commit."""
        last = turn_id(self.session.id)
        query = select(*_COLUMNS).where(turns.c.session == self.session.id).order_by(turns.c.id)
        while chunk := self.connection.execute(query.where(turns.c.id > last).limit(_CHUNK)).all():
            yield from chunk
            last = chunk[-1].id

    def rows(self, table: Table, order: str) -> list[Any]:
        """Return the session's rows of another table, ordered by a column."""
        query = select(table).where(table.c.session == self.session.id)
        return [*self.connection.execute(query.order_by(table.c[order]))]

    def note(self, **values: Any) -> None:
        """Change columns of the session's row."""
        own = update(sessions).where(sessions.c.id == self.session.id)
        self.connection.execute(own.values(values))

    def count_rewritten(self) -> None:
        """Note that stored text was changed, so that every process reads it again."""
        self.note(rewritten=sessions.c.rewritten + 1)

    def add_compression(self, branch: str, compression: Compression) -> None:
        """Store a compression, unless that effort has one at that branch and turn."""
        values = {"session": self.session.id, "branch": branch, "turn": compression.turn}
        values |= {"effort": clean(compression.effort)}
        values |= {"made": _zipped(plain(as_data(compression)))}
        row = upsert(self.connection, compressions).values(values)
        if self.connection.execute(row.on_conflict_do_nothing()).rowcount:
            self.count_rewritten()

    def log(self, entry: Mapping[str, Any]) -> None:
        """Append to the session's log of extractions."""
        row = {"session": self.session.id, "entry": _zipped(plain(entry))}
        self.connection.execute(insert(extractions).values(row))

    def erase(self, tip: Tip, turn: int) -> Erased:
        """Erase a turn that `tip` sees, and what was derived from it; see `Archive.erase`."""
        records = self.lineage(tip.branch, tip.turn).turns([turn])
        if not records:
            raise TurnNotFoundError(turn, tip.turn)
        record = records[0]
        copies = select(turns.c.branch, turns.c.turn).where(
            turns.c.session == self.session.id,
            turns.c.turn == record.turn,
            turns.c.digest == record.digest,
        )
        places = tuple((row.branch, row.turn) for row in self.connection.execute(copies))
        opened = (event["effort"] for event in record.events if event["type"] == "opened")
        erased = Erased(turn, record.digest, places, named=tuple(opened))
        self.count_rewritten()
        if record.status == "erased":
            return _erased_again(self, record, erased)
        target = _target(self, record, places)
        texts = _bury(self, target)
        while texts:  # a tool's result may hold an emptied summary, and be summarised itself
            texts = _empty_summaries(self, _empty_copies(self, texts))
        erased = replace(erased, quoted=_quoting(self, target), stale=_stale(self, target))
        _empty_compressions(self, target)
        _to_sweep(self.connection)
        return erased

    def resummarise(self, tip: Tip, effort: Effort) -> None:
        """Store a rewritten summary; see `Archive.resummarised`."""
        row = self.lineage(tip.branch, tip.turn).row(effort.turn, *_COLUMNS)
        if row is None:
            return
        fresh = {name: getattr(effort, name) for name in ("summary", "keywords", "importance")}

        def renewed(event: Event) -> Event:
            concluded = event["type"] == "concluded" and event["effort"] == effort.id
            if not concluded or not event.get("stale"):
                return event
            return {key: value for key, value in event.items() if key != "stale"} | fresh

        record = record_of(row)
        after = replace(record, events=tuple(map(renewed, record.events)))
        if after != record:
            self.count_rewritten()
            _put(self, row, record, after)
            values = {"keywords": packed(effort.keywords), "base": effort.importance}
            own = _of_memory(self, effort.id)
            self.connection.execute(update(memories).where(*own).values(values))

    def delete(self) -> None:
        """Delete all rows of the session."""
        for row in self.turns():
            _unpost(self, row.id, record_of(row))
        vector_tables = (vectors, heading_vectors) if has_vectors(self.connection) else ()
        for table in (*OF_SESSIONS, *vector_tables):
            self.connection.execute(delete(table).where(table.c.session == self.session.id))
        self.connection.execute(delete(sessions).where(sessions.c.id == self.session.id))
        _to_sweep(self.connection)


def scope_of(connection: Connection, session: Session, owner: Owner) -> Scope:
    """Return a session with all its branches."""
    query = select(branches).where(branches.c.session == session.id)
    beginnings = {row.branch: Branch.from_row(row) for row in connection.execute(query)}
    return Scope(connection, session, owner, beginnings)


def delete_user(connection: Connection, user: str) -> tuple[Owner, ...]:
    """Delete all rows of a user, and return the owners of the deleted sessions."""
    number_query = select(users.c.id).where(users.c.name == user)
    number = connection.execute(number_query).scalar()
    if number is None:
        return ()
    own = select(sessions).where(sessions.c.owner == number).order_by(sessions.c.id)
    # Sessions before their user, as commits lock them: no deadlock. With the user locked no session
    # begins; those that began before are in the second reading.
    connection.execute(own.with_for_update()).all()
    connection.execute(number_query.with_for_update())
    owners = []
    for row in connection.execute(own.with_for_update()).all():
        owners.append(owner := Owner(user, row.thread, row.namespace))
        scope_of(connection, Session.from_row(row), owner).delete()
    connection.execute(delete(memories).where(memories.c.owner == number))
    connection.execute(delete(users).where(users.c.id == number))
    _to_sweep(connection)
    return tuple(sorted(owners, key=lambda owner: (owner.thread, owner.namespace)))


def _to_sweep(connection: Connection) -> None:
    """Note that the files of the database may still hold something that was erased."""
    connection.execute(update(version).values(sweep=version.c.sweep + 1))


def _zipped(value: Any) -> bytes:
    return zipped(packed(value))


def _erased_again(scope: Scope, record: Record, erased: Erased) -> Erased:
    """Erase a turn's text that came back into anchors after an interrupted erasure.

    Its sign: anchors after the tombstone have fields that no turn wrote, because a run whose
    checkpoint was not erased yet carried them on. Fields that a run wrote itself look the same as
    its own words and stay.
    """
    bare = _target(scope, replace(record, efforts=(), events=()), erased.places)
    written: set[tuple[str, str]] = set()
    unwritten: set[tuple[str, str]] = set()
    for row in scope.turns():
        written |= _anchored(record_of(row))
        if row.state and bare.sees(row.branch, row.turn):
            unwritten |= json.loads(unzipped(row.state)).get("anchor", {}).items() - written
    if not unwritten:
        return erased
    target = replace(bare, wrote=frozenset(unwritten))
    _bury(scope, target)
    _to_sweep(scope.connection)
    return replace(erased, quoted=_quoting(scope, target))


def _anchored(record: Record) -> frozenset[tuple[str, str]]:
    """Return the fields of a turn's state blocks, and of the anchors derived from them."""
    anchors = [event["anchor"] for event in record.events if "anchor" in event]
    answers = (message["data"] for message in record.messages if message["type"] == "ai")
    anchors += [parsed(block) for answer in answers for block in blocks(answer.get("content"))]
    return frozenset(field for fields in anchors for field in fields.items())


def _target(scope: Scope, record: Record, places: tuple[TurnPlace, ...]) -> Target:
    """Return the turn to erase with what its erasure must know of the turns before it."""
    past = scope.lineage(record.branch, record.turn - 1)
    before = (record_of(row) for row in scope.turns() if past.sees(row.branch, row.turn))
    wrote = _anchored(record).difference(*map(_anchored, before))
    rows = past.changes([event["effort"] for event in record.events if "effort" in event])
    efforts = {name: effort_of(row) for name, row in rows.items()}

    def sees(branch: str, turn: int) -> bool:
        lineage = scope.lineage(branch, turn)
        return turn > record.turn and any(lineage.sees(*place) for place in places)

    return Target(record, efforts, sees, frozenset(places), wrote)


def _bury(scope: Scope, target: Target) -> Gone:
    """Replace the turn by a tombstone, and clear later events and states of its text.

    Return the texts that were cleared.
    """
    texts: set[tuple[str, str]] = set()
    for row in scope.turns():
        record = record_of(row)
        if target.is_copy(record) and record.status != "erased":
            after = target.tombstone(record)
        else:
            after, cleared = target.without(record)
            texts |= cleared
        if after != record:
            _put(scope, row, record, after)
        state = json.loads(unzipped(row.state)) if row.state else {}
        anchor = state.get("anchor")
        if anchor and (remaining := target.anchor(record, anchor)) != anchor:
            values = {"state": _zipped({**state, "anchor": remaining})}
            scope.connection.execute(update(turns).where(turns.c.id == row.id).values(values))
    return frozenset(texts)


def _empty_copies(scope: Scope, texts: Gone) -> dict[str, list[TurnPlace]]:
    """Empty results of tools that hold these texts; return their turns by effort."""
    emptied: dict[str, list[TurnPlace]] = {}
    for row in scope.turns():
        record = record_of(row)
        after = without_copies(record, texts)
        if after != record:
            _put(scope, row, record, after)
            for effort in record.efforts:
                emptied.setdefault(effort, []).append((row.branch, row.turn))
    return emptied


def _empty_summaries(scope: Scope, emptied: Mapping[str, list[TurnPlace]]) -> Gone:
    """Empty summaries made from logs that have an emptied turn; return their texts."""
    texts: set[tuple[str, str]] = set()
    for row in scope.turns() if emptied else ():
        record, lineage = record_of(row), scope.lineage(row.branch, row.turn)
        efforts = {event["effort"] for event in record.events if event.get("effort") in emptied}
        stale = [name for name in efforts if any(lineage.sees(*turn) for turn in emptied[name])]
        after, summaries = without_summaries(record, stale)
        if after != record:
            _put(scope, row, record, after)
            texts |= summaries
    return frozenset(texts)


def _quoting(scope: Scope, target: Target) -> tuple[TurnPlace, ...]:
    """Return the other turns that repeat words of the erased one."""
    rows = scope.turns()
    return tuple(sorted((row.branch, row.turn) for row in rows if target.quoted_by(record_of(row))))


def _put(scope: Scope, row: Any, before: Record, after: Record) -> None:
    """Overwrite a record with one that lost text, and index that one for search."""
    connection, owner = scope.connection, scope.session.owner
    _unpost(scope, row.id, before)
    if has_vectors(connection):
        for table in (vectors, heading_vectors):
            connection.execute(delete(table).where(table.c.id.between(*index.places(row.id))))
    shortened = after.messages != before.messages and after.status != "erased"
    parts = passages(after.messages)
    content = digest(after.messages) if shortened else row.content
    values = {**columns(after), "passages": index.layout(parts), "content": content}
    connection.execute(update(turns).where(turns.c.id == row.id).values(values))
    connection.execute(delete(changes).where(changes.c.id.between(*index.places(row.id))))
    index.add_terms(connection, said, owner, index.postings(row.id, parts))
    add_changes(connection, scope.session, row.id, after)


def _unpost(scope: Scope, turn: int, record: Record) -> None:
    """Take the terms of a turn, and of its changes of efforts, out of the search index."""
    connection, owner = scope.connection, scope.session.owner
    rows = index.postings(turn, passages(record.messages))
    index.remove_terms(connection, said, owner, rows)
    index.remove_terms(connection, headed, owner, index.headings(turn, record))


def _stale(scope: Scope, target: Target) -> tuple[str, ...]:
    """Return the efforts whose summaries must be rewritten; clear their keywords in attention."""
    query = select(changes.c.effort).where(
        changes.c.session == scope.session.id, changes.c.entry.contains('"stale":true')
    )
    names = sorted({*scope.connection.execute(query).scalars()})
    for name in {*names, *target.record.efforts}:
        emptied = update(memories).where(*_of_memory(scope, name)).values(keywords="[]")
        scope.connection.execute(emptied)
    return tuple(names)


def _empty_compressions(scope: Scope, target: Target) -> None:
    """Empty compressions of logs that hold the turn, and delete the logs of their making."""
    connection, record = scope.connection, target.record
    for row in scope.rows(compressions, "turn"):
        if row.effort not in record.efforts:
            continue
        compression, place = from_data(json.loads(unzipped(row.made))), (row.branch, row.turn)
        sees = target.sees(*place) or place in target.places
        if sees and compression.through >= record.turn:
            key = [column == getattr(row, column.name) for column in compressions.primary_key]
            emptied = _zipped(as_data(compression.without_turn(record.turn)))
            connection.execute(update(compressions).where(*key).values(made=emptied))
    for row in scope.rows(extractions, "id"):
        entry = json.loads(unzipped(row.entry))
        if entry["effort"] in record.efforts and entry["turn"] >= record.turn:
            connection.execute(delete(extractions).where(extractions.c.id == row.id))


def _of_memory(scope: Scope, effort: str) -> tuple[Any, ...]:
    """Return the conditions of an effort's row in `memories`."""
    name = qualified(scope.owner, effort)
    return memories.c.owner == scope.session.owner, memories.c.memory == name
