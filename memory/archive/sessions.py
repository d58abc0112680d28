"""The sessions of an archive: their numbers, what their tips see, and writing to them."""

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
from ..lately import Lately
from ..messages import text
from ..names import session_name
from ..record import Owner, Record, Tip
from .commit import SESSION, Session
from .database import Database
from .erasures import Scope, scope_of
from .lineage import LARGE, RECORDS, VECTORS, Branch, Known, Lineage, branch_of, lineage
from .schema import sessions, users

T = TypeVar("T")

_KNOWN = 10_000
"""Beginnings of branches that are remembered: they never change."""

_LINEAGES = 128
"""Lineages of which it is remembered what was asked: a few for each session that is talked to."""


@dataclass(slots=True)
class Moment:
    """What is read of one moment: over a connection, made when it is needed; sessions as they are.

    A session that was just committed to need not be read for what is known of it. What tips see is
    found out once.
    """

    database: Database
    held: ExitStack
    sessions: dict[Owner, Session | None] = field(default_factory=dict)
    seen: dict[tuple[Owner, Tip], Lineage] = field(default_factory=dict)
    made: Connection | None = None
    at: float = 0.0

    def connection(self) -> Connection:
        """Return the connection that sees it."""
        if self.made is None:
            self.at = monotonic()  # before anything is read: what is written meanwhile is newer
            self.made = self.held.enter_context(self.database.reading())
        return self.made


class _Here(local):
    """What a thread reads together: how deep in it is, and the moment, once something is read."""

    depth = 0
    since = 0.0
    moment: Moment | None = None


class Sessions:
    """The sessions of a database."""

    def __init__(self, database: Database) -> None:
        """Know none yet."""
        self._database = database
        self._here = _Here()
        self._rewritten = 0.0  # when anything was, or was deleted: what was read before is older
        self._read: Lately[tuple[float, Session]] = Lately(_LINEAGES)
        self._branches: Lately[Branch] = Lately(_KNOWN)
        self._asked_of: Lately[Known] = Lately(_LINEAGES)
        self._held: Lately[Record] = Lately(RECORDS)
        self._vectors: Lately[Matrix] = Lately(VECTORS, attrgetter("size"))

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
            moment.held.close()

    def forget(self) -> None:
        """Let go of what was read: some of it was erased."""
        self._rewritten = monotonic()
        self._read.clear()
        self._asked_of.clear()
        self._held.clear()
        self._vectors.clear()

    def known(self, session: Session, tip: Tip) -> Known:
        """Return what is remembered of what a tip sees.

        That a turn was committed never changes, nor does what it sees; another may come to be.
        """
        settled = 0 if tip.digest else session.turns
        key = (self._edition(session), tip.branch, tip.turn, settled)
        return self._asked_of.get(key) or self._asked_of.put(key, Known())

    def committed(
        self, owner: Owner, session: Session, tip: Tip, record: Record, at: float
    ) -> None:
        """Remember a record that follows `tip`, so that nothing has to be read after it.

        `session` is as it was before; `at` a time at which nobody else could write.
        """
        edition = self._edition(session)
        if sum(len(text(message)) for message in record.messages) < LARGE:
            self._held.put((edition, record.branch, record.turn), record)
        if (record.branch, record.turn) == (tip.branch, tip.turn + 1):
            known = self.known(session, tip).after(record)
            self._asked_of.put((edition, record.branch, record.turn, 0), known)
        after = replace(session, turns=session.turns + 1, branch=record.branch)
        self._read.put((self._database.opened, owner), (at, after))
        if self._here.depth:
            self._here.moment = Moment(self._database, ExitStack(), {owner: after})

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
        return self._asked(
            owner,
            lambda moment, session: ask(self._seen(moment, session, owner, tip), session),
            nothing,
        )

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
            session = self.session(connection, owner)
            locked = select(sessions.c.id).where(sessions.c.id == bindparam("id")).with_for_update()
            while connection.execute(locked, {"id": session.id}).scalar() is None:
                # Somebody else deleted it, and may have begun it anew.
                session = self.session(connection, owner)
            user = select(users.c.id).where(users.c.id == session.owner).with_for_update()
            connection.execute(user)  # as commits do: the session, then its user
            yield scope_of(connection, session, owner)
        self._rewritten = monotonic()

    def exists(self, owner: Owner) -> bool:
        """Tell whether there is such a session."""
        return self.read(owner, lambda _connection, _session: True, nothing=False)

    def session(self, connection: Connection, owner: Owner) -> Session:
        """Return a session's number; raises `SessionNotFoundError`."""
        row = connection.execute(SESSION, {"user": owner.user, "named": session_name(owner)})
        found = row.first()
        if found is None:
            raise SessionNotFoundError(owner.thread)
        return Session(*found)

    def rows(self, user: str, *where: Any) -> list[Row[Any]]:
        """Return the rows of a user's sessions."""
        if not self._database.exists():
            return []
        with self._database.reading() as connection:
            query = select(sessions).join(users, users.c.id == sessions.c.owner)
            return list(connection.execute(query.where(users.c.name == user, *where)))

    def _asked(self, owner: Owner, ask: Callable[[Moment, Session], T], nothing: T) -> T:
        if self._here.moment is None and not self._database.exists():
            return nothing
        try:
            return self._asked_once(owner, ask, nothing)
        except ArchiveUnavailableError as error:
            if not error.lost:
                raise
            return self._asked_once(owner, ask, nothing)  # reading changed nothing

    def _asked_once(self, owner: Owner, ask: Callable[[Moment, Session], T], nothing: T) -> T:
        with self._moment() as moment:
            session = self._known(moment, owner)
            try:
                return nothing if session is None else ask(moment, session)
            except ValueError as error:
                raise ArchiveFormatError(
                    f"session {owner.thread!r} is damaged ({error}): `ebbtide archive verify` says "
                    "where; restore the archive from a backup"
                ) from error

    @contextmanager
    def _moment(self) -> Iterator[Moment]:
        """Read at the moment of this thread; one of its own if it reads nothing together."""
        if not self._here.depth:
            with self._database.translating_errors(), ExitStack() as held:
                yield Moment(self._database, held)
            return
        try:
            with self._database.translating_errors():
                moment = self._here.moment or Moment(self._database, ExitStack())
                self._here.moment = moment
                yield moment
        except BaseException:
            self.leave()
            raise

    def _known(self, moment: Moment, owner: Owner) -> Session | None:
        if owner not in moment.sessions:
            # An open moment does not see what somebody else may have read since.
            lately = None if moment.made else self._lately(owner)
            moment.sessions[owner] = lately or self._found(moment, owner)
        return moment.sessions[owner]

    def _lately(self, owner: Owner) -> Session | None:
        """Return a session as it was read not long before this moment, None if it was not."""
        at, session = self._read.get((self._database.opened, owner)) or (0.0, None)
        return session if self._here.depth and at > max(self._here.since, self._rewritten) else None

    def _found(self, moment: Moment, owner: Owner) -> Session | None:
        try:
            session = self.session(moment.connection(), owner)
        except SessionNotFoundError:
            return None
        return self._read.put((self._database.opened, owner), (moment.at, session))[1]

    def _seen(self, moment: Moment, session: Session, owner: Owner, tip: Tip) -> Lineage:
        """Return what a tip of a session sees."""
        seen = moment.seen.get((owner, tip))
        if seen is None:
            branch = self._branch(moment, session, tip.branch)
            kept = {"known": self.known(session, tip), "held": self._held, "vectors": self._vectors}
            edition = self._edition(session)
            seen = lineage(moment.connection, session.id, tip, branch, **kept, edition=edition)
            moment.seen[owner, tip] = seen
        return seen

    def _branch(self, moment: Moment, session: Session, name: str) -> Branch | None:
        key = (self._database.opened, session.id, name)
        branch = self._branches.get(key) or branch_of(moment.connection(), session.id, name)
        return branch and self._branches.put(key, branch)

    def _edition(self, session: Session) -> tuple[int, int, int]:
        """Return a value that changes when a record of the session is rewritten."""
        return (self._database.opened, session.id, session.rewritten)
