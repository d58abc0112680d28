"""Copy whole sessions from one archive to another.

A session is verified where it is read, committed again in one transaction, so that all of it is
there or nothing, and then verified where it was written.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import zip_longest
from typing import Any, TypeAlias

from sqlalchemy import Connection, Table, select

from ..errors import ArchiveError, ArchiveFormatError
from ..facts import is_fact
from ..turn import SHORT_ID, Session, StoredTurn, Tip
from . import attachments, parts
from .commit import Prepared, session_row, write
from .database import added, upsert
from .erasures import compression_row, scope_of
from .export import WholeSession, of_memories, read
from .load import Past
from .rows import packed, zipped_json
from .schema import facts, memories, thread_owners, users
from .sql import SqlArchive


@dataclass(frozen=True, slots=True)
class Copied:
    """A session that was copied; `fresh`: it was not there already."""

    session: Session
    turns: int
    fresh: bool


Report: TypeAlias = Callable[[Copied], object]
"""Is called after each session that was copied."""


def copy(
    source: SqlArchive, target: SqlArchive, report: Report | None = None
) -> tuple[Copied, ...]:
    """Copy all sessions of all users; those that the target has already are compared and stay.

    So a copy that was stopped can be started again. Rounds of running turns that left their state
    are copied too, so that these turns can go on. An empty target takes over the source's secret,
    with which threads can go on. Vectors are not copied: the target computes them when `embed` is
    called. Raises `ArchiveError` at the end if sessions could not be copied.
    """
    if source.database.exists():
        target.database.take_key(source.database.key())
    copied, failed = list[Copied](), list[ArchiveError]()
    for session in (session for user in source.users() for session in source.sessions_by_age(user)):
        try:
            copied.append(_copied(source, target, session))
        except OSError:  # the database is locked or cannot be reached, also for the next one
            raise
        except ArchiveError as error:  # it stops no other session
            failed.append(error)
        else:
            if report is not None:
                report(copied[-1])
    for user in source.users():
        _copy_rest(source, target, user)
    _copy_owners(source, target, copied)
    if failed:
        raise ArchiveError("; ".join(map(str, failed))) if failed[1:] else failed[0]
    return tuple(copied)


def _copied(source: SqlArchive, target: SqlArchive, session: Session) -> Copied:
    """Copy a session, or compare it; raises `ArchiveError` if the target has another one."""
    _verify(source, session)
    whole = read(source, session)
    fresh = target.load(session).tip is None and _commit(target, whole)
    if fresh:
        _verify(target, session)
    for one, other in zip_longest(whole.turns, read(target, session).turns):
        if one is None or other is None or (one, one.state) != (other, other.state):
            turn: StoredTurn = one or other
            raise ArchiveError(
                f"session {session.thread!r} of {session.user_label!r} already exists with other "
                f"turns (turn {turn.number} {turn.id[:SHORT_ID]}): delete that one, or name "
                "another archive; it was left as it is"
            )
    return Copied(session, len(whole.turns), fresh)


def _commit(target: SqlArchive, whole: WholeSession) -> bool:
    """Commit a session again; return False if it was committed meanwhile."""
    prepared = [*map(Prepared.of, whole.turns)]
    files = attachments.compressed(whole.attachments)
    with target.database.writing() as connection:
        row = session_row(connection, whole.session)
        if row.turns:
            return False
        attachments.store(connection, row.user, files)
        scope, past = scope_of(connection, row, whole.session), Past.of(connection, row, Tip())
        for new in prepared:
            if past is None or past.id != new.turn.parent:
                past = scope.past(Tip(new.turn.number, new.turn.parent))
            past = write(connection, row, new, past)
            row = replace(row, turns=row.turns + 1, newest=past.row)
        for turn_id, made in whole.compressions:
            segment = scope.past(Tip(made.turn, turn_id)).segments[0]
            scope.add_compression(segment, compression_row(made))
        for entry in whole.extractions:
            scope.log(zipped_json(entry))
        own = {"owner": row.user, "session": row.id}
        of_user = {"owner": row.user, "session": None}
        kept = [{**m, **(of_user if is_fact(m["memory"]) else own)} for m in whole.attention]
        _insert(connection, memories, kept)
        _insert(connection, facts, [{**fact, **own} for fact in whole.facts])
        reseed = None if whole.reseed is None else packed(astuple(whole.reseed))
        scope.note(reseed=reseed, hidden=whole.hidden)
    return True


def _copy_rest(source: SqlArchive, target: SqlArchive, user: str) -> None:
    """Copy what a user has beside sessions: memories by hand, and data of running turns."""
    with source.database.reading() as connection:
        kept = of_memories(connection, memories.c.session.is_(None), users.c.name == user)
        rounds, running = parts.of_user(connection, user), attachments.of_running(connection, user)
    if kept or rounds or running:
        with target.database.writing() as connection:
            number = added(connection, users, {"name": user})
            _insert(connection, memories, [{**one, "owner": number} for one in kept])
            for turn, texts in running:
                attachments.put(connection, number, turn, texts)
            parts.put_copied(connection, number, rounds)


def _copy_owners(source: SqlArchive, target: SqlArchive, copied: Sequence[Copied]) -> None:
    """Copy whose the threads are; with another secret, of threads with sessions alone."""
    if source.database.exists() and source.database.key() == target.database.key():
        with source.database.reading() as connection:
            rows = connection.execute(select(thread_owners)).mappings().all()
        with target.database.writing() as connection:
            _insert(connection, thread_owners, rows)
    for one in copied:
        target.claim(one.session)


def _insert(connection: Connection, table: Table, rows: Sequence[Mapping[Any, Any]]) -> None:
    if values := [dict(row) for row in rows]:
        connection.execute(upsert(connection, table).on_conflict_do_nothing(), values)


def _verify(archive: SqlArchive, session: Session) -> None:
    """Raise `ArchiveFormatError` that names the first damage of a session, if there is any."""
    fatal = [finding for finding in archive.verify(session) if finding.fatal]
    if fatal:
        first = fatal[0]
        raise ArchiveFormatError(
            f"{first.where}: damaged: {first.what} (the first of {len(fatal)} findings) in session "
            f"{session.thread!r} of {archive!r}; it was not copied"
        )
