"""The sessions of an archive: what is read of them together, what is remembered, and writing."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from operator import attrgetter
from threading import local
from time import monotonic
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, bindparam, select

from ..embeddings import Matrix
from ..errors import ArchiveFormatError, ArchiveUnavailableError, SessionNotFoundError
from ..lru_cache import LruCache
from ..messages import text
from ..record import Group, Owner, Record, Tip
from .commit import commit, session_of
from .database import Database
from .erasures import Scope, scope_of
from .lineage import LARGE, RECORDS, Known, Lineage, Session, branch_of
from .memories import attend
from .schema import sessions, users

T = TypeVar("T")

_LINEAGES = 128
"""Lineages of which it is remembered what was asked: a few for each session that is talked to."""

_VECTORS = 256 << 20
"""Bytes of vectors that are held, of all sessions together: three sessions of 10,000 efforts."""


@dataclass(slots=True)
class _Moment:
    """What is read of one moment: over a connection, made when it is needed; sessions as they are.

    A session that was just committed to need not be read for what is known of it. What tips see is
    found out once.
    """

    database: Database
    open: ExitStack = field(default_factory=ExitStack)
    sessions: dict[Owner, Session | None] = field(default_factory=dict)
    seen: dict[tuple[Owner, Tip], Lineage] = field(default_factory=dict)
    made: Connection | None = None
    at: float = 0.0

    def connection(self) -> Connection:
        """Return the connection that sees it."""
        if self.made is None:
            self.at = monotonic()  # before anything is read: what is written meanwhile is newer
            self.made = self.open.enter_context(self.database.reading())
        return self.made


class _Here(local):
    """What a thread reads together: how deep in it is, and the moment, once something is read."""

    depth = 0
    since = 0.0
    moment: _Moment | None = None


class Sessions:
    """The sessions of a database."""

    def __init__(self, database: Database) -> None:
        """Know none yet."""
        self._database = database
        self._here = _Here()
        self._rewritten = 0.0  # when anything was, or was deleted: what was read before is older
        self._read: LruCache[tuple[float, Session]] = LruCache(_LINEAGES)
        self._known: LruCache[Known] = LruCache(_LINEAGES)
        self._records: LruCache[Record] = LruCache(RECORDS)
        self._vectors: LruCache[Matrix] = LruCache(_VECTORS, attrgetter("size"))

    @contextmanager
    def together(self, since: float = 0.0) -> Iterator[None]:
        """Let what this thread reads here be of one moment, until it writes or something fails."""
        if not self._here.depth:
            self._here.since = monotonic() - since
        self._here.depth += 1
        try:
            yield
        finally:
            self._here.depth -= 1
            if not self._here.depth:
                self.leave()

    def leave(self) -> None:
        """End the moment: whoever writes must see the present, over one connection."""
        moment, self._here.moment = self._here.moment, None
        if moment is not None:
            moment.open.close()

    def forget(self) -> None:
        """Let go of what was read: some of it was erased."""
        self._rewritten = monotonic()
        for cache in (self._read, self._known, self._records, self._vectors):
            cache.clear()

    def commit(
        self, owner: Owner, tip: Tip, group: Group, also: Callable[[Connection, int, int], None]
    ) -> Record:
        """Write a group after `tip`, once, and return its record as it is stored.

        `also` writes more with a new one, given the numbers of session and turn. What is known of
        it is remembered, so that nothing has to be read after it.
        """
        self.leave()
        with self._database.writing() as connection:
            session = session_of(connection, owner)
            known = self._known.get(self._key(session, tip))
            record, number, known = commit(connection, session, tip, group, known)
            if number is not None:
                attend(connection, session, owner, record)
                also(connection, session.id, number)
            at = monotonic()  # an erasure waits until this is committed, and is newer
        if number is None:
            return record
        if sum(len(text(message)) for message in record.messages) < LARGE:
            self._records.put((self._edition(session), record.branch, record.turn), record)
        self._known.put(self._key(session, record.tip), known)
        after = replace(session, turns=session.turns + 1, branch=record.branch)
        self._read.put((self._database.opened, owner), (at, after))
        if self._here.depth:
            self._here.moment = _Moment(self._database, sessions={owner: after})
        return record

    def ask(self, owner: Owner, tip: Tip, ask: Callable[[Lineage], T], nothing: T) -> T:
        """Ask what a tip sees; `nothing` is the answer of a session that does not exist."""
        return self.find(owner, tip, lambda seen, _: ask(seen), nothing)

    def find(self, owner: Owner, tip: Tip, ask: Callable[[Lineage, Session], T], nothing: T) -> T:
        """Ask what a tip sees, and of which session."""
        moment = self._here.moment
        seen = moment.seen.get((owner, tip)) if moment else None
        session = moment.sessions.get(owner) if moment else None
        if seen and session:  # what a turn asks some sixty times costs less without the rest
            try:
                return ask(seen, session)
            except Exception:  # noqa: BLE001 (asked once more, where errors are told)
                self.leave()

        def see(moment: _Moment, session: Session) -> T:
            if (owner, tip) not in moment.seen:
                known, edition = self._what_is_known(moment, session, tip), self._edition(session)
                moment.seen[owner, tip] = Lineage(
                    moment.connection, session.id, known, self._records, self._vectors, edition
                )
            return ask(moment.seen[owner, tip], session)

        return self._asked(owner, see, nothing)

    def read(self, owner: Owner, ask: Callable[[Connection, Session], T], nothing: T) -> T:
        """Ask a session; `nothing` is the answer of one that does not exist."""
        return self._asked(
            owner, lambda moment, session: ask(moment.connection(), session), nothing
        )

    @contextmanager
    def writing(self, owner: Owner) -> Iterator[Scope]:
        """Write to a session that there is, others waiting; raises `SessionNotFoundError`."""
        if not self.exists(owner):
            raise SessionNotFoundError(owner.thread)
        self.leave()
        with self._database.writing() as connection:
            session = Session.of(connection, owner)
            locked = select(sessions.c.id).where(sessions.c.id == bindparam("id")).with_for_update()
            while connection.execute(locked, {"id": session.id}).scalar() is None:
                # Somebody else deleted it, and may have begun it anew.
                session = Session.of(connection, owner)
            user = select(users.c.id).where(users.c.id == session.owner).with_for_update()
            connection.execute(user)  # as commits do: the session, then its user
            yield scope_of(connection, session, owner)
        self._rewritten = monotonic()

    def exists(self, owner: Owner) -> bool:
        """Tell whether there is such a session."""
        return self.read(owner, lambda _connection, _session: True, nothing=False)

    def rows(self, user: str, *where: Any) -> list[Row[Any]]:
        """Return the rows of a user's sessions."""
        if not self._database.exists():
            return []
        with self._database.reading() as connection:
            query = select(sessions).join(users, users.c.id == sessions.c.owner)
            return list(connection.execute(query.where(users.c.name == user, *where)))

    def _asked(self, owner: Owner, ask: Callable[[_Moment, Session], T], nothing: T) -> T:
        if self._here.moment is None and not self._database.exists():
            return nothing
        try:
            return self._asked_once(owner, ask, nothing)
        except ArchiveUnavailableError as error:
            if not error.lost:
                raise
            return self._asked_once(owner, ask, nothing)  # reading changed nothing

    def _asked_once(self, owner: Owner, ask: Callable[[_Moment, Session], T], nothing: T) -> T:
        with self._moment() as moment:
            if owner not in moment.sessions:
                moment.sessions[owner] = self._session(moment, owner)
            session = moment.sessions[owner]
            try:
                return nothing if session is None else ask(moment, session)
            except ValueError as error:
                raise ArchiveFormatError(
                    f"session {owner.thread!r} is damaged ({error}): `ebbtide archive verify` says "
                    "where; restore the archive from a backup"
                ) from error

    @contextmanager
    def _moment(self) -> Iterator[_Moment]:
        """Read at the moment of this thread; one of its own if it reads nothing together."""
        if not self._here.depth:
            with self._database.translating_errors(), ExitStack() as stack:
                yield _Moment(self._database, stack)
            return
        try:
            with self._database.translating_errors():
                self._here.moment = self._here.moment or _Moment(self._database)
                yield self._here.moment
        except BaseException:
            self.leave()
            raise

    def _session(self, moment: _Moment, owner: Owner) -> Session | None:
        """Return a session, None if there is none; as it was read not long before, if it was."""
        at, session = self._read.get((self._database.opened, owner)) or (0.0, None)
        # An open moment does not see what somebody else may have read since.
        if self._here.depth and not moment.made and at > max(self._here.since, self._rewritten):
            return session
        try:
            session = Session.of(moment.connection(), owner)
        except SessionNotFoundError:
            return None
        return self._read.put((self._database.opened, owner), (moment.at, session))[1]

    def _what_is_known(self, moment: _Moment, session: Session, tip: Tip) -> Known:
        """Return what is remembered of what a tip sees; a branch that there is not may come."""
        key = self._key(session, tip)
        known = self._known.get(key)
        if known is None:
            branch = branch_of(moment.connection(), session.id, tip.branch)
            known = Known.of(tip, branch)
            if branch is not None:
                self._known.put(key, known)
        return known

    def _key(self, session: Session, tip: Tip) -> Any:
        """Return under what it is remembered what a tip sees.

        That a turn was committed never changes, nor does what it sees; another may come to be.
        """
        return self._edition(session), tip.branch, tip.turn, 0 if tip.digest else session.turns

    def _edition(self, session: Session) -> tuple[int, int, int]:
        """Return a value that changes when a record of the session is rewritten."""
        return (self._database.opened, session.id, session.rewritten)
