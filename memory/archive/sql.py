"""The archive in a database: SQLite in a folder, or PostgreSQL by its URL."""

import hmac
import json
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, insert, select, update

from ..attention.law import CAPACITY
from ..efforts import Effort
from ..embeddings import Embedder, QueryEmbedding
from ..erasing import Deleted, Erased
from ..errors import ArchiveError, SessionNotFoundError
from ..messages import broken, clean
from ..names import session_name
from ..record import Group, Owner, Record, Tip
from ..salience import Compression, ExtractionEntry, as_data, from_data
from ..settings import ATTENTION_THRESHOLD
from . import erasures
from .database import LOCK_TIMEOUT, POOL_SIZE, Database, upsert
from .elsewhere import OtherSessions
from .index import among
from .lineage import Lineage, Session
from .memories import SqlAttention
from .protocol import EffortList, Elsewhere, Finding, Found, Pointing, Saved
from .query import pointing
from .records import packed, plain, state_of, unzipped, zipped
from .schema import branches, compressions, extractions, sessions, turns, users
from .search import search
from .sessions import Sessions
from .vectors import Vectors
from .verify import verify as verified

_TIPS = select(turns.c.branch, turns.c.turn, turns.c.digest)


class SqlArchive:
    """An `Archive` in a database, for any number of threads, processes and machines."""

    def __init__(
        self,
        place: str | os.PathLike[str],
        *,
        durable: bool = True,
        lock_timeout: float = LOCK_TIMEOUT,
        pool_size: int = POOL_SIZE,
    ) -> None:
        """Take a folder, in which a SQLite file is made, or the URL of a database.

        `durable`: a committed turn survives a power cut (SQLite; PostgreSQL's own settings say it
        there). `lock_timeout`: how long to wait for another process that writes, and for a
        connection of the pool, in seconds. `pool_size`: connections to PostgreSQL at most.
        """
        self.database = Database(place, durable=durable, timeout=lock_timeout, pool_size=pool_size)
        self._sessions = Sessions(self.database)
        self._vectors = Vectors(self.database)

    def __enter__(self) -> Self:
        """Return the archive itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the archive."""
        self.close()

    def together(self, since: float = 0.0) -> AbstractContextManager[None]:
        """Let what one thread reads here be of one moment; see `Archive.together`."""
        return self._sessions.together(since)

    def close(self) -> None:
        """Close all connections; a later use opens them again, and reads anew."""
        self._sessions.forget()
        self.database.close()

    def attention(
        self, threshold: float = ATTENTION_THRESHOLD, capacity: int = CAPACITY
    ) -> SqlAttention:
        """Return the attention of the archive's users; see `Attention`."""
        return SqlAttention(self.database, threshold=threshold, capacity=capacity)

    def seal(self, said: str) -> str:
        """Return what only this archive can say of a text: 32 hexadecimal digits."""
        return hmac.digest(self.database.key(), said.encode(), "sha256").hex()[:32]

    def commit(
        self, owner: Owner, tip: Tip, group: Group, embedder: Embedder | None = None
    ) -> Record:
        """Store a group after `tip`, once, and return its record; see `Archive.commit`."""
        embedded = self._vectors.of_turn(owner, group, embedder)
        return self._sessions.commit(owner, tip, group, embedded.put)

    def holds(self, owner: Owner, tip: Tip) -> bool:
        """Tell whether the archive holds the very turn that a tip names."""
        return any(record.tip == tip for record in self.turns(owner, tip, [tip.turn]))

    def turns(self, owner: Owner, tip: Tip, numbers: Sequence[int]) -> tuple[Record, ...]:
        """Return the visible records with these turn numbers, ascending; missing ones left out."""
        return self._sessions.ask(owner, tip, lambda seen: seen.turns(numbers), ())

    def saved(self, owner: Owner, tip: Tip) -> Saved | None:
        """Return the state that was stored with the turn of a tip, None if there is none."""

        def read(seen: Lineage) -> Saved | None:
            row = seen.row(tip.turn, turns.c.branch, turns.c.turn, turns.c.digest, turns.c.state)
            if row is None or row.state is None:
                return None
            return Saved(Tip(row.branch, tip.turn, row.digest), state_of(row))

        return self._sessions.ask(owner, tip, read, None)

    def ended(self, owner: Owner, marks: Sequence[str]) -> tuple[tuple[str, Tip], ...]:
        """Return the turns that end with messages of these marks, newest first."""
        columns = (turns.c.last, turns.c.branch, turns.c.turn, turns.c.digest)

        def read(connection: Connection, session: Session) -> tuple[tuple[str, Tip], ...]:
            query = (
                select(*columns)
                .where(turns.c.session == session.id, among(turns.c.last, marks))
                .order_by(turns.c.id.desc())
            )
            rows = connection.execute(query)
            return tuple((row.last, Tip(row.branch, row.turn, row.digest)) for row in rows)

        return self._sessions.read(owner, read, ())

    def ambient(self, owner: Owner, tip: Tip, last: int) -> tuple[int, ...]:
        """Return the numbers of the `last` newest visible ambient turns, ascending."""
        return self._sessions.ask(owner, tip, lambda seen: seen.ambient(last), ())

    def ambient_count(self, owner: Owner, tip: Tip) -> int:
        """Count the visible ambient turns."""
        return self._sessions.ask(owner, tip, lambda seen: seen.counts()[0], 0)

    def effort(self, owner: Owner, tip: Tip, effort_id: str) -> Effort | None:
        """Return one visible effort, None if there is none of that id."""
        return next(iter(self.efforts_named(owner, tip, [effort_id])), None)

    def efforts_named(self, owner: Owner, tip: Tip, ids: Sequence[str]) -> tuple[Effort, ...]:
        """Return the visible efforts with these ids, in the order of the ids."""
        names = clean(list(ids)) if broken("".join(ids)) else ids
        return self._sessions.ask(owner, tip, lambda seen: seen.efforts_named(names), ())

    def effort_turns(self, owner: Owner, tip: Tip, effort_id: str) -> tuple[int, ...]:
        """Return the numbers of the visible turns of an effort, ascending."""
        name = clean(effort_id)
        return self._sessions.ask(owner, tip, lambda seen: seen.effort_turns(name), ())

    def efforts(self, owner: Owner, tip: Tip, newest: int) -> EffortList:
        """Return the `newest` visible efforts by their last status change, and the total."""
        return self._sessions.ask(owner, tip, lambda seen: seen.efforts(newest), EffortList((), 0))

    def search(
        self, owner: Owner, tip: Tip, query: str, limit: int, meaning: QueryEmbedding | None = None
    ) -> tuple[Found, ...]:
        """Return the visible efforts and ambient turns that match a query; see `Archive.search`."""
        best: dict[str | int, Found] = {}
        for hit in self._search(owner, tip, query, meaning):
            best.setdefault(hit.turn if hit.effort is None else hit.effort, hit)
        return tuple(best.values())[:limit]

    def search_passages(
        self, owner: Owner, tip: Tip, query: str, limit: int, meaning: QueryEmbedding | None = None
    ) -> tuple[Found, ...]:
        """Return the visible passages that match a query; see `Archive.search_passages`."""
        return self._search(owner, tip, query, meaning)[:limit]

    def _search(
        self, owner: Owner, tip: Tip, query: str, meaning: QueryEmbedding | None
    ) -> tuple[Found, ...]:
        def find(seen: Lineage, session: Session) -> tuple[Found, ...]:
            found = partial(search, seen, session, clean(query), meaning)
            # Vectors are added at any time, so that what they find is not kept.
            return found() if meaning else seen.once("search", (session.turns, query), found)

        return self._sessions.find(owner, tip, find, ())

    def pointing(self, owner: Owner, tip: Tip, message: str) -> Pointing:
        """Return who says the telling terms of a message; see `Archive.pointing`."""
        asked = partial(pointing, message=clean(message))
        return self._sessions.find(owner, tip, asked, Pointing({}, {}))

    def search_sessions(self, owner: Owner, query: str, limit: int) -> tuple[Elsewhere, ...]:
        """Return what matches in the user's other sessions; see `Archive.search_sessions`."""
        return self._elsewhere(owner, lambda others: others.search(clean(query))[:limit])

    def concluded_elsewhere(self, owner: Owner, newest: int) -> tuple[Elsewhere, ...]:
        """Return what the user concluded last in other sessions, newest first."""
        return self._elsewhere(owner, lambda others: others.concluded(newest))

    def session_named(self, user: str, name: str) -> Owner | None:
        """Return the user's session that other sessions know by this name."""
        rows = self._sessions.rows(user, sessions.c.name == name)
        return next((Owner(user, row.thread, row.namespace) for row in rows), None)

    def embed(self, owner: Owner, embedder: Embedder, limit: int) -> int:
        """Compute missing vectors, newest first; see `Archive.embed`."""
        return self._vectors.fill(owner, embedder, limit)

    def erase(self, owner: Owner, tip: Tip, turn: int) -> Erased:
        """Erase a visible turn for good; see `Archive.erase`."""
        with self._sessions.writing(owner) as scope:
            erased = erasures.erase(scope, tip, turn)
        self._sessions.forget()
        return replace(erased, left=self.database.sweep())

    def resummarised(self, owner: Owner, tip: Tip, effort: Effort) -> None:
        """Store the summary of a stale effort, written again; see `Archive.resummarised`."""
        with self._sessions.writing(owner) as scope:
            erasures.resummarised(scope, tip, effort)

    def reseed(self, owner: Owner, tip: Tip | None) -> None:
        """Note from which turn a thread goes on that has lost its checkpoints."""
        noted = None if tip is None else packed([tip.branch, tip.turn, tip.digest])
        with self._sessions.writing(owner) as scope:
            row = update(sessions).where(sessions.c.id == scope.session.id)
            scope.connection.execute(row.values(reseed=noted))

    def reseeding(self, owner: Owner) -> Tip | None:
        """Return the turn that was noted so, None if none is."""
        rows = self._sessions.rows(owner.user, sessions.c.name == session_name(owner))
        return next((Tip(*json.loads(row.reseed)) for row in rows if row.reseed), None)

    def delete_session(self, owner: Owner) -> Deleted:
        """Delete all of a session; see `Archive.delete_session`."""
        try:
            with self._sessions.writing(owner) as scope:
                erasures.delete_session(scope)
        except SessionNotFoundError:
            return self._deleted(())
        return self._deleted((owner,))

    def delete_user(
        self, user: str, also: Callable[[Sequence[Owner]], None] | None = None
    ) -> Deleted:
        """Delete all sessions and memories of a user; see `Archive.delete_user`."""
        if not self.database.exists():
            return Deleted(())
        with self.database.writing() as connection:
            gone = erasures.delete_user(connection, user)
            if also is not None:
                also(gone)
        return self._deleted(gone)

    def commit_compression(self, owner: Owner, tip: Tip, made: Compression) -> Compression:
        """Store what stands for older turns, once; see `Archive.commit_compression`."""
        if made.turn != tip.turn:
            raise ArchiveError(
                f"a compression made after turn {made.turn} cannot be stored for turn {tip.turn}"
            )
        with self._sessions.writing(owner) as scope:
            key = {"session": scope.session.id, "effort": clean(made.effort)}
            key |= {"branch": tip.branch, "turn": tip.turn}
            row = upsert(scope.connection, compressions).values(
                **key, made=zipped(packed(plain(as_data(made))))
            )
            if scope.connection.execute(row.on_conflict_do_nothing()).rowcount:
                erasures.count_rewritten(scope)
            where = (compressions.c[name] == value for name, value in key.items())
            standing = select(compressions.c.made).where(*where)
            stored = scope.connection.execute(standing).scalar_one()
            return from_data(json.loads(unzipped(stored)))

    def compression(self, owner: Owner, tip: Tip, effort_id: str) -> Compression | None:
        """Return the newest visible compression of an effort, None if there is none."""
        name = clean(effort_id)
        return self._sessions.ask(owner, tip, lambda seen: seen.compression(name), None)

    def log_extraction(self, owner: Owner, entry: ExtractionEntry) -> None:
        """Append to the log of extractions; see `Archive.log_extraction`."""
        with self._sessions.writing(owner) as scope:
            fields = {name: getattr(entry, name) for name in entry.__slots__}
            row = {"session": scope.session.id, "entry": zipped(packed(plain({"v": 1, **fields})))}
            scope.connection.execute(insert(extractions).values(row))

    def newest(self, owner: Owner) -> Tip | None:
        """Return the tip of the branch that was committed to last, None for no session."""
        same = (sessions.c.id == turns.c.session) & (sessions.c.branch == turns.c.branch)
        query = _TIPS.join(sessions, same).order_by(turns.c.turn.desc()).limit(1)
        return next(iter(self._tips(owner, query)), None)

    def tips(self, owner: Owner) -> tuple[Tip, ...]:
        """Return the tip of every branch, in the order of their names."""
        same = (branches.c.session == turns.c.session) & (branches.c.branch == turns.c.branch)
        newest = _TIPS.join(branches, same & (branches.c.last == turns.c.turn))
        return self._tips(owner, newest.order_by(turns.c.branch))

    def sessions(self, user: str) -> tuple[Owner, ...]:
        """Return the sessions of a user, in the order of their names."""
        owners = (Owner(user, row.thread, row.namespace) for row in self._sessions.rows(user))
        return tuple(sorted(owners, key=lambda owner: (owner.thread, owner.namespace)))

    def users(self) -> tuple[str, ...]:
        """Return the users that have sessions, in order."""
        if not self.database.exists():
            return ()
        with self.database.reading() as connection:
            return tuple(sorted(connection.execute(select(users.c.name)).scalars()))

    def verify(self, owner: Owner) -> tuple[Finding, ...]:
        """Check a session from its stored messages; see `Archive.verify`."""
        if not self.database.exists():
            raise SessionNotFoundError(owner.thread)
        with self.database.reading() as connection:
            session = Session.of(connection, owner)  # as it is, not as known
            return verified(erasures.scope_of(connection, session, owner))

    def verify_file(self) -> tuple[Finding, ...]:
        """Check the file of the whole archive, which takes as long as it is large (SQLite)."""
        return tuple(Finding(self.database.name, what) for what in self.database.damage())

    def _deleted(self, gone: tuple[Owner, ...]) -> Deleted:
        """Forget sessions that were deleted, and leave nothing of them in the files."""
        self._sessions.forget()
        # Also if there were none: an earlier deletion may have been cut off before.
        return Deleted(gone, self.database.sweep() if self.database.exists() else ())

    def _elsewhere(
        self, owner: Owner, ask: Callable[[OtherSessions], list[Elsewhere]]
    ) -> tuple[Elsewhere, ...]:
        if owner.anonymous or not self.database.exists():
            return ()
        with self.database.reading() as connection:
            others = OtherSessions.of(connection, owner)
            return () if others is None else tuple(ask(others))

    def _tips(self, owner: Owner, query: Any) -> tuple[Tip, ...]:
        def read(connection: Connection, session: Session) -> tuple[Tip, ...]:
            rows = connection.execute(query.where(turns.c.session == session.id))
            return tuple(Tip(*row) for row in rows)

        return self._sessions.read(owner, read, ())


class DiskArchive(SqlArchive):
    """The embedded archive: a SQLite file in a folder, made when the first turn is committed."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        durable: bool = True,
        lock_timeout: float = LOCK_TIMEOUT,
    ) -> None:
        """Keep sessions in the folder `root`; see `SqlArchive`."""
        super().__init__(Path(root), durable=durable, lock_timeout=lock_timeout)
        self.root = Path(root).absolute()
