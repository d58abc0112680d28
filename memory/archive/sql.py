"""The archive in a database: SQLite in a folder, or PostgreSQL by its URL."""

import hmac
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, astuple, replace
from functools import partial
from pathlib import Path
from typing import Self

from sqlalchemy import URL, bindparam, select, text

from ..attachments import Texts
from ..attention.law import CAPACITY
from ..compressions import Compression, ExtractionEntry
from ..dates import When
from ..efforts import Effort
from ..embeddings import Embedder, QueryEmbedding
from ..erasing import Deleted, Erased
from ..errors import ArchiveError, ArchiveFormatError, SessionNotFoundError
from ..messages import broken, clean
from ..names import session_name
from ..record import Group, Owner, Record, Tip
from ..settings import ATTENTION_THRESHOLD
from .attachments import awaiting, put
from .attachments import read as stored_attachments
from .connections import LOCK_TIMEOUT, POOL_SIZE
from .database import Database, added
from .deletions import delete_session, delete_user
from .elsewhere import OtherSessions
from .erasures import scope_of
from .index import among, any_of, look_up
from .lineage import TIP, Lineage, Session
from .memories import SqlAttention
from .protocol import Archive, EffortList, Elsewhere, Finding, Found, Pointing, Saved
from .query import pointing
from .records import packed, state_of
from .schema import runs, sessions, turns, users
from .search import search
from .sessions import Sessions
from .vectors import Vectors
from .verify import verify as verified

_TIPS = select(*TIP)

_BETWEEN = select(turns.c.run, turns.c.place, turns.c.turn).where(
    any_of(turns.c.session, "sessions"),
    turns.c.status != "command",
    turns.c.at >= bindparam("since"),
    turns.c.at < bindparam("until"),
)

_USERS = (
    select(users.c.name)
    .join(turns, turns.c.owner == users.c.id)
    .where(turns.c.hash == bindparam("hash", type_=turns.c.hash.type))
)


class SqlArchive(Archive):
    """An archive in a database, for any number of threads, processes and machines."""

    def __init__(
        self,
        place: str | os.PathLike[str] | URL,
        *,
        durable: bool = True,
        lock_timeout: float = LOCK_TIMEOUT,
        pool_size: int = POOL_SIZE,
    ) -> None:
        """Take a folder, in which a SQLite file is created, or the URL of a database.

        `durable`: a committed turn survives a power cut (SQLite; PostgreSQL has its own setting).
        `lock_timeout`: seconds to wait for another writer, and for a connection of the pool.
        `pool_size`: the most connections to PostgreSQL.
        """
        self.database = Database(place, durable=durable, timeout=lock_timeout, pool_size=pool_size)
        self._sessions = Sessions(self.database)
        self._vectors = Vectors(self.database)

    def __enter__(self) -> Self:
        """Return the archive itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the archive."""
        self.close()

    def together(self, since: float = 0.0) -> AbstractContextManager[None]:
        return self._sessions.together(since)

    def close(self) -> None:
        """Close all connections and empty the caches; a later use opens connections again."""
        self._sessions.forget()
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

    def fence_key(self, owner: Owner) -> bytes:
        session = json.dumps(["fence", owner.user, owner.thread, owner.namespace])
        return hmac.digest(self.database.key(), session.encode("utf-8", "replace"), "sha256")

    def commit(
        self, owner: Owner, tip: Tip, group: Group, embedder: Embedder | None = None
    ) -> Record:
        embedded = self._vectors.of_turn(owner, group, embedder)
        return self._sessions.commit(owner, tip, group, embedded.put)

    def turns(self, owner: Owner, tip: Tip, numbers: Sequence[int]) -> tuple[Record, ...]:
        return self._sessions.ask(owner, tip, (), Lineage.turns, numbers)

    def commits(self, owner: Owner, tip: Tip, numbers: Sequence[int]) -> tuple[Record, ...]:
        return self._sessions.ask(owner, tip, (), Lineage.commits, numbers)

    def ids(self, owner: Owner, tip: Tip, numbers: Sequence[int]) -> Mapping[int, str]:
        return self._sessions.ask(owner, tip, {}, Lineage.ids, numbers)

    def saved(self, owner: Owner, tip: Tip) -> Saved | None:
        def read(lineage: Lineage) -> Saved | None:
            row = lineage.state()
            if row is None or row.state is None:
                return None
            return Saved(Tip(row.turn, row.hash), state_of(row))

        return self._sessions.ask(owner, tip, None, read)

    def tip(self, owner: Owner, tip: Tip) -> Tip | None:
        def read(lineage: Lineage) -> Tip | None:
            return Tip(lineage.segments[0].turn, tip.id) if lineage.segments else None

        return self._sessions.ask(owner, tip, None, read)

    def has_of_another(self, owner: Owner, tip: Tip) -> bool:
        if not tip.id or not self.database.exists():
            return False
        with self.database.reading() as connection:
            users_with = connection.execute(_USERS, {"hash": tip.id}).scalars().all()
        return bool({*users_with} - {owner.user})

    def ended(self, owner: Owner, marks: Sequence[str]) -> tuple[tuple[str, Tip], ...]:
        query = _TIPS.add_columns(turns.c.end).where(among(turns.c.end, marks))
        rows = self._sessions.turns(owner, query.order_by(turns.c.id.desc()))
        return tuple((end, Tip(*tip)) for *tip, end in rows)

    def turns_between(self, owner: Owner, tip: Tip, since: str, until: str) -> tuple[int, ...]:
        def find(lineage: Lineage) -> tuple[int, ...]:
            bounds = {"sessions": [*lineage.sessions], "since": since, "until": until}
            return tuple(sorted(row.turn for row in lineage.visible(_BETWEEN, **bounds)))

        return self._sessions.ask(owner, tip, (), find)

    def ambient(self, owner: Owner, tip: Tip, last: int) -> tuple[int, ...]:
        return self._sessions.ask(owner, tip, (), Lineage.ambient, last)

    def ambient_count(self, owner: Owner, tip: Tip) -> int:
        return self._sessions.ask(owner, tip, (0, 0), Lineage.counts)[0]

    def efforts_named(self, owner: Owner, tip: Tip, ids: Sequence[str]) -> tuple[Effort, ...]:
        names = clean(list(ids)) if broken("".join(ids)) else ids
        return self._sessions.ask(owner, tip, (), Lineage.efforts_named, names)

    def effort_turns(self, owner: Owner, tip: Tip, effort_id: str) -> tuple[int, ...]:
        return self._sessions.ask(owner, tip, (), Lineage.effort_turns, clean(effort_id))

    def efforts(self, owner: Owner, tip: Tip, newest: int) -> EffortList:
        none = EffortList((), 0)
        return self._sessions.ask(owner, tip, none, Lineage.efforts, newest)

    def search(
        self, owner: Owner, tip: Tip, query: str, limit: int, meaning: QueryEmbedding | None = None
    ) -> tuple[Found, ...]:
        best: dict[str | int, Found] = {}
        for hit in self.search_passages(owner, tip, query, sys.maxsize, meaning):
            if meaning or not hit.weak:
                best.setdefault(hit.turn if hit.effort is None else hit.effort, hit)
        return tuple(best.values())[:limit]

    def search_passages(  # noqa: PLR0913 (a query, and how it is read)
        self,
        owner: Owner,
        tip: Tip,
        query: str,
        limit: int,
        meaning: QueryEmbedding | None = None,
        *,
        when: When | None = None,
    ) -> tuple[Found, ...]:
        when = when or When()

        def find(lineage: Lineage) -> tuple[Found, ...]:
            run = partial(search, lineage, clean(query), meaning, when)
            # Not cached with a meaning: vectors are added at any time.
            if meaning:
                return run()
            key = lineage.session.turns, query, when.today, when.zone, when.since, when.until
            return lineage.cached("search", key, run)

        passages: tuple[Found, ...] = self._sessions.ask(owner, tip, (), find)
        return passages[:limit]

    def unsaid(self, owner: Owner, tip: Tip, terms: Sequence[str]) -> frozenset[str]:
        def find(lineage: Lineage) -> frozenset[str]:
            wanted = terms, 1
            user, ranges = lineage.session.owner, lineage.ranges
            said, headed = look_up(lineage.connection, user, ranges, wanted, wanted)
            return frozenset(term for term in terms if not said[term] and not headed[term])

        found: frozenset[str] = self._sessions.ask(owner, tip, frozenset(terms), find)
        return found

    def pointing(self, owner: Owner, tip: Tip, message: str) -> Pointing:
        return self._sessions.ask(owner, tip, Pointing({}, {}), pointing, clean(message))

    def search_sessions(self, owner: Owner, query: str, limit: int) -> tuple[Elsewhere, ...]:
        return self._elsewhere(owner, lambda elsewhere: elsewhere.search(clean(query)))[:limit]

    def concluded_elsewhere(self, owner: Owner, newest: int) -> tuple[Elsewhere, ...]:
        return self._elsewhere(owner, lambda elsewhere: elsewhere.concluded(newest))

    def session_named(self, user: str, name: str) -> Owner | None:
        rows = self._sessions.rows(user, sessions.c.name == name)
        return next((Owner(user, row.thread, row.namespace) for row in rows), None)

    def embed(self, owner: Owner, embedder: Embedder, limit: int) -> int:
        return self._vectors.fill(owner, embedder, limit)

    def erase(self, owner: Owner, tip: Tip, turn: int) -> Erased:
        with self._sessions.writing(owner, copies=True) as scope:
            erased = scope.erase(tip, turn)
        self._sessions.forget()
        self._vectors.look_again(owner)
        return replace(erased, left=self.database.sweep())

    def resummarised(self, owner: Owner, tip: Tip, effort: Effort) -> None:
        with self._sessions.writing(owner) as scope:
            scope.resummarise(tip, effort)
        self._vectors.look_again(owner)

    def reseed(self, owner: Owner, tip: Tip | None) -> None:
        with self._sessions.writing(owner) as scope:
            scope.note(reseed=None if tip is None else packed(astuple(tip)))

    def reseeding(self, owner: Owner) -> Tip | None:
        rows = self._sessions.rows(owner.user, sessions.c.name == session_name(owner))
        return next((Tip(*json.loads(row.reseed)) for row in rows if row.reseed), None)

    def attach(self, owner: Owner, texts: Texts) -> None:
        with self.database.writing() as connection:
            user = added(connection, users, {"name": owner.user})
            put(connection, user, awaiting(owner), texts)

    def attachments(self, owner: Owner, digests: Sequence[str]) -> Texts:
        if not digests or not self.database.exists():
            return {}
        with self.database.reading() as connection:
            return stored_attachments(connection, owner.user, digests)

    def delete_session(self, owner: Owner) -> Deleted:
        try:
            with self._sessions.writing(owner) as scope:
                keeping = delete_session(scope)
        except SessionNotFoundError:
            return self._deleted(())
        deleted = self._deleted((owner,))
        kept = (
            f"turns of thread {owner.thread!r}: thread {copy.thread!r} was copied from it and goes "
            "on from them; delete that one too"
            for copy in keeping
        )
        return replace(deleted, left=(*kept, *deleted.left))

    def delete_user(
        self, user: str, also: Callable[[Sequence[Owner]], None] | None = None
    ) -> Deleted:
        if not self.database.exists():
            return Deleted(())
        with self.database.writing() as connection:
            owners = delete_user(connection, user)
            if also is not None:
                also(owners)
        return self._deleted(owners)

    def commit_compression(self, owner: Owner, tip: Tip, made: Compression) -> Compression:
        if made.turn != tip.turn:
            raise ArchiveError(
                f"a compression made after turn {made.turn} cannot be stored for turn {tip.turn}: "
                f"pass the tip of turn {made.turn}"
            )
        with self._sessions.writing(owner) as scope:
            lineage = scope.lineage(tip)
            scope.add_compression(lineage.segments[0], made)
            # The stored one, which may be older than `made`: no later turn is seen from the tip.
            return lineage.compression(clean(made.effort)) or made

    def compression(self, owner: Owner, tip: Tip, effort_id: str) -> Compression | None:
        return self._sessions.ask(owner, tip, None, Lineage.compression, clean(effort_id))

    def log_extraction(self, owner: Owner, entry: ExtractionEntry) -> None:
        with self._sessions.writing(owner) as scope:
            scope.log({"v": 1, **asdict(entry)})

    def newest(self, owner: Owner) -> Tip | None:
        return self._sessions.newest(owner)

    def tips(self, owner: Owner) -> tuple[Tip, ...]:
        ends = _TIPS.join(runs, (runs.c.id == turns.c.run) & (runs.c.last == turns.c.place))
        rows = self._sessions.turns(owner, ends.order_by(turns.c.id))
        return tuple(Tip(*row) for row in rows)

    def sessions(self, user: str) -> tuple[Owner, ...]:
        rows = self._sessions.rows(user, ~sessions.c.hidden)
        owners = (Owner(user, row.thread, row.namespace) for row in rows)
        return tuple(sorted(owners, key=lambda owner: (owner.thread, owner.namespace)))

    def sessions_by_age(self, user: str) -> tuple[Owner, ...]:
        """Return the sessions of a user, that of a copied thread after those it comes from.

        Hidden ones are among them, which were deleted but for what copies go on from.
        """
        rows = sorted(self._sessions.rows(user), key=lambda row: row.id)
        return tuple(Owner(user, row.thread, row.namespace) for row in rows)

    def users(self) -> tuple[str, ...]:
        """Return the users that have sessions, sorted."""
        if not self.database.exists():
            return ()
        with self.database.reading() as connection:
            return tuple(sorted(connection.execute(select(users.c.name)).scalars()))

    def verify(self, owner: Owner) -> tuple[Finding, ...]:
        if not self.database.exists():
            raise SessionNotFoundError(owner.thread)
        with self.database.reading() as connection:
            session = Session.of(connection, owner)  # as stored, not as cached
            return verified(scope_of(connection, session, owner))

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

    def _deleted(self, owners: tuple[Owner, ...]) -> Deleted:
        """Empty the caches after sessions were deleted, and sweep the files."""
        self._sessions.forget()
        # Swept even if none was deleted: an earlier deletion may have failed before its sweep.
        return Deleted(owners, self.database.sweep() if self.database.exists() else ())

    def _elsewhere(
        self, owner: Owner, query: Callable[[OtherSessions], list[Elsewhere]]
    ) -> tuple[Elsewhere, ...]:
        """Return the answer of a query to the user's other sessions."""
        if owner.anonymous or not self.database.exists():
            return ()
        with self.database.reading() as connection:
            other_sessions = OtherSessions.of(connection, owner)
            return () if other_sessions is None else tuple(query(other_sessions))


class DiskArchive(SqlArchive):
    """The embedded archive: a SQLite file in a folder, created by the first commit."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        durable: bool = True,
        lock_timeout: float = LOCK_TIMEOUT,
    ) -> None:
        """Keep sessions in the folder `root`; see `SqlArchive`."""
        scheme, is_url, _ = os.fspath(root).partition("://")
        if is_url or not scheme:
            raise ArchiveError(
                f"DiskArchive takes a folder, got {scheme + is_url!r}: SqlArchive takes a URL"
            )
        super().__init__(Path(root), durable=durable, lock_timeout=lock_timeout)
        self.root = Path(root).absolute()
