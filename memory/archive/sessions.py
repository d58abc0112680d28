"""The sessions of an archive: reading them at one moment, caching what was read, and writing."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from operator import attrgetter
from threading import local
from time import monotonic
from typing import Any, TypeVar, TypeVarTuple

from sqlalchemy import Connection, Row, Select, bindparam, select

from ..errors import ArchiveFormatError, ArchiveUnavailableError, SessionNotFoundError
from ..lru_cache import LruCache
from ..messages import text
from ..record import Group, Owner, Record, Tip
from .commit import commit, session_of
from .database import Database
from .erasures import Scope, scope_of
from .lineage import LARGE, RECORDS, TIP, Lineage, Session, Snapshot
from .memories import attend
from .schema import sessions, turns, users

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_SNAPSHOTS = 128
"""Snapshots, and sessions, that are cached: a few for each session that is talked to."""

_NEWEST = select(*TIP).where(turns.c.id == bindparam("number"))

_VECTORS = 256 << 20
"""Bytes of vectors that are cached, of all sessions together: three sessions of 10,000 efforts."""


@dataclass(slots=True)
class _Moment:
    """What is read of one moment: sessions and lineages, over a connection opened when needed.

    A session that was just committed to is put here, so that it is not read again.
    """

    database: Database
    stack: ExitStack = field(default_factory=ExitStack)
    sessions: dict[Owner, Session | None] = field(default_factory=dict)
    lineages: dict[tuple[Owner, Tip], Lineage] = field(default_factory=dict)
    opened: Connection | None = None
    at: float = 0.0

    def connection(self) -> Connection:
        """Return the connection that sees the moment, a later one after this thread has written."""
        if self.opened is None or self.opened.closed or self.opened.invalidated:
            self.at = monotonic()  # before anything is read: what is written meanwhile is newer
            self.opened = self.stack.enter_context(self.database.reading())
        return self.opened


class _ThreadState(local):
    """How deep a thread is in `together`, since when, and its moment once it has read."""

    depth = 0
    since = 0.0
    moment: _Moment | None = None


class Sessions:
    """The sessions of a database."""

    def __init__(self, database: Database) -> None:
        """Begin with empty caches."""
        self._database = database
        self._thread = _ThreadState()
        self._rewritten = 0.0  # when something was erased or rewritten: older reads do not count
        self._read: LruCache[tuple[float, Session]] = LruCache(_SNAPSHOTS)
        self._snapshots: LruCache[Snapshot] = LruCache(_SNAPSHOTS)
        self._records: LruCache[Record] = LruCache(RECORDS)
        self._vectors: LruCache[Any] = LruCache(_VECTORS, attrgetter("size"))

    @contextmanager
    def together(self, since: float = 0.0) -> Iterator[None]:
        """Let this thread read one moment until it writes or fails; see `Archive.together`."""
        if not self._thread.depth:
            self._thread.since = monotonic() - since
        self._thread.depth += 1
        try:
            yield
        finally:
            self._thread.depth -= 1
            if not self._thread.depth:
                self.leave()

    def leave(self) -> None:
        """End the thread's moment: a writer must see the present, over a single connection."""
        moment, self._thread.moment = self._thread.moment, None
        if moment is not None:
            moment.stack.close()

    def forget(self) -> None:
        """Empty the caches: something in them was erased, or the archive is closed."""
        self._rewritten = monotonic()
        for cache in (self._read, self._snapshots, self._records, self._vectors):
            cache.clear()

    def commit(
        self, owner: Owner, tip: Tip, group: Group, add: Callable[[Connection, int, int], None]
    ) -> Record:
        """Write a group after `tip`, once, and return its record as it is stored.

        For a new record `add` is called with the ids of session and turn, to write more in the same
        transaction. All that was written is cached, so that nothing has to be read after it.
        """
        self.leave()
        with self._database.writing() as connection:
            session = session_of(connection, owner)
            snapshot = self._snapshots.get(self._key(session, tip))
            done = commit(connection, session, tip, group, snapshot)
            if done.before is not None:
                moved = done.before.row != session.newest
                attend(
                    connection,
                    owner,
                    Lineage(lambda: connection, session, done.snapshot),
                    done.record,
                    moved=moved,
                )
                add(connection, session.id, done.snapshot.row)
            at = monotonic()  # an erasure waits until this is committed, and is newer
        record, snapshot = done.record, done.snapshot
        if done.before is None:
            return record
        is_small = sum(len(text(message)) for message in record.messages) < LARGE
        if is_small and record.status != "command":
            key = (self._edition(session), snapshot.segments[0].run, record.turn)
            self._records.put(key, record)
        self._snapshots.put(self._key(session, record.tip), snapshot)
        after = replace(session, turns=session.turns + 1, newest=snapshot.row)
        self._read.put((self._database.opened, owner), (at, after))
        if self._thread.depth:
            self._thread.moment = _Moment(self._database, sessions={owner: after})
        return record

    def ask(
        self, owner: Owner, tip: Tip, nothing: T, query: Callable[[Lineage, *Ts], T], *given: *Ts
    ) -> T:
        """Return the answer of a query to what a tip sees, `nothing` if there is no session."""
        moment = self._thread.moment
        lineage = moment.lineages.get((owner, tip)) if moment else None
        if lineage:  # a turn asks some sixty questions: 0.8 ms less without the checks
            try:
                return query(lineage, *given)
            except Exception:  # noqa: BLE001 (asked again below, where errors are translated)
                self.leave()

        def read(moment: _Moment, session: Session) -> T:
            if (owner, tip) not in moment.lineages:
                snapshot, edition = self._snapshot(moment, session, tip), self._edition(session)
                moment.lineages[owner, tip] = Lineage(
                    moment.connection, session, snapshot, self._records, self._vectors, edition
                )
            return query(moment.lineages[owner, tip], *given)

        return self._read_session(owner, read, nothing, tip)

    def turns(self, owner: Owner, query: Select[Any]) -> Sequence[Any]:
        """Return the rows that a query finds among the turns of a session."""

        def read(moment: _Moment, session: Session) -> Sequence[Any]:
            return moment.connection().execute(query.where(turns.c.session == session.id)).all()

        return self._read_session(owner, read, ())

    def newest(self, owner: Owner) -> Tip | None:
        """Return the turn of a session that was committed last, None for no session."""

        def read(moment: _Moment, session: Session) -> Tip | None:
            row = moment.connection().execute(_NEWEST, {"number": session.newest}).first()
            return None if row is None else Tip(*row)

        return self._read_session(owner, read, None)

    @contextmanager
    def writing(self, owner: Owner, *, copies: bool = False) -> Iterator[Scope]:
        """Write to an existing session, locked; raises `SessionNotFoundError`.

        With `copies` also to those of threads that share turns with it.
        """
        if not self._database.exists():
            raise SessionNotFoundError(owner.thread)
        self.leave()
        with self._database.writing() as connection:
            session = Session.of(connection, owner, lock=True)
            user = select(users.c.id).where(users.c.id == session.owner).with_for_update()
            connection.execute(user)  # after the session, as commits lock them: no deadlock
            yield scope_of(connection, session, owner, copies=copies)
        self._rewritten = monotonic()

    def rows(self, user: str, *conditions: Any) -> list[Row[Any]]:
        """Return the rows of a user's sessions, also hidden ones, that meet the conditions."""
        if not self._database.exists():
            return []
        query = select(sessions).join(users, users.c.id == sessions.c.owner)
        query = query.where(users.c.name == user, *conditions)

        def read() -> list[Row[Any]]:
            with self._database.reading() as connection:
                return list(connection.execute(query))

        return _again_if_lost(read)

    def _read_session(
        self,
        owner: Owner,
        query: Callable[[_Moment, Session], T],
        nothing: T,
        tip: Tip | None = None,
    ) -> T:
        if self._thread.moment is None and not self._database.exists():
            return nothing
        return _again_if_lost(lambda: self._read_once(owner, query, nothing, tip))

    def _read_once(
        self, owner: Owner, query: Callable[[_Moment, Session], T], nothing: T, tip: Tip | None
    ) -> T:
        with self._database.using(), self.together():
            moment = self._thread.moment = self._thread.moment or _Moment(self._database)
            try:
                if owner not in moment.sessions:
                    moment.sessions[owner] = self._session(moment, owner)
                session = moment.sessions[owner]
                if session is None and tip is not None and tip.id:  # a thread that was copied
                    session = Session.with_turn(moment.connection(), owner.user, tip)
                try:
                    return nothing if session is None else query(moment, session)
                except ValueError as error:
                    raise ArchiveFormatError(
                        f"session {owner.thread!r} is damaged ({error}): `ebbtide archive verify` "
                        "says where; restore the archive from a backup"
                    ) from error
            except BaseException:
                self.leave()
                raise

    def _session(self, moment: _Moment, owner: Owner) -> Session | None:
        """Return a session, None if there is none; from the cache if it was read recently."""
        at, session = self._read.get((self._database.opened, owner)) or (0.0, None)
        # An open connection may see an older moment than the one that the cache was filled at.
        if not moment.opened and at > max(self._thread.since, self._rewritten):
            return session
        try:
            session = Session.of(moment.connection(), owner)
        except SessionNotFoundError:
            return None
        return self._read.put((self._database.opened, owner), (moment.at, session))[1]

    def _snapshot(self, moment: _Moment, session: Session, tip: Tip) -> Snapshot:
        """Return the snapshot of a tip, one that sees nothing if the user has no such turn."""
        key = self._key(session, tip)
        snapshot = self._snapshots.get(key)
        if snapshot is None:
            snapshot = Snapshot.of(moment.connection(), session, tip)
            if snapshot is None:
                return Snapshot((), 0)
            self._snapshots.put(key, snapshot)
        return snapshot

    def _key(self, session: Session, tip: Tip) -> Any:
        """Return the key under which the snapshot of a tip is cached: its past never changes."""
        return self._edition(session), tip

    def _edition(self, session: Session) -> tuple[int, int, int]:
        """Return a value that changes when a record of the session is rewritten."""
        return (self._database.opened, session.id, session.rewritten)


def _again_if_lost(read: Callable[[], T]) -> T:
    """Return what is read, from a new connection if the old one broke: nothing was written."""
    try:
        return read()
    except ArchiveUnavailableError as error:
        if not error.lost:
            raise
        return read()
