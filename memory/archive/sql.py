"""The archive in a database: SQLite in a folder, or PostgreSQL by its URL."""

import hmac
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, astuple, replace
from pathlib import Path
from typing import Any, Self

from cachetools import LRUCache
from sqlalchemy import URL, Connection, Select, bindparam, delete, select, text, update

from ..attachments import Texts
from ..attention.law import CAPACITY
from ..compressions import Compression, ExtractionEntry
from ..efforts import Effort
from ..erasing import DeletionReport, Erased
from ..errors import ArchiveError, ArchiveFormatError, SessionNotFoundError, UserDeletedError
from ..facts import Fact
from ..locks import CACHES
from ..names import session_name
from ..search.embeddings import Embedder
from ..serialised import clean
from ..settings import ATTENTION_THRESHOLD
from ..turn import Part, Session, StoredTurn, Tip, without_controls
from . import facts, parts
from .attachments import awaiting, compressed, put, settle
from .attachments import read as stored_attachments
from .commit import Prepared, commit, session_row
from .database import LOCK_TIMEOUT, POOL_SIZE, Database, added, again_if_lost, upsert
from .deletions import delete_rest, delete_session
from .erasures import Scope, compression_row, empty_lines, scope_of
from .index import among
from .load import SESSION_AND_CLAIM, TIP, Past, SessionRow
from .memories import SqlAttention, attend
from .protocol import Archive, Finding
from .rows import packed, plain, zipped_json
from .schema import runs, sessions, thread_owners, turns, users
from .vectors import Vectors
from .verify import verify as verified

_TIPS = select(*TIP)
_OWNER = select(thread_owners.c.user).where(
    thread_owners.c.thread == bindparam("thread", type_=thread_owners.c.thread.type)
)

_PASTS = 128
"""Pasts that are cached: a few for each session that is talked to."""

_NUMBER = (
    select(sessions.c.id)
    .join(users, users.c.id == sessions.c.owner)
    .where(users.c.name == bindparam("user"), sessions.c.name == bindparam("name"))
    .scalar_subquery()
)
_NEWEST = select(*TIP, turns.c.at).where(turns.c.id == bindparam("number"))


class SqlArchive(Archive):
    """An archive in PostgreSQL, for any number of machines, or in SQLite, for one machine.

    Any number of threads and processes may use it.
    """

    def __init__(
        self,
        place: str | os.PathLike[str] | URL,
        *,
        durable: bool = True,
        lock_timeout: float = LOCK_TIMEOUT,
        pool_size: int = POOL_SIZE,
        extensions: bool = True,
    ) -> None:
        """Set the place; the archive connects when it is first used.

        Args:
            place: The URL of a database, or a folder for a SQLite file.
            durable: Whether committed turns survive a power cut. SQLite only: PostgreSQL has a
                setting of its own.
            lock_timeout: Seconds to wait for another writer, or for a connection of the pool.
            pool_size: Maximum connections to PostgreSQL.
            extensions: Whether vectors are compared by sqlite-vec, or by pgvector in a PostgreSQL
                database that is new, where the extension is there; else numpy does it.
        """
        self.database = Database(
            place, durable=durable, timeout=lock_timeout, pool_size=pool_size, extensions=extensions
        )
        self._pasts: LRUCache[Any, Past] = LRUCache(_PASTS)
        self._vectors = Vectors(self.database)

    def __repr__(self) -> str:
        """Return where the data is: the file, or the URL without its password."""
        return f"{type(self).__name__}({self.database.name!r})"

    def __enter__(self) -> Self:
        """Return the archive itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the archive."""
        self.close()

    def close(self) -> None:
        """Close all connections and empty the cache. Using the archive again reconnects."""
        self._forget()
        self.database.close()

    def attention(
        self, threshold: float = ATTENTION_THRESHOLD, capacity: int = CAPACITY
    ) -> SqlAttention:
        return SqlAttention(self.database, threshold=threshold, capacity=capacity)

    @property
    def id(self) -> str:
        """The id that the database was given when its tables were made."""
        return self.database.id()

    def keyed_digest(self, content: str) -> str:
        return hmac.digest(self.database.key(), content.encode(), "sha256").hex()[:32]

    def commit(
        self, session: Session, tip: Tip, turn: StoredTurn, embedder: Embedder | None = None
    ) -> StoredTurn:
        embedded = self._vectors.of_turn(session, turn, embedder)
        new = Prepared.after(tip, turn, self.parts(session, turn.part))
        reading = self.database.reading
        said = again_if_lost(lambda: facts.said_of(reading, session, new.turn, turn.state))
        beside: tuple[Tip, str] | None = None
        with self.database.writing() as connection:
            stored = session_row(connection, session)
            with CACHES:
                known = self._pasts.get((self._edition(stored), stored.id, tip.id))
            if known is not None:
                known = replace(known, connect=lambda: nullcontext(connection), session=stored)
            done = commit(connection, stored, tip, new, known)
            if new.refers:
                settle(connection, stored.user, session, done.past.row)
            if done.before is not None:
                if done.moved:
                    row = connection.execute(_NEWEST, {"number": stored.newest}).first()
                    beside = (Tip(row.turn, row.hash), row.at) if row else None
                if not session.anonymous:  # what nobody can be told by has no memories
                    attend(connection, session, done.past, done.turn, moved=done.moved)
                    facts.remember(connection, session, done, said, turn.state)
                if embedder is not None:
                    embedded.put(connection, stored.user, done.past.row)
        # All that was written is cached, so that nothing has to be read after it.
        stored_turn, edition = replace(done.turn, beside=beside), self._edition(stored)
        if done.before is None:
            return stored_turn
        with CACHES:
            self._pasts.pop((edition, stored.id, tip.id), None)  # it is seldom gone back to
            self._pasts[edition, stored.id, stored_turn.id] = replace(
                done.past, connect=self.database.reading
            )
        return stored_turn

    def facts(self, user: str, ids: Collection[str] = ()) -> Mapping[str, Fact]:
        without_controls("user_id", user)
        if not self.database.exists():
            return {}
        with self.database.reading() as connection:
            return facts.of_user(connection, user, ids)

    def load(self, session: Session, tip: Tip | None = None) -> Past:
        if not self.database.exists():
            return Past(self.database.reading, SessionRow(thread=session.thread))
        return again_if_lost(lambda: self._load(session, tip))

    def _load(self, session: Session, tip: Tip | None) -> Past:
        mine = self._owner_row(session)
        key = {"user": session.user, "name": session_name(session), "thread": mine["thread"]}
        with self.database.reading() as connection:
            row = connection.execute(SESSION_AND_CLAIM, key).first()
            owner = row.claimed if row else connection.execute(_OWNER, mine).scalar()
            stored = SessionRow.from_row(row) if row else None
            if tip is None:
                newest = {"number": stored.newest if stored else 0}
                row = connection.execute(_NEWEST, newest).first()
                tip = Tip(row.turn, row.hash) if row else Tip()
            if stored is None and tip.id:  # of a thread that was copied: the session of the turn
                stored = SessionRow.with_turn(connection, session.user, tip)
            stored = stored or SessionRow(thread=session.thread)
            edition = self._edition(stored)
            with CACHES:
                past = self._pasts.get((edition, stored.id, tip.id))
            past = past or Past.of(connection, stored, tip)
        past = replace(
            past or Past(self.database.reading, stored),
            connect=self.database.reading,
            session=stored,
            owner="nobody" if owner is None else "own" if owner == mine["user"] else "other",
        )
        with CACHES:
            # An erasure in another session is not counted in the row of this one.
            if past.segments and past.segments[0].session == stored.id:
                self._pasts[edition, stored.id, tip.id] = past
        return past.as_of(tip.turn)

    def _edition(self, session: SessionRow) -> tuple[int, int]:
        return self.database.opened, session.rewritten

    def _forget(self) -> None:
        """Empty the cache: something in it was erased, or the archive is closed."""
        with CACHES:
            self._pasts.clear()

    def claim(self, session: Session) -> bool:
        row = self._owner_row(session)
        with self.database.writing() as connection:
            going = select(users.c.going).where(users.c.name == session.user)
            if connection.execute(going).scalar():
                raise UserDeletedError(session.user)
            insert = upsert(connection, thread_owners).values(row)
            connection.execute(insert.on_conflict_do_nothing())
            return bool(connection.execute(_OWNER, row).scalar_one() == row["user"])

    def _owner_row(self, session: Session) -> dict[str, str]:
        thread, user = json.dumps([session.thread]), json.dumps([session.thread, session.user])
        return {"thread": self.keyed_digest(thread), "user": self.keyed_digest(user)}

    def _disown(self, connection: Connection, session: Session) -> None:
        """Make a thread nobody's after its user's last session in it is gone."""
        row, of_user = self._owner_row(session), users.c.name == session.user
        rest = select(sessions.c.id).join(users, users.c.id == sessions.c.owner)
        if connection.execute(rest.where(of_user, sessions.c.thread == session.thread)).first():
            return
        columns = thread_owners.c
        mine = columns.thread == row["thread"], columns.user == row["user"]
        connection.execute(delete(thread_owners).where(*mine))

    def ended(self, session: Session, marks: Sequence[str]) -> tuple[tuple[str, Tip], ...]:
        query = _TIPS.add_columns(turns.c.end).where(among(turns.c.end, marks))
        own = query.where(turns.c.session == _NUMBER)
        name = session_name(session)
        rows = self._rows(own.order_by(turns.c.id.desc()), user=session.user, name=name)
        return tuple((end, Tip(*tip)) for *tip, end in rows)

    def embed(self, session: Session, embedder: Embedder, limit: int) -> int:
        return self._vectors.fill(session, embedder, limit)

    def erase(self, session: Session, tip: Tip, turn: int) -> Erased:
        with self._writing(session, copies=True) as scope:
            erased = scope.erase(tip, turn)
        self._forget()
        for one in (session, *erased.elsewhere):
            self._vectors.look_again(one)
        return replace(erased, left=(*erased.left, *self.database.sweep()))

    def resummarised(self, session: Session, tip: Tip, effort: Effort) -> None:
        with self._writing(session, copies=True) as scope:
            scope.resummarise(tip, effort)
        self._vectors.look_again(session)

    def reseed(self, session: Session, tip: Tip | None) -> None:
        with self._writing(session) as scope:
            scope.note(reseed=None if tip is None else packed(astuple(tip)))

    def attach(self, session: Session, texts: Texts) -> None:
        files = compressed(texts)
        with self.database.writing() as connection:
            user = added(connection, users, {"name": session.user})
            put(connection, user, awaiting(session), files)

    def attachments(self, session: Session, digests: Sequence[str]) -> Texts:
        if not digests or not self.database.exists():
            return {}
        with self.database.reading() as connection:
            return stored_attachments(connection, session.user, digests)

    def add_part(self, session: Session, part: Part) -> str:
        row, files = parts.prepared(session, part)
        with self.database.writing() as connection:
            parts.put(connection, added(connection, users, {"name": session.user}), row, files)
        return str(row["id"])

    def parts(self, session: Session, last: str) -> tuple[Part, ...]:
        if not last or not self.database.exists():
            return ()
        with self.database.reading() as connection:
            return parts.read(connection, session.user, last)

    def delete_session(self, session: Session) -> DeletionReport:
        try:
            with self._writing(session, copies=True) as scope:
                alone = scope_of(scope.connection, scope.row, session)
                keeping, lost = delete_session(alone)
                emptied, repeated = empty_lines(alone, lost)
                self._disown(scope.connection, session)
        except SessionNotFoundError:
            return self._deleted(())
        for one in emptied:
            self._vectors.look_again(one)
        deleted = replace(self._deleted((session,)), elsewhere=tuple(emptied))
        kept = (
            f"turns of thread {session.thread!r}: thread {copy.thread!r} was copied from it and "
            "goes on from them; delete that one too"
            for copy in keeping
        )
        return replace(deleted, not_erased=(*kept, *repeated, *deleted.not_erased))

    def delete_user(
        self, user: str, also: Callable[[Sequence[Session]], None] | None = None
    ) -> DeletionReport:
        without_controls("user_id", user)
        if not self.database.exists():
            return DeletionReport(())
        with self.database.writing() as connection:
            connection.execute(update(users).where(users.c.name == user).values(going=True))
        threads = dict[str, list[Session]]()
        for session in reversed(self.sessions_by_age(user)):  # copies first
            threads.setdefault(session.thread, []).append(session)
        shown = self.sessions(user)
        for own in threads.values():
            if also is not None and not {*shown}.isdisjoint(own):
                also(own)
            for session in own:
                # One that only its copies needed is gone with the last of them.
                with suppress(SessionNotFoundError), self._writing(session) as scope:
                    delete_session(scope)
                    self._disown(scope.connection, session)
        with self.database.writing() as connection:
            delete_rest(connection, user)
        return self._deleted(shown)

    def commit_compression(
        self, session: Session, entry: ExtractionEntry, made: Compression | None
    ) -> Compression | None:
        if made is not None and made.turn != entry.turn:
            raise ArchiveError(
                f"a compression made after turn {made.turn} cannot be stored for turn "
                f"{entry.turn}: pass the entry of turn {made.turn}"
            )
        row = None if made is None else compression_row(made)
        data = zipped_json(plain({"v": 1, **asdict(entry)}))
        with self._writing(session) as scope:
            scope.log(data)
            if made is None or row is None:
                return None
            past = scope.past(Tip(entry.turn, entry.id))
            scope.add_compression(past.segments[0], row)
            # The stored one, which may be older than `made`: no later turn is seen from the tip.
            return past.compression(clean(made.effort)) or made

    def tips(self, session: Session) -> tuple[Tip, ...]:
        ends = _TIPS.join(runs, (runs.c.id == turns.c.run) & (runs.c.last == turns.c.place))
        own = ends.where(turns.c.session == _NUMBER)
        name = session_name(session)
        rows = self._rows(own.order_by(turns.c.id), user=session.user, name=name)
        return tuple(Tip(*row) for row in rows)

    def sessions(self, user: str, name: str | None = None) -> tuple[Session, ...]:
        named = () if name is None else (sessions.c.name == name,)
        shown = self.sessions_by_age(user, ~sessions.c.hidden, *named)
        return tuple(sorted(shown, key=lambda session: (session.thread, session.namespace)))

    def sessions_by_age(self, user: str, *conditions: Any) -> tuple[Session, ...]:
        """Return the sessions of a user that meet conditions, a copied thread after its original.

        Deleted sessions are included as long as copies need turns of them.
        """
        own = users.c.name == without_controls("user_id", user)
        query = select(sessions).join(users, users.c.id == sessions.c.owner)
        rows = self._rows(query.where(own, *conditions).order_by(sessions.c.id))
        return tuple(Session(user, row.thread, row.namespace) for row in rows)

    def users(self) -> tuple[str, ...]:
        """Return the users that have sessions, sorted."""
        return tuple(sorted(row.name for row in self._rows(select(users.c.name))))

    def verify(self, session: Session) -> tuple[Finding, ...]:
        if not self.database.exists():
            raise SessionNotFoundError(session.thread)
        with self.database.reading() as connection:
            row = SessionRow.of(connection, session)  # as stored, not as cached
            return verified(scope_of(connection, row, session))

    def verify_file(self) -> tuple[Finding, ...]:
        """Return what SQLite finds wrong with the whole file; nothing for PostgreSQL."""
        if not self.database.sqlite or not self.database.exists():
            return ()
        try:
            with self.database.reading() as connection:
                results = connection.execute(text("PRAGMA integrity_check")).scalars()
                return tuple(Finding(self.database.name, line) for line in results if line != "ok")
        except ArchiveFormatError as error:
            return (Finding(self.database.name, str(error)),)

    def _deleted(self, sessions: tuple[Session, ...]) -> DeletionReport:
        """Empty the caches after sessions were deleted, and sweep the files."""
        self._forget()
        # Swept even if none was deleted: an earlier deletion may have failed before its sweep.
        return DeletionReport(sessions, self.database.sweep() if self.database.exists() else ())

    def _rows(self, query: Select[Any], **key: Any) -> Sequence[Any]:
        """Return the rows of a query, none if there is no database."""
        if not self.database.exists():
            return ()

        def read() -> Sequence[Any]:
            with self.database.reading() as connection:
                return connection.execute(query, key).all()

        return again_if_lost(read)

    @contextmanager
    def _writing(self, session: Session, *, copies: bool = False) -> Iterator[Scope]:
        """Write to an existing session, locked; raises `SessionNotFoundError`.

        With `copies` also to those of threads that share turns with it.
        """
        if not self.database.exists():
            raise SessionNotFoundError(session.thread)
        with self.database.writing() as connection:
            row = SessionRow.of(connection, session, lock=not copies)
            if copies:  # of two erasures neither has a session that the other waits for
                own = select(sessions.c.id).where(sessions.c.owner == row.user)
                connection.execute(own.order_by(sessions.c.id).with_for_update()).all()
                row = SessionRow.of(connection, session)
            user = select(users.c.id).where(users.c.id == row.user).with_for_update()
            connection.execute(user)  # after the session, as commits lock them: no deadlock
            yield scope_of(connection, row, session, copies=copies)


class DiskArchive(SqlArchive):
    """An archive in a SQLite file in a folder. The first commit creates both."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        durable: bool = True,
        lock_timeout: float = LOCK_TIMEOUT,
    ) -> None:
        """Set the folder. The other arguments are those of `SqlArchive`."""
        if not isinstance(root, str | os.PathLike):
            raise ArchiveError(f"DiskArchive takes a folder, got {root!r}: pass its path")
        scheme, is_url, _ = os.fspath(root).partition("://")
        if is_url or not scheme:
            raise ArchiveError(
                f"DiskArchive takes a folder, got {scheme + is_url!r}: use SqlArchive for a URL"
            )
        super().__init__(Path(root), durable=durable, lock_timeout=lock_timeout)
        self.root = Path(root).absolute()

    def __repr__(self) -> str:
        """Return the folder of the data."""
        return f"{type(self).__name__}({str(self.root)!r})"
