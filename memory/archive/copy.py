"""Copy whole sessions from one archive to another.

A session is verified where it is read, written in one transaction, so that all of it is there or
nothing, and then verified where it was written. Its turns become rows as if each were committed.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any, TypeAlias

from sqlalchemy import Connection, bindparam, or_, select

from ..attachments import Texts, references
from ..compressions import Compression, from_data
from ..errors import (
    ArchiveError,
    ArchiveFormatError,
    SessionNotFoundError,
)
from ..facts import is_fact
from ..turn import SHORT_ID, Session, StoredTurn, Tip
from . import attachments, parts
from .commit import Prepared, session_row, write
from .database import added, upsert
from .erasures import Scope, compression_row, scope_of
from .load import Past, SessionRow
from .rows import packed, state_of, turn_of, unzipped, zipped_json
from .schema import compressions, sessions, thread_owners, turns, users
from .schema import facts as fact_rows
from .schema import memories as memory_rows
from .sql import SqlArchive

_DAMAGED = (LookupError, TypeError, ValueError, AttributeError, RecursionError, OverflowError)
"""The errors that damaged data raise where they are decoded."""

_MEMORY = [column for column in memory_rows.columns if column.name not in {"owner", "session"}]
"""The columns of a memory but the numbers of user and session, which differ by archive."""

_FACT = [column for column in fact_rows.columns if column.name not in {"owner", "session"}]
_FACTS = (
    select(*_FACT)
    .where(fact_rows.c.session == bindparam("session"))
    .order_by(fact_rows.c.memory, fact_rows.c.hash)
)
_SAID = select(fact_rows.c.memory).where(
    fact_rows.c.session == bindparam("session"), fact_rows.c.owner == memory_rows.c.owner
)
_MEMORIES = (
    select(memory_rows)
    .where(or_(memory_rows.c.session == bindparam("session"), memory_rows.c.memory.in_(_SAID)))
    .order_by(memory_rows.c.memory)
)
_AFTER = (turns.c.run == compressions.c.run) & (turns.c.place == compressions.c.place)
_COMPRESSIONS = (
    select(turns.c.hash, compressions.c.made)
    .join(turns, _AFTER)
    .where(turns.c.session == bindparam("session"))
    .order_by(turns.c.id, compressions.c.effort)
)


@dataclass(frozen=True, slots=True)
class WholeSession:
    """All data of a session, its turns in the order of their commit.

    A compression comes with the id of the turn after which it was made. `attention` has the rows
    of its memories, `facts` those of its turns that said facts of the user.
    """

    session: Session
    turns: tuple[StoredTurn, ...]
    compressions: tuple[tuple[str, Compression], ...] = ()
    extractions: tuple[Mapping[str, Any], ...] = ()
    attention: tuple[Mapping[str, Any], ...] = ()
    facts: tuple[Mapping[str, Any], ...] = ()
    attachments: Texts = field(default_factory=dict)
    reseed: Tip | None = None
    hidden: bool = False

    def write(self, archive: SqlArchive) -> bool:
        """Write the session in one transaction; return False if the archive has it already.

        Raises `ArchiveError` if it is there with other turns, or damaged.
        """
        fresh = not archive.load(self.session).tip
        prepared = self._prepared() if fresh else []
        if fresh:
            with archive.database.writing() as connection:
                session = session_row(connection, self.session)
                fresh = not session.turns
                if fresh:
                    _write_turns(connection, session, prepared)
                    session = session_row(connection, self.session)  # with the turns written
                    _write_extras(scope_of(connection, session, self.session), self)
        if fresh:
            _verify(archive, self.session)
        difference = _difference(read(archive, self.session), self)
        if difference:
            raise ArchiveError(
                f"session {self.session.thread!r} of {self.session.user_label!r} already exists "
                f"with other turns ({difference}): delete that one, or name another archive; "
                "it was left as it is"
            )
        return fresh

    def _prepared(self) -> list[Prepared]:
        """Prepare the turns, as if each were committed."""
        prepared = []
        for turn in self.turns:
            try:
                digests = references(one.content for one in turn.messages)
                files = {key: text for key, text in self.attachments.items() if key in digests}
                new = Prepared.of(replace(turn, attachments=files))
            except _DAMAGED as error:
                raise ArchiveFormatError(
                    f"turn {turn.number} ({turn.id[:SHORT_ID]}): damaged: it is no turn "
                    f"({error!r}); restore it from a backup"
                ) from error
            prepared.append(new)
        return prepared


@dataclass(frozen=True, slots=True)
class Moved:
    """A session that was copied; `fresh`: it was not there already."""

    session: Session
    turns: int
    fresh: bool


Report: TypeAlias = Callable[[Moved], object]
"""Is called after each session that was copied."""


def read(archive: SqlArchive, session: Session) -> WholeSession:
    """Return all data of a session, read in one transaction; raises `SessionNotFoundError`."""
    if not archive.database.exists():
        raise SessionNotFoundError(session.thread)
    with archive.database.reading() as connection:
        stored = SessionRow.of(connection, session)
        scope = scope_of(connection, stored, session)
        query = select(sessions.c.reseed, sessions.c.hidden).where(sessions.c.id == stored.id)
        noted = connection.execute(query).one()
        return WholeSession(
            session,
            tuple(_turns(scope)),
            compressions=tuple(
                (row.hash, from_data(json.loads(unzipped(row.made))))
                for row in connection.execute(_COMPRESSIONS, {"session": stored.id})
            ),
            extractions=tuple(json.loads(unzipped(row.entry)) for row in scope.logged()),
            attention=tuple(
                {column.name: getattr(row, column.name) for column in _MEMORY}
                | {"keywords": json.loads(row.keywords)}
                for row in connection.execute(_MEMORIES, {"session": stored.id})
            ),
            facts=tuple(
                dict(row) for row in connection.execute(_FACTS, {"session": stored.id}).mappings()
            ),
            attachments=attachments.of_turns(
                connection, select(turns.c.id).where(turns.c.session == stored.id)
            ),
            reseed=Tip(*json.loads(noted.reseed)) if noted.reseed else None,
            hidden=noted.hidden,
        )


def copy(source: SqlArchive, target: SqlArchive, report: Report | None = None) -> tuple[Moved, ...]:
    """Copy all sessions of all users; those that the target has already are compared and stay.

    So a copy that was stopped can be started again. Rounds of running turns that left their state
    are copied too, so that these turns can go on. An empty target takes over the source's secret,
    with which threads can go on. Vectors are not copied: the target computes them when `embed` is
    called. Raises `ArchiveError` at the end if sessions could not be copied.
    """
    if source.database.exists():
        target.database.take_key(source.database.key())
    for user in source.users():
        _copy_memories_of_no_session(source, target, user)
    moved, failed = list[Moved](), list[ArchiveError]()
    for session in (session for user in source.users() for session in source.sessions_by_age(user)):
        try:
            whole = read(source, session)
            _verify(source, session)
            moved.append(Moved(session, len(whole.turns), whole.write(target)))
        except OSError:  # the database is locked or cannot be reached, also for the next one
            raise
        except ArchiveError as error:  # it stops no other session
            failed.append(error)
        else:
            if report is not None:
                report(moved[-1])
    for user in source.users():
        _copy_running(source, target, user)
    _copy_owners(source, target, moved)
    if failed:
        raise ArchiveError("; ".join(map(str, failed))) if failed[1:] else failed[0]
    return tuple(moved)


def _copy_memories_of_no_session(source: SqlArchive, target: SqlArchive, user: str) -> None:
    """Copy the memories that were added by hand; those that the target has already stay."""
    query = select(*_MEMORY).join(users, users.c.id == memory_rows.c.owner)
    query = query.where(users.c.name == user, memory_rows.c.session.is_(None))
    with source.database.reading() as connection:
        rows = connection.execute(query).mappings().all()
    if rows:
        with target.database.writing() as connection:
            number = added(connection, users, {"name": user})
            insert = upsert(connection, memory_rows).on_conflict_do_nothing()
            connection.execute(insert, [{**row, "owner": number} for row in rows])


def _copy_running(source: SqlArchive, target: SqlArchive, user: str) -> None:
    """Copy what running turns have in the archive: rounds that left, and large attachments."""
    with source.database.reading() as connection:
        rows = parts.of_user(connection, user)
        attached = attachments.of_running(connection, user)
    if rows or attached:
        with target.database.writing() as connection:
            number = added(connection, users, {"name": user})
            for turn, texts in attached:
                attachments.put(connection, number, turn, texts)
            parts.put_copied(connection, number, rows)


def _copy_owners(source: SqlArchive, target: SqlArchive, copied: Sequence[Moved]) -> None:
    """Copy whose the threads are; with another secret, of threads with sessions alone."""
    if source.database.exists() and source.database.key() == target.database.key():
        with source.database.reading() as connection:
            rows = connection.execute(select(thread_owners)).mappings().all()
        if rows:
            with target.database.writing() as connection:
                insert = upsert(connection, thread_owners).on_conflict_do_nothing()
                connection.execute(insert, [dict(row) for row in rows])
    for one in copied:
        target.claim(one.session)


def _turns(scope: Scope) -> Iterator[StoredTurn]:
    """Yield the turns of a session in the order of their commit."""
    for row in scope.turns():
        try:
            yield replace(turn_of(row), state=state_of(row))
        except _DAMAGED as error:
            raise ArchiveFormatError(
                f"turn {row.turn} ({row.hash[:SHORT_ID]}) of session {scope.session.thread!r} is "
                f"damaged: {error}; restore the archive from a backup"
            ) from error


def _write_turns(connection: Connection, session: SessionRow, prepared: Sequence[Prepared]) -> None:
    """Commit the turns in their order, each after its parent."""
    pasts: dict[str, Past] = {}
    for new in prepared:
        turn = new.turn
        parent = Tip(turn.number, turn.parent)
        past = pasts.get(turn.parent) or Past.of(connection, session, parent)
        if past is None:
            raise ArchiveFormatError(
                f"turn {turn.number} ({turn.id[:SHORT_ID]}): damaged: its parent is missing; "
                "restore the archive from a backup"
            )
        after = pasts[turn.id] = write(connection, session, new, past)
        session = replace(session, turns=session.turns + 1, newest=after.row)


def _write_extras(scope: Scope, data: WholeSession) -> None:
    """Store everything but the turns."""
    for turn_id, compression in data.compressions:
        past = scope.past(Tip(compression.turn, turn_id))
        scope.add_compression(past.segments[0], compression_row(compression))
    for entry in data.extractions:
        scope.log(zipped_json(entry))
    for memory in data.attention:
        session = None if is_fact(memory["memory"]) else scope.row.id
        row = {**memory, "session": session, "keywords": packed(memory["keywords"])}
        insert = upsert(scope.connection, memory_rows).values(**row, owner=scope.row.user)
        scope.connection.execute(
            insert.on_conflict_do_update(index_elements=["owner", "memory"], set_=row)
        )
    for fact in data.facts:
        row = {**fact, "owner": scope.row.user, "session": scope.row.id}
        scope.connection.execute(
            upsert(scope.connection, fact_rows).values(row).on_conflict_do_nothing()
        )
    reseed = None if data.reseed is None else packed(astuple(data.reseed))
    scope.note(reseed=reseed, hidden=data.hidden)


def _verify(archive: SqlArchive, session: Session) -> None:
    """Raise `ArchiveFormatError` that names the first damage of a session, if there is any."""
    fatal = [finding for finding in archive.verify(session) if finding.fatal]
    if fatal:
        first = fatal[0]
        raise ArchiveFormatError(
            f"{first.where}: damaged: {first.what} (the first of {len(fatal)} findings) in session "
            f"{session.thread!r} of {archive!r}; it was not copied"
        )


def _difference(stored: WholeSession, data: WholeSession) -> str:
    """Name the first turn that differs from the one that is stored; "" if there is none."""

    def compared(turn: StoredTurn) -> tuple[object, ...]:
        return replace(turn, messages=()), turn.state  # the id stands for the messages

    known = {turn.id: compared(turn) for turn in stored.turns}
    for turn in data.turns:
        if known.pop(turn.id, None) != compared(turn):
            return f"turn {turn.number} ({turn.id[:SHORT_ID]})"
    return f"{len(known)} more" if known else ""
