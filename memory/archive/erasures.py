"""A session with all its branches: notes in it, and erasing of turns."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, select, update

from ..anchor import parsed
from ..compressions import Compression, as_data, from_data
from ..efforts import Effort
from ..erasing import Erased, Gone, Target, without_copies, without_summaries
from ..errors import TipNotFoundError, TurnNotFoundError
from ..messages import clean, digest
from ..names import qualified
from ..passages import passages
from ..record import Event, Owner, Record, Tip
from ..state_blocks import blocks
from . import index
from .commit import add_changes
from .database import upsert
from .lineage import RECORD, Lineage, Segment, Session, Snapshot, effort_of
from .records import columns, packed, plain, record_of, unzipped, zipped
from .schema import (
    changes,
    compressions,
    extractions,
    has_vectors,
    headed,
    heading_vectors,
    memories,
    runs,
    said,
    sessions,
    turn_id,
    turns,
    vectors,
    version,
)

_CHUNK = 500
"""Records that are read at once, so that a long session is never in memory as a whole."""

_COLUMNS = (
    *RECORD,
    *(turns.c.session, turns.c.run, turns.c.place),
    *(turns.c.nonce, turns.c.state, turns.c.content),
)


@dataclass(frozen=True, slots=True)
class Scope:
    """A session with all its runs, and the connection to read or write it.

    `runs` has the segments before each run. `sessions` are the session and, if the scope reaches
    them, those of threads that share turns with it, whose runs are here too.
    """

    connection: Connection
    session: Session
    owner: Owner
    runs: Mapping[int, tuple[Segment, ...]]
    sessions: tuple[int, ...]

    def lineage(self, tip: Tip) -> Lineage:
        """Return the lineage of a tip; raises `TipNotFoundError`."""
        snapshot = Snapshot.of(self.connection, self.session, tip)
        if snapshot is None:
            raise TipNotFoundError(tip.id, tip.turn)
        return Lineage(lambda: self.connection, self.session, snapshot)

    def lineage_of(self, row: Any) -> Lineage:
        """Return the lineage of the turn in a row."""
        own = Segment(row.run, row.session, row.place, row.turn)
        snapshot = Snapshot((own, *self.runs[row.run]), row.turn, row.id)
        return Lineage(lambda: self.connection, self.session, snapshot)

    def turns(self) -> Iterator[Any]:
        """Yield the rows of the turns of the sessions, in the order of their commit."""
        for session in self.sessions:
            last = turn_id(session)
            query = select(*_COLUMNS).where(turns.c.session == session).order_by(turns.c.id)
            while chunk := self.connection.execute(
                query.where(turns.c.id > last).limit(_CHUNK)
            ).all():
                yield from chunk
                last = chunk[-1].id

    def rows(self, table: Table, order: str) -> list[Any]:
        """Return the rows of the session's runs in another table, ordered by a column."""
        query = select(table).where(index.among(table.c.run, self.runs))
        return [*self.connection.execute(query.order_by(table.c[order]))]

    def logged(self) -> list[Any]:
        """Return the session's log of extractions."""
        own = extractions.c.session == self.session.id
        return [*self.connection.execute(select(extractions).where(own).order_by(extractions.c.id))]

    def note(self, **values: Any) -> None:
        """Change columns of the session's row."""
        own = update(sessions).where(sessions.c.id == self.session.id)
        self.connection.execute(own.values(values))

    def count_rewritten(self) -> None:
        """Note that stored text was changed, so that every process reads it again."""
        own = update(sessions).where(index.among(sessions.c.id, self.sessions))
        self.connection.execute(own.values(rewritten=sessions.c.rewritten + 1))

    def add_compression(self, segment: Segment, compression: Compression) -> None:
        """Store a compression made after the end of a segment, unless that effort has one there."""
        values: dict[str, Any] = {"run": segment.run, "place": segment.last}
        values["turn"] = compression.turn
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
        row = self.lineage(tip).row(turn, *_COLUMNS)
        if row is None:
            raise TurnNotFoundError(turn, tip.turn)
        record = record_of(row)
        opened = (event["effort"] for event in record.events if event["type"] == "opened")
        erased = Erased(turn, record.id, named=tuple(opened), elsewhere=_elsewhere(self, row))
        self.count_rewritten()
        if record.status == "erased":
            return _erased_again(self, row, record, erased)
        target = _target(self, record)
        texts = _bury(self, row, target)
        while texts:  # a tool's result may hold an emptied summary, and be summarised itself
            texts = _empty_summaries(self, _empty_copies(self, texts))
        erased = replace(erased, quoted=_quoting(self, target), stale=_stale(self, target))
        _empty_compressions(self, row, target)
        to_sweep(self.connection)
        return erased

    def resummarise(self, tip: Tip, effort: Effort) -> None:
        """Store a rewritten summary; see `Archive.resummarised`."""
        row = self.lineage(tip).row(effort.turn, *_COLUMNS)
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
            own = _of_memory(self, self.owner, effort.id)
            self.connection.execute(update(memories).where(*own).values(values))


def scope_of(
    connection: Connection, session: Session, owner: Owner, *, copies: bool = False
) -> Scope:
    """Return a session with all its runs.

    With `copies` those of all threads too that share turns with it, since one was copied from the
    other.
    """
    own = runs.c.session == session.id
    if copies:
        of_user = select(sessions.c.id).where(sessions.c.owner == session.owner)
        own = runs.c.session.in_(of_user)
    rows = connection.execute(select(runs).where(own)).all()
    before = {row.id: tuple(Segment(*part) for part in json.loads(row.ancestors)) for row in rows}
    related = [{row.session, *(part.session for part in before[row.id])} for row in rows]
    involved = {session.id}
    while copies and (more := set[int]().union(*filter(involved.intersection, related)) - involved):
        involved |= more
    reached = {row.id: before[row.id] for row in rows if row.session in involved}
    return Scope(connection, session, owner, reached, tuple(sorted(involved)))


def to_sweep(connection: Connection) -> None:
    """Note that the files of the database may still hold something that was erased."""
    connection.execute(update(version).values(sweep=version.c.sweep + 1))


def _zipped(value: Any) -> bytes:
    return zipped(packed(value))


def _erased_again(scope: Scope, row: Any, record: Record, erased: Erased) -> Erased:
    """Erase a turn's text that came back into anchors after an interrupted erasure.

    Its sign: anchors after the tombstone have fields that no turn wrote, because a run whose
    checkpoint was not erased yet carried them on. Fields that a run wrote itself look the same as
    its own words and stay.
    """
    written: set[tuple[str, str]] = set()
    unwritten: set[tuple[str, str]] = set()
    for later in scope.turns():
        written |= _anchored(record_of(later))
        if later.state and scope.lineage_of(later).sees(row):
            unwritten |= (_anchor(json.loads(unzipped(later.state))) or {}).items() - written
    if not unwritten:
        return erased
    target = Target(replace(record, efforts=(), events=()), {}, frozenset(unwritten))
    _bury(scope, row, target)
    to_sweep(scope.connection)
    return replace(erased, quoted=_quoting(scope, target))


def _anchor(state: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the anchor in a saved state, None if it has none."""
    anchor: dict[str, str] | None = state.get("memory", {}).get("anchor")
    return anchor


def _anchored(record: Record) -> frozenset[tuple[str, str]]:
    """Return the fields of a turn's state blocks, and of the anchors derived from them."""
    anchors = [event["anchor"] for event in record.events if "anchor" in event]
    answers = (message["data"] for message in record.messages if message["type"] == "ai")
    anchors += [parsed(block) for answer in answers for block in blocks(answer.get("content"))]
    return frozenset(field for fields in anchors for field in fields.items())


def _target(scope: Scope, record: Record) -> Target:
    """Return the turn to erase with what its erasure must know of the turns before it."""
    past = scope.lineage(Tip(record.turn - 1, record.parent))
    before = (record_of(earlier) for earlier in scope.turns() if past.sees(earlier))
    wrote = _anchored(record).difference(*map(_anchored, before))
    rows = past.changes([event["effort"] for event in record.events if "effort" in event])
    return Target(record, {name: effort_of(row) for name, row in rows.items()}, wrote)


def _bury(scope: Scope, buried: Any, target: Target) -> Gone:
    """Replace the turn in a row by a tombstone, and clear later events and states of its text.

    Return the texts that were cleared.
    """
    texts: set[tuple[str, str]] = set()
    for row in scope.turns():
        record, follows = record_of(row), scope.lineage_of(row).sees(buried)
        if row.id == buried.id and record.status != "erased":
            after = target.tombstone(record)
        else:
            after, cleared = target.without(record, follows=follows)
            texts |= cleared
        if after != record:
            _put(scope, row, record, after)
        state = json.loads(unzipped(row.state)) if row.state else {}
        anchor = _anchor(state)
        remaining = target.anchor(record, anchor, follows=follows) if anchor else anchor
        if remaining != anchor:
            memory = {**state["memory"], "anchor": remaining}
            values = {"state": _zipped({**state, "memory": memory})}
            scope.connection.execute(update(turns).where(turns.c.id == row.id).values(values))
    return frozenset(texts)


def _empty_copies(scope: Scope, texts: Gone) -> dict[str, list[Any]]:
    """Empty results of tools that hold these texts; return the rows of their turns by effort."""
    emptied: dict[str, list[Any]] = {}
    for row in scope.turns():
        record = record_of(row)
        after = without_copies(record, texts)
        if after != record:
            _put(scope, row, record, after)
            for effort in record.efforts:
                emptied.setdefault(effort, []).append(row)
    return emptied


def _empty_summaries(scope: Scope, emptied: Mapping[str, list[Any]]) -> Gone:
    """Empty summaries made from logs that have an emptied turn; return their texts."""
    texts: set[tuple[str, str]] = set()
    for row in scope.turns() if emptied else ():
        record, lineage = record_of(row), scope.lineage_of(row)
        efforts = {event["effort"] for event in record.events if event.get("effort") in emptied}
        stale = [name for name in efforts if any(map(lineage.sees, emptied[name]))]
        after, summaries = without_summaries(record, stale)
        if after != record:
            _put(scope, row, record, after)
            texts |= summaries
    return frozenset(texts)


def _quoting(scope: Scope, target: Target) -> tuple[Tip, ...]:
    """Return the other turns that repeat words of the erased one."""
    records = map(record_of, scope.turns())
    return tuple(sorted((r.tip for r in records if target.quoted_by(r)), key=attrgetter("turn")))


def _put(scope: Scope, row: Any, before: Record, after: Record) -> None:
    """Overwrite a record with one that lost text, and index that one for search."""
    connection, owner = scope.connection, scope.session.owner
    unpost(scope, row.id, before)
    if has_vectors(connection):
        for table in (vectors, heading_vectors):
            connection.execute(delete(table).where(table.c.id.between(*index.places(row.id))))
    shortened = after.messages != before.messages and after.status != "erased"
    parts = passages(after.messages)
    content = digest(after.messages) if shortened else row.content
    values = {**columns(after), "passages": index.layout(parts), "content": content}
    values["nonce"] = "" if after.status == "erased" else row.nonce
    connection.execute(update(turns).where(turns.c.id == row.id).values(values))
    connection.execute(delete(changes).where(changes.c.id.between(*index.places(row.id))))
    index.add_terms(connection, said, owner, index.postings(row.id, parts))
    place = {name: getattr(row, name) for name in ("id", "run", "place", "turn")}
    add_changes(connection, replace(scope.session, id=row.session), place, after)


def unpost(scope: Scope, turn: int, record: Record) -> None:
    """Take the terms of a turn, and of its changes of efforts, out of the search index."""
    connection, owner = scope.connection, scope.session.owner
    rows = index.postings(turn, passages(record.messages))
    index.remove_terms(connection, said, owner, rows)
    index.remove_terms(connection, headed, owner, index.headings(turn, record))


def _elsewhere(scope: Scope, erased: Any) -> tuple[Owner, ...]:
    """Return the other sessions that have the turn in a row."""
    seeing = {row.session for row in scope.turns() if scope.lineage_of(row).sees(erased)}
    others = seeing - {scope.session.id}
    shown = sessions.c.id.in_(others), ~sessions.c.hidden
    rows = scope.connection.execute(select(sessions).where(*shown).order_by(sessions.c.id))
    return tuple(Owner(scope.owner.user, row.thread, row.namespace) for row in rows)


def _stale(scope: Scope, target: Target) -> tuple[str, ...]:
    """Return the efforts whose summaries must be rewritten; clear their keywords in attention."""
    query = select(changes.c.effort).where(
        index.among(changes.c.session, scope.sessions), changes.c.entry.contains('"stale":true')
    )
    names = sorted({*scope.connection.execute(query).scalars()})
    rows = scope.connection.execute(select(sessions).where(sessions.c.id.in_(scope.sessions)))
    for owner in [Owner(scope.owner.user, row.thread, row.namespace) for row in rows]:
        for name in {*names, *target.record.efforts}:
            emptied = update(memories).where(*_of_memory(scope, owner, name)).values(keywords="[]")
            scope.connection.execute(emptied)
    return tuple(names)


def _empty_compressions(scope: Scope, erased: Any, target: Target) -> None:
    """Empty compressions of logs that hold the turn, and delete the logs of their making."""
    connection, record = scope.connection, target.record
    for row in scope.rows(compressions, "place"):
        if row.effort not in record.efforts:
            continue
        compression = from_data(json.loads(unzipped(row.made)))
        seen = row.run == erased.run and row.place >= erased.place
        seen |= any(p.run == erased.run and p.last >= erased.place for p in scope.runs[row.run])
        if seen and compression.through >= record.turn:
            key = [column == getattr(row, column.name) for column in compressions.primary_key]
            emptied = _zipped(as_data(compression.without_turn(record.turn)))
            connection.execute(update(compressions).where(*key).values(made=emptied))
    for row in scope.logged():
        entry = json.loads(unzipped(row.entry))
        if entry["effort"] in record.efforts and entry["turn"] >= record.turn:
            connection.execute(delete(extractions).where(extractions.c.id == row.id))


def _of_memory(scope: Scope, owner: Owner, effort: str) -> tuple[Any, ...]:
    """Return the conditions of the row in `memories` of an effort of a session."""
    return memories.c.owner == scope.session.owner, memories.c.memory == qualified(owner, effort)
