"""The sessions of an archive: their numbers, what their tips see, and writing to them.

Numbers of sessions and beginnings of branches never change, so that they are remembered.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, select

from ..errors import SessionNotFoundError
from ..qualified import session_name
from ..record import Owner, Tip
from .commit import Session
from .database import Database
from .erase import Scope, scope_of
from .lineage import Branch, Lineage, branch_of, lineage
from .schema import sessions, users

T = TypeVar("T")

_KNOWN = 10_000
"""Sessions and branches that are remembered."""


class Sessions:
    """The sessions of a database."""

    def __init__(self, database: Database) -> None:
        """Know none yet."""
        self._database = database
        self._lock = Lock()
        self._numbers: OrderedDict[tuple[int, Owner], Session] = OrderedDict()
        self._branches: OrderedDict[tuple[int, int, str], Branch] = OrderedDict()

    def ask(self, owner: Owner, tip: Tip, ask: Callable[[Lineage], T], nothing: T) -> T:
        """Ask what a tip sees; `nothing` is the answer of a session that does not exist."""
        return self.read(
            owner,
            lambda connection, session: ask(self.lineage(connection, session, tip)),
            nothing,
        )

    def read(self, owner: Owner, ask: Callable[[Connection, Session], T], nothing: T) -> T:
        """Ask a session; `nothing` is the answer of one that does not exist."""
        if not self._database.exists():
            return nothing
        with self._database.reading() as connection:
            try:
                session = self.session(connection, owner)
                found = ask(connection, session)
                if found == nothing:
                    # Another process may have deleted it, and one of its name may have begun.
                    self.forget(owner)
                    again = self.session(connection, owner)
                    found = found if again.id == session.id else ask(connection, again)
            except SessionNotFoundError:
                return nothing
            return found

    @contextmanager
    def writing(self, owner: Owner) -> Iterator[Scope]:
        """Write to a session that there is, others waiting; raises `SessionNotFoundError`."""
        if not self.exists(owner):
            raise SessionNotFoundError(owner.thread)
        with self._database.writing() as connection:
            session = self.session(connection, owner)
            locked = select(sessions.c.id).where(sessions.c.id == session.id).with_for_update()
            if connection.execute(locked).scalar() is None:
                self.forget(owner)  # somebody else deleted it, and may have begun it anew
                session = self.session(connection, owner)
            user = select(users.c.id).where(users.c.id == session.owner).with_for_update()
            connection.execute(user)  # as commits do: the session, then its user
            yield scope_of(connection, session, owner)

    def exists(self, owner: Owner) -> bool:
        """Tell whether there is such a session."""
        return self.read(owner, lambda _connection, _session: True, nothing=False)

    def session(self, connection: Connection, owner: Owner) -> Session:
        """Return a session's number; raises `SessionNotFoundError`."""
        known = self._numbers.get((self._database.opened, owner))
        if known is None:
            query = (
                select(sessions.c.id, sessions.c.owner, sessions.c.name, sessions.c.turns)
                .join(users, users.c.id == sessions.c.owner)
                .where(users.c.name == owner.user, sessions.c.name == session_name(owner))
            )
            row = connection.execute(query).first()
            if row is None:
                raise SessionNotFoundError(owner.thread)
            known = Session(*row)
            self.learn(owner, known)
        return known

    def learn(self, owner: Owner, session: Session) -> None:
        """Remember the number of a session that is committed."""
        self._remember(self._numbers, (self._database.opened, owner), session)

    def lineage(self, connection: Connection, session: Session, tip: Tip) -> Lineage:
        """Return what a tip of a session sees."""
        key = (self._database.opened, session.id, tip.branch)
        branch = self._branches.get(key)
        if branch is None:
            branch = branch_of(connection, session.id, tip.branch)
            if branch is not None:
                self._remember(self._branches, key, branch)
        return lineage(connection, session.id, tip, branch)

    def rows(self, user: str, *where: Any) -> list[Row[Any]]:
        """Return the rows of a user's sessions."""
        if not self._database.exists():
            return []
        with self._database.reading() as connection:
            query = select(sessions).join(users, users.c.id == sessions.c.owner)
            return list(connection.execute(query.where(users.c.name == user, *where)))

    def forget(self, owner: Owner) -> None:
        """Forget the number of a session that was deleted."""
        with self._lock:
            self._numbers.pop((self._database.opened, owner), None)

    def _remember(self, known: OrderedDict[Any, Any], key: Any, value: Any) -> None:
        with self._lock:
            known[key] = value
            if len(known) > _KNOWN:
                known.popitem(last=False)
