"""Whole sessions: read from an archive, written into one, and copied from one to another.

A session is written in one transaction and verified in it, so that it is there as it was, or not at
all; its turns become rows as if each were committed.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any, TypeAlias

from sqlalchemy import Connection, select, update

from ..errors import ArchiveError, ArchiveFormatError, SessionNotFoundError
from ..record import Owner, Record, Tip
from ..salience import Compression, from_data
from .commit import session_of
from .commit import write as write_record
from .database import added, upsert
from .erasures import Scope, scope_of
from .lineage import Session, Snapshot
from .memories import attend
from .protocol import Finding
from .records import packed, record_of, state_of, unzipped
from .schema import compressions, extractions, sessions, turns, users
from .schema import memories as memory_rows
from .sql import SqlArchive
from .verify import verify

DAMAGED = (LookupError, TypeError, ValueError, AttributeError, RecursionError, OverflowError)
"""What is raised by data that are not what they should be."""

_OF_MEMORIES = [one for one in memory_rows.columns if one.name not in {"owner", "session"}]


@dataclass(frozen=True, slots=True)
class Turn:
    """A record, where it stands (for errors), the memory's state after it.

    `content` is the digest of what is left if it lost a copy of something erased.
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

    def write(self, archive: SqlArchive) -> bool:
        """Write the session in one transaction; False if the very same is there already.

        Raises `ArchiveError` if it is there with other records, or damaged.
        """
        with archive.database.writing() as connection:
            session = session_of(connection, self.owner)
            fresh = not session.turns
            if fresh:
                _write_turns(connection, session, self)
            session = session_of(connection, self.owner)  # with the turns that were written
            scope = scope_of(connection, session, self.owner)
            if fresh:
                _write_made(scope, self)
                _verify(scope, self)
            differing = _differing(scope, self)
            if differing:
                raise ArchiveError(
                    f"session {self.owner.thread!r} of {self.owner.user!r} is there already with "
                    f"other records ({differing}): delete that one, or name another archive; it "
                    "was left as it is"
                )
        return fresh


@dataclass(frozen=True, slots=True)
class Moved:
    """A session that was taken over; `fresh`: it was written, else it was there already."""

    owner: Owner
    turns: int
    fresh: bool
    findings: tuple[Finding, ...] = ()


Report: TypeAlias = Callable[[Moved], object]
"""Is called with each session that was taken over, as soon as it was."""


def read(archive: SqlArchive, owner: Owner) -> Whole:
    """Return a session as one moment shows it; raises `SessionNotFoundError`."""
    if not archive.database.exists():
        raise SessionNotFoundError(owner.thread)
    with archive.database.reading() as connection:
        session = Session.of(connection, owner)
        scope = scope_of(connection, session, owner)
        noted = select(sessions.c.reseed).where(sessions.c.id == session.id)
        reseed = connection.execute(noted).scalar()
        return Whole(
            owner,
            tuple(_turns(scope)),
            compressions=tuple(
                (row.branch, from_data(json.loads(unzipped(row.made))))
                for row in scope.rows(compressions, "turn")
            ),
            extractions=tuple(
                json.loads(unzipped(row.entry)) for row in scope.rows(extractions, "id")
            ),
            attention=tuple(
                {one.name: getattr(row, one.name) for one in _OF_MEMORIES}
                | {"keywords": json.loads(row.keywords)}
                for row in scope.rows(memory_rows, "memory")
            ),
            reseed=Tip(*json.loads(reseed)) if reseed else None,
        )


def copy(source: SqlArchive, target: SqlArchive, report: Report | None = None) -> tuple[Moved, ...]:
    """Copy all sessions of all users; what is in the target already is compared and passed over.

    A copy that was stopped goes on where it was. An empty target takes the source's secret over, so
    that threads go on. Vectors are not copied: the target computes them when it is asked to. Raises
    `ArchiveError` at the end if sessions could not be copied.
    """
    if source.database.exists():
        target.database.take_key(source.database.key())

    def take(owner: Owner) -> Moved:
        whole = read(source, owner)
        return Moved(owner, len(whole.turns), whole.write(target))

    for user in source.users():
        _copy_apart(source, target, user)
    owners = (owner for user in source.users() for owner in source.sessions(user))
    return each(owners, take, report)


def _copy_apart(source: SqlArchive, target: SqlArchive, user: str) -> None:
    """Copy the memories of a user that are of no session; those that are there already stay."""
    query = select(*_OF_MEMORIES).join(users, users.c.id == memory_rows.c.owner)
    with source.database.reading() as connection:
        apart = query.where(users.c.name == user, memory_rows.c.session.is_(None))
        rows = connection.execute(apart).mappings().all()
    if rows:
        with target.database.writing() as connection:
            owner = added(connection, users, {"name": user})
            adding = upsert(connection, memory_rows).on_conflict_do_nothing()
            connection.execute(adding, [{**row, "owner": owner} for row in rows])


def each(
    listed: Iterable[Any], take: Callable[[Any], Moved], report: Report | None
) -> tuple[Moved, ...]:
    """Take over sessions; one that cannot be taken stops no other, but is an error at the end."""
    moved, failed = list[Moved](), list[ArchiveError]()
    for item in listed:
        try:
            moved.append(take(item))
        except OSError:  # the database is locked or cannot be reached, also for the next one
            raise
        except ArchiveError as error:
            failed.append(error)
        else:
            if report is not None:
                report(moved[-1])
    if failed:
        raise ArchiveError("; ".join(map(str, failed))) if failed[1:] else failed[0]
    return tuple(moved)


def _turns(scope: Scope) -> Iterator[Turn]:
    for row in scope.turns():
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
    known: dict[str, Snapshot] = {}
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
            own = update(turns).where(turns.c.id == number)
            connection.execute(own.values(content=turn.content))
        session = replace(session, turns=session.turns + 1, branch=record.branch)


def _write_made(scope: Scope, whole: Whole) -> None:
    for branch, compression in whole.compressions:
        scope.add_compression(branch, compression)
    for entry in whole.extractions:
        scope.log(entry)
    for memory in whole.attention or ():
        row = {**memory, "session": scope.session.id, "keywords": packed(memory["keywords"])}
        adding = upsert(scope.connection, memory_rows).values(**row, owner=scope.session.owner)
        scope.connection.execute(
            adding.on_conflict_do_update(index_elements=["owner", "memory"], set_=row)
        )
    if whole.reseed is not None:
        scope.note(reseed=packed(astuple(whole.reseed)))


def _verify(scope: Scope, whole: Whole) -> None:
    """Raise `ArchiveFormatError` that says where the first damage stood, if there is any."""
    fatal = [finding for finding in verify(scope) if finding.fatal]
    if fatal:
        first, places = fatal[0], {"{}:{}".format(*turn.place): turn.where for turn in whole.turns}
        raise ArchiveFormatError(
            f"{places.get(first.where, first.where)}: damaged: {first.what} (the first of "
            f"{len(fatal)} findings); nothing was taken over of session {whole.owner.thread!r}"
        )


def _differing(scope: Scope, whole: Whole) -> str:
    """Return where the first difference to the records that are stored is, "" if there is none."""

    def compared(turn: Turn) -> tuple[object, ...]:
        record = turn.record  # whose digest stands for its messages
        data = packed([record.efforts, record.events, turn.state])
        return record.digest, record.parent, record.status, record.at, turn.content, data

    stored = {turn.place: compared(turn) for turn in _turns(scope)}
    for turn in whole.turns:
        if stored.pop(turn.place, None) != compared(turn):
            return f"turn {turn.record.turn} of branch {turn.record.branch!r}"
    return f"{len(stored)} more" if stored else ""
