"""Whole sessions: read from an archive, written into one, and copied from one to another.

A session is written in one transaction and verified in it, so that it is there as it was, or not at
all; its turns become rows as if each were committed.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any, TypeAlias

from sqlalchemy import Connection, insert, select, update

from ..errors import (
    ArchiveError,
    ArchiveFormatError,
    ArchiveLockedError,
    ArchiveUnavailableError,
    SessionNotFoundError,
)
from ..record import Owner, Record, Tip
from ..salience import Compression, as_data, from_data
from .commit import session_of
from .commit import write as write_record
from .database import added, upsert
from .erasures import Scope, scope_of
from .lineage import Known, Session
from .memories import attend
from .protocol import Finding
from .records import packed, plain, record_of, state_of, unzipped, zipped
from .schema import compressions, extractions, sessions, turns, users
from .schema import memories as memory_rows
from .sql import SqlArchive
from .verify import verify

DAMAGED = (LookupError, TypeError, ValueError, AttributeError, RecursionError, OverflowError)
"""What is raised by data that are not what they should be."""

_OF_MEMORIES = (
    *("memory", "base", "created", "keywords"),
    *("accesses", "suppressed", "withdrawn", "attended"),
)


@dataclass(frozen=True, slots=True)
class Turn:
    """A record with what is kept beside it, and where it stands, for errors.

    `state` is the memory's state after it, `content` the digest of what is left of a turn that lost
    a copy of something erased.
    """

    record: Record
    where: str
    state: Mapping[str, Any] | None = None
    content: str | None = None

    @property
    def place(self) -> tuple[str, int]:
        """The branch and the number of the turn."""
        return self.record.branch, self.record.turn


@dataclass(frozen=True, slots=True)
class Whole:
    """All that is kept of a session, its turns in the order of their commit.

    Compressions are with the branch on which they were made. `attention` has what is kept of its
    memories; None: the turns are to say.
    """

    owner: Owner
    turns: tuple[Turn, ...]
    compressions: tuple[tuple[str, Compression], ...] = ()
    extractions: tuple[Mapping[str, Any], ...] = ()
    attention: tuple[Mapping[str, Any], ...] | None = None
    reseed: Tip | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """A session that was taken over; `fresh`: it was written, else it was there already."""

    owner: Owner
    turns: int
    fresh: bool
    findings: tuple[Finding, ...] = ()


Told: TypeAlias = Callable[[Moved], object]
"""Is told of each session as soon as it is there."""


def read(archive: SqlArchive, owner: Owner) -> Whole:
    """Return a session as one moment shows it; raises `SessionNotFoundError`."""
    if not archive.database.exists():
        raise SessionNotFoundError(owner.thread)
    with archive.database.reading() as connection:
        session = Session.of(connection, owner)
        scope = scope_of(connection, session, owner)

        def of(table: Any, order: Any) -> Iterable[Any]:
            query = select(table).where(table.c.session == scope.session.id).order_by(order)
            return connection.execute(query)

        compressed = [
            (row.branch, from_data(json.loads(unzipped(row.made))))
            for row in of(compressions, compressions.c.turn)
        ]
        logged = [json.loads(unzipped(row.entry)) for row in of(extractions, extractions.c.id)]
        remembered = [_memory(row) for row in of(memory_rows, memory_rows.c.memory)]
        listed = tuple(_turns(scope))
        noted = select(sessions.c.reseed).where(sessions.c.id == session.id)
        reseed = connection.execute(noted).scalar()
    tip = Tip(*json.loads(reseed)) if reseed else None
    return Whole(owner, listed, tuple(compressed), tuple(logged), tuple(remembered), tip)


def write(archive: SqlArchive, whole: Whole) -> bool:
    """Write a session, its turns parents first; False if the very same is there already.

    Raises `ArchiveError` if it is there with other records, `ArchiveFormatError` if it is damaged;
    nothing is then changed.
    """
    with archive.database.writing() as connection:
        session = session_of(connection, whole.owner)
        fresh = not session.turns
        if fresh:
            _write_turns(connection, session, whole)
            _write_rest(connection, session, whole)
            _verify(scope_of(connection, session, whole.owner), whole)
        differing = _differing(scope_of(connection, session, whole.owner), whole)
        if differing:
            raise ArchiveError(
                f"session {whole.owner.thread!r} of {whole.owner.user!r} is there already with "
                f"other records ({differing}): delete that one, or name another archive; it was "
                "left as it is"
            )
    return fresh


def copy(source: SqlArchive, target: SqlArchive, told: Told | None = None) -> tuple[Moved, ...]:
    """Copy all sessions of all users; what is in the target already is compared and passed over.

    Each session is there as a whole or not at all, so a copy that was stopped goes on where it was.
    An empty target takes the source's secret over, so that threads go on. Vectors are not copied:
    the target computes them when it is asked to. Raises `ArchiveError` at the end if sessions could
    not be copied.
    """
    if source.database.exists():
        target.database.take_key(source.database.key())

    def take(owner: Owner) -> Moved:
        whole = read(source, owner)
        return Moved(owner, len(whole.turns), write(target, whole))

    for user in source.users():
        _copy_apart(source, target, user)
    owners = (owner for user in source.users() for owner in source.sessions(user))
    return each(owners, take, told)


def _copy_apart(source: SqlArchive, target: SqlArchive, user: str) -> None:
    """Copy the memories of a user that are of no session; those that are there already stay."""
    with source.database.reading() as connection:
        query = select(memory_rows).join(users, users.c.id == memory_rows.c.owner)
        apart = query.where(users.c.name == user, memory_rows.c.session.is_(None))
        remembered = [_memory(row) for row in connection.execute(apart)]
    if remembered:
        with target.database.writing() as connection:
            owner = added(connection, users, {"name": user})
            rows = [
                {**memory, "owner": owner, "keywords": packed(memory["keywords"])}
                for memory in remembered
            ]
            adding = upsert(connection, memory_rows).values(rows)
            connection.execute(adding.on_conflict_do_nothing())


def each(
    listed: Iterable[Any], take: Callable[[Any], Moved], told: Told | None
) -> tuple[Moved, ...]:
    """Take over sessions; one that cannot be taken stops no other, but is an error at the end."""
    moved, failed = list[Moved](), list[ArchiveError]()
    for item in listed:
        try:
            moved.append(take(item))
        except (ArchiveLockedError, ArchiveUnavailableError):
            raise
        except ArchiveError as error:
            failed.append(error)
        else:
            if told is not None:
                told(moved[-1])
    if failed:
        raise ArchiveError("; ".join(map(str, failed))) if failed[1:] else failed[0]
    return tuple(moved)


def _turns(scope: Scope) -> Iterator[Turn]:
    for row in scope.rows():
        where = f"{row.branch}:{row.turn}"
        try:
            branch = scope.branches[row.branch]
            began = branch.first == row.turn and branch.ancestors
            origin = branch.ancestors[0][:2] if began else None
            yield Turn(record_of(row, origin), where, state_of(row), row.content)
        except DAMAGED as error:
            raise ArchiveFormatError(
                f"turn {where} of session {scope.owner.thread!r} is damaged: {error}"
            ) from error


def _write_turns(connection: Connection, session: Session, whole: Whole) -> None:
    known: dict[str, Known] = {}
    for turn in whole.turns:
        record = turn.record
        try:
            before = known.get(record.branch)
            number, known[record.branch] = write_record(
                connection, session, record, turn.state, before
            )
            if whole.attention is None:
                attend(connection, session, whole.owner, record)
        except DAMAGED as error:
            raise ArchiveFormatError(f"{turn.where}: damaged: it is no turn ({error!r})") from error
        if turn.content is not None:
            left = update(turns).where(turns.c.id == number).values(content=turn.content)
            connection.execute(left)
        session = replace(session, turns=session.turns + 1, branch=record.branch)


def _write_rest(connection: Connection, session: Session, whole: Whole) -> None:
    for branch, compression in whole.compressions:
        place = {"session": session.id, "branch": branch, "turn": compression.turn}
        made = zipped(packed(plain(as_data(compression))))
        row = upsert(connection, compressions).values(**place, effort=compression.effort, made=made)
        connection.execute(row.on_conflict_do_nothing())
    for entry in whole.extractions:
        row = {"session": session.id, "entry": zipped(packed(plain(entry)))}
        connection.execute(insert(extractions).values(row))
    for memory in whole.attention or ():
        row = {**memory, "session": session.id, "keywords": packed(memory["keywords"])}
        adding = upsert(connection, memory_rows).values(**row, owner=session.owner)
        connection.execute(
            adding.on_conflict_do_update(index_elements=["owner", "memory"], set_=row)
        )
    if whole.reseed is not None:
        noted = {"reseed": packed(astuple(whole.reseed))}
        connection.execute(update(sessions).where(sessions.c.id == session.id).values(noted))


def _verify(scope: Scope, whole: Whole) -> None:
    places = {f"{turn.record.branch}:{turn.record.turn}": turn.where for turn in whole.turns}
    fatal = [finding for finding in verify(scope) if finding.fatal]
    if fatal:
        first = fatal[0]
        raise ArchiveFormatError(
            f"{places.get(first.where, first.where)}: damaged: {first.what} (the first of "
            f"{len(fatal)} findings); nothing was taken over of session {scope.owner.thread!r}"
        )


def _differing(scope: Scope, whole: Whole) -> str:
    """Return where the first difference to the records that are stored is, "" if there is none."""
    stored = {turn.place: _compared(turn) for turn in _turns(scope)}
    for turn in whole.turns:
        if stored.pop(turn.place, None) != _compared(turn):
            return f"turn {turn.record.turn} of branch {turn.record.branch!r}"
    return f"{len(stored)} more" if stored else ""


def _compared(turn: Turn) -> tuple[Any, ...]:
    """Return what is the same of two records that are the same; messages have their digest."""
    record = turn.record
    said = packed([record.efforts, record.events, turn.state])
    return record.digest, record.parent, record.status, record.at, turn.content, said


def _memory(row: Any) -> dict[str, Any]:
    memory = {name: getattr(row, name) for name in _OF_MEMORIES}
    return {**memory, "keywords": json.loads(row.keywords)}
