"""A session with all its branches: notes in it, and erasing of turns."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, Table, bindparam, delete, insert, select, update

from ..compressions import Compression, as_data, from_data
from ..efforts import Effort
from ..erasing import Carried, Erased, given, quoted_by, without
from ..errors import TipNotFoundError, TurnNotFoundError
from ..facts import without_lines
from ..names import qualified
from ..search.passages import passages
from ..serialised import clean
from ..state_block import newest
from ..turn import Event, Session, StoredTurn, Tip
from . import attachments, facts, index, parts
from .commit import add_changes
from .database import upsert
from .load import STORED_TURN, Past, Segment, SessionRow, effort_of
from .rows import anchor_of, columns, packed, plain, remains, turn_of, unzipped, zipped_json
from .schema import (
    ANCHOR,
    PASSAGE_BITS,
    TURN_BITS,
    blocks,
    changes,
    compressions,
    extractions,
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
from .schema import facts as fact_rows

_CHUNK = 500
"""Turns that are read at once, so that a long session is never in memory as a whole."""

_COLUMNS = (
    *STORED_TURN,
    *(turns.c.session, turns.c.run, turns.c.place, turns.c.state, turns.c.block, ANCHOR),
)

_ORIGINS = turns.alias()
_COPIED = select(turns.c.session, _ORIGINS.c.session).where(
    turns.c.owner == bindparam("owner"),
    turns.c.origin.is_not(None),
    *(_ORIGINS.c.owner == turns.c.owner, _ORIGINS.c.hash == turns.c.origin),
    _ORIGINS.c.session != turns.c.session,
)
"""The sessions of edits and copies of turns of other sessions, with those."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A session with all its runs, and the connection to read or write it.

    `runs` has the segments before each run. `sessions` are the session and, if the scope reaches
    them, those of threads that share turns with it, whose runs are here too.
    """

    connection: Connection
    row: SessionRow
    session: Session
    runs: Mapping[int, tuple[Segment, ...]]
    sessions: tuple[int, ...]

    def past(self, tip: Tip) -> Past:
        """Return what a tip sees; raises `TipNotFoundError`."""
        past = Past.of(self.connection, self.row, tip)
        if past is None:
            raise TipNotFoundError(tip.id, tip.turn)
        return past.as_of(tip.turn)

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
        """Return the log of extractions of the sessions."""
        own = index.among(extractions.c.session, self.sessions)
        return [*self.connection.execute(select(extractions).where(own).order_by(extractions.c.id))]

    def note(self, **values: Any) -> None:
        """Change columns of the session's row."""
        own = update(sessions).where(sessions.c.id == self.row.id)
        self.connection.execute(own.values(values))

    def count_rewritten(self) -> None:
        """Note that stored text was changed, so that every process reads it again."""
        own = update(sessions).where(index.among(sessions.c.id, self.sessions))
        self.connection.execute(own.values(rewritten=sessions.c.rewritten + 1))

    def add_compression(self, segment: Segment, new: Mapping[str, Any]) -> None:
        """Store a compression made after the end of a segment, unless that effort has one there.

        `new` is from `compression_row`.
        """
        row = upsert(self.connection, compressions)
        row = row.values(**new, run=segment.run, place=segment.last)
        if self.connection.execute(row.on_conflict_do_nothing()).rowcount:
            self.count_rewritten()

    def log(self, entry: bytes) -> None:
        """Append an entry, as `zipped_json` returns it, to the session's log of extractions."""
        row = {"session": self.row.id, "entry": entry}
        self.connection.execute(insert(extractions).values(row))

    def erase(self, tip: Tip, turn: int) -> Erased:
        """Erase a turn that `tip` sees, and what was derived from it; see `Archive.erase`."""
        asked = self.past(tip).of_turn(turn, turns.c.hash, turns.c.origin)
        if asked is None:
            raise TurnNotFoundError(turn, tip.turn)
        gone, reached = self._lineage(asked.origin or asked.hash, turn)
        rows, erased = list[Any](), list[StoredTurn]()
        carried, anchors = dict[str, Carried](), dict[str, dict[str, str]]()
        places = dict[tuple[int, int], Carried]()
        self.count_rewritten()
        for row in self.in_order(reached):
            stored, block = turn_of(row), anchor_of(row)
            before = carried.get(row.parent, Carried())
            if row.hash in gone:
                rows.append(row)
                erased.append(stored)
                if stored.status != "erased":
                    before |= given(stored, *self._before(stored))
            after, has = without(stored, before, turn, gone)
            if after != stored:
                _put(self, row, stored, after)
            left = has.remaining(block)
            if row.parent in anchors and any(one.status == "erased" for one in erased):
                # What no turn wrote came back with a state that was not erased yet.
                own = (event["anchor"].items() for event in after.events if "anchor" in event)
                said = {*anchors[row.parent].items()}.union(*own)
                left = dict(one for one in left.items() if one in said)
            if row.block == row.id and left != block:  # else it is its parent's
                emptied = update(blocks).where(blocks.c.id == row.block)
                self.connection.execute(emptied.values(anchor=zipped_json(left)))
            anchors[row.hash] = left
            carried[row.hash] = places[row.run, row.place] = has
        logs = frozenset[str]().union(*(has.logs for has in places.values()))
        _empty_compressions(self, turn, places, logs)
        of_gone = fact_rows.c.hash.in_(gone), index.among(fact_rows.c.session, self.sessions)
        lost = facts.forget(self.connection, self.row.user, *of_gone)
        having, repeated = empty_lines(self, lost)
        attachments.forget(
            self.connection, self.row.user, [row.id for row in rows], awaiting_in=self.session
        )
        parts.forget(self.connection, self.row.user, self.session, rows)
        to_sweep(self.connection)
        stale = _stale(self, logs)
        events = (event for stored in erased for event in stored.events)
        opened = dict.fromkeys(event["effort"] for event in events if event["type"] == "opened")
        quoting = {*quoted_by(erased, map(turn_of, self.turns()))}
        quoted = tuple(sorted(quoting, key=attrgetter("turn", "id")))
        copies = self.others({number >> TURN_BITS for number in reached})
        there = tuple(dict.fromkeys([*copies, *having]))
        names = (f"the name of effort {name!r}, which the turn opened" for name in opened)
        return Erased(turn, asked.hash, quoted, stale, there, (*names, *repeated))

    def others(self, ids: Collection[int]) -> list[Session]:
        """Return other sessions with these ids, without those that were deleted."""
        others = index.among(sessions.c.id, ids), sessions.c.id != self.row.id, ~sessions.c.hidden
        rows = self.connection.execute(select(sessions).where(*others).order_by(sessions.c.id))
        return [Session(self.session.user, one.thread, one.namespace) for one in rows]

    def _lineage(self, root: str, turn: int) -> tuple[set[str], list[int]]:
        """Return the hashes of what goes with a turn, and the rows of these and of what follows.

        What goes are its edited forms, its copies, the commands that follow one of these, and with
        the first turn those before it. A row comes after its parent, though that may be of another
        session.
        """
        columns = (turns.c.id, turns.c.hash, turns.c.parent, turns.c.origin, turns.c.status)
        own = index.among(turns.c.session, self.sessions)
        query = select(*columns, turns.c.turn).where(own).order_by(turns.c.place, turns.c.id)
        gone, reached, ids = set[str](), set[str](), list[int]()
        for row in self.connection.execute(query):
            follows = row.parent in gone or (turn == 1 and row.turn == 0)
            if root in {row.hash, row.origin} or (row.status == "command" and follows):
                gone.add(row.hash)
            if row.hash in gone or row.parent in reached:
                reached.add(row.hash)
                ids.append(row.id)
        return gone, ids

    def in_order(self, ids: Sequence[int]) -> Iterator[Any]:
        """Yield the rows of turns in the order of their ids here."""
        for at in range(0, len(ids), _CHUNK):
            some = ids[at : at + _CHUNK]
            query = select(*_COLUMNS).where(index.among(turns.c.id, some))
            rows = {row.id: row for row in self.connection.execute(query)}
            yield from map(rows.__getitem__, some)

    def _before(self, turn: StoredTurn) -> tuple[dict[str, Effort], dict[str, str]]:
        """Return the efforts that a turn changed, and the state block, as they were before it."""
        past = self.past(Tip(turn.number - (turn.status != "command"), turn.parent))
        of_parent = turns.c.hash == turn.parent, index.among(turns.c.session, self.sessions)
        parent = self.connection.execute(select(ANCHOR).where(*of_parent)).first()
        rows = past.changes([event["effort"] for event in turn.events if "effort" in event])
        return {name: effort_of(row) for name, row in rows.items()}, anchor_of(parent)

    def resummarise(self, tip: Tip, effort: Effort) -> None:
        """Store a rewritten summary; see `Archive.resummarised`."""
        change = self.past(tip).changes([effort.id]).get(effort.id)
        if change is None:
            return
        query = select(*_COLUMNS).where(turns.c.id == change.id >> PASSAGE_BITS)
        row = self.connection.execute(query).one()
        turn, events = turn_of(row), list[Event]()
        fresh = {name: getattr(effort, name) for name in ("summary", "keywords", "importance")}
        for event in turn.events:
            concluded = event["type"] == "concluded" and event["effort"] == effort.id
            is_stale = concluded and event.get("stale")
            kept = {key: value for key, value in event.items() if key != "stale"}
            events.append({**kept, **fresh} if is_stale else event)
        after = replace(turn, events=tuple(events))
        if after != turn:
            self.count_rewritten()
            _put(self, row, turn, after)
            values = {"keywords": packed(effort.keywords), "base": effort.importance}
            memory = memories.c.memory == qualified(self.session, effort.id)
            own = update(memories).where(memories.c.owner == self.row.user, memory)
            self.connection.execute(own.values(values))


def compression_row(made: Compression) -> dict[str, Any]:
    """Return the row of a compression but its place."""
    data = zipped_json(plain(as_data(made)))
    return {"turn": made.turn, "effort": clean(made.effort), "made": data}


def scope_of(
    connection: Connection, stored: SessionRow, session: Session, *, copies: bool = False
) -> Scope:
    """Return a session with all its runs.

    With `copies` those of all threads too that share turns with it, or have copies of them, since
    one was copied from the other.
    """
    own = runs.c.session == stored.id
    if copies:
        of_user = select(sessions.c.id).where(sessions.c.owner == stored.user)
        own = runs.c.session.in_(of_user)
    rows = connection.execute(select(runs).where(own)).all()
    before = {row.id: tuple(Segment(*part) for part in json.loads(row.ancestors)) for row in rows}
    related = [{row.session, *(part.session for part in before[row.id])} for row in rows]
    if copies:
        related += map(set, connection.execute(_COPIED, {"owner": stored.user}))
    involved = {stored.id}
    while copies and (more := set[int]().union(*filter(involved.intersection, related)) - involved):
        involved |= more
    reached = {row.id: before[row.id] for row in rows if row.session in involved}
    return Scope(connection, stored, session, reached, tuple(sorted(involved)))


def empty_lines(scope: Scope, folded: Collection[str]) -> tuple[list[Session], list[str]]:
    """Take lines that equal one of these texts out of all state blocks of the user.

    Returns the other sessions that had one, and a sentence for each answer that still has it.
    """
    connection, of_user = scope.connection, turns.c.owner == scope.row.user
    own = select(blocks).join(turns, turns.c.id == blocks.c.id).where(of_user)
    found: dict[int, dict[str, str]] = {}
    for row in connection.execute(own).all() if folded else ():
        block = anchor_of(row)
        if (left := without_lines(block, folded)) != block:
            found[row.id] = left
            emptied = update(blocks).where(blocks.c.id == row.id)
            connection.execute(emptied.values(anchor=zipped_json(left)))
    carry = select(turns.c.id).where(index.among(turns.c.block, found)).order_by(turns.c.id)
    numbers, repeated = connection.execute(carry).scalars().all(), list[str]()
    having = {number >> TURN_BITS for number in numbers}
    named = index.among(sessions.c.id, having)
    names = {row.id: row.name for row in connection.execute(select(sessions).where(named))}
    for row in scope.in_order(numbers):
        stored, left = turn_of(row), found[row.block]
        events = tuple({**e, "anchor": left} if "anchor" in e else e for e in stored.events)
        if events != stored.events:
            _put(scope, row, stored, replace(stored, events=events))
        said = (newest(one.content) or {} for one in stored.messages if one.type == "ai")
        if any(without_lines(block, folded) != block for block in said):
            name = names[row.session]
            repeated.append(f"the answer of turn {row.turn} of {name!r}, which repeats a fact")
    rewritten = update(sessions).where(named)
    connection.execute(rewritten.values(rewritten=sessions.c.rewritten + 1))
    return scope.others(having), repeated


def to_sweep(connection: Connection) -> None:
    """Note that the files of the database may still hold something that was erased."""
    connection.execute(update(version).values(sweep=version.c.sweep + 1))


def _put(scope: Scope, row: Any, before: StoredTurn, after: StoredTurn) -> None:
    """Overwrite a turn with one that lost text, and index that one for search."""
    connection = scope.connection
    unpost(scope, row.id, before)
    for table in (vectors, heading_vectors):
        connection.execute(delete(table).where(table.c.id.between(*index.places(row.id))))
    if after.status == "erased":
        after = replace(after, nonce="")
    elif after.hashed != before.hashed:
        after = replace(after, nonce="", content=remains(after))  # a nonce confirms a guess
    said_in = passages(after.messages)
    values = {**columns(after), "passages": index.layout(said_in)}
    if after.status == "command":  # its mark is that of the turn that it follows
        del values["end"]
    connection.execute(update(turns).where(turns.c.id == row.id).values(values))
    connection.execute(delete(changes).where(changes.c.id.between(*index.places(row.id))))
    terms = index.postings(said_in, index.preset(after))
    index.add_terms(connection, said, (scope.row.user, row.id), terms)
    place = {name: getattr(row, name) for name in ("id", "run", "place", "turn")}
    session = replace(scope.row, id=row.session)
    add_changes(connection, session, place, after, index.headings(after))


def unpost(scope: Scope, turn: int, stored: StoredTurn) -> None:
    """Take the terms of a turn, and of its changes of efforts, out of the search index."""
    connection, of = scope.connection, (scope.row.user, turn)
    terms = index.postings(passages(stored.messages), index.preset(stored))
    index.remove_terms(connection, said, of, terms)
    index.remove_terms(connection, headed, of, index.headings(stored))


def _stale(scope: Scope, efforts: Iterable[str]) -> tuple[str, ...]:
    """Return the efforts whose summaries must be rewritten; clear keywords in attention."""
    connection, own = scope.connection, index.among(changes.c.session, scope.sessions)
    query = select(changes.c.effort).where(own, changes.c.entry.contains('"stale":true'))
    names = sorted({*connection.execute(query).scalars()})
    rows = connection.execute(select(sessions).where(sessions.c.id.in_(scope.sessions)))
    there = [Session(scope.session.user, row.thread, row.namespace) for row in rows]
    ids = {qualified(session, name) for session in there for name in {*names, *efforts}}
    of_user = memories.c.owner == scope.row.user, index.among(memories.c.memory, ids)
    connection.execute(update(memories).where(*of_user).values(keywords="[]"))
    return tuple(names)


def _empty_compressions(
    scope: Scope, turn: int, reached: Mapping[tuple[int, int], Carried], logs: Collection[str]
) -> None:
    """Empty compressions of logs that have the turn, and delete the logs of their making."""
    connection = scope.connection
    for row in scope.rows(compressions, "place"):
        carried = reached.get((row.run, row.place), Carried())
        compression = from_data(json.loads(unzipped(row.made)))
        if row.effort in carried.logs and compression.through >= turn:
            key = [column == getattr(row, column.name) for column in compressions.primary_key]
            emptied = zipped_json(as_data(compression.without_turn(turn)))
            connection.execute(update(compressions).where(*key).values(made=emptied))
    for row in scope.logged():
        entry = json.loads(unzipped(row.entry))
        if entry["effort"] in logs and entry["turn"] >= turn:
            connection.execute(delete(extractions).where(extractions.c.id == row.id))
