"""Reading sessions in a database, at one moment, and the branches that tips see of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from threading import local
from time import monotonic
from typing import Any, TypeVar, TypeVarTuple

from cachetools import LRUCache
from sqlalchemy import Connection, bindparam, select

from ..compressions import Compression
from ..dates import When
from ..efforts import Effort
from ..errors import ArchiveFormatError, ArchiveUnavailableError, SessionNotFoundError
from ..locks import CACHES
from ..search.embeddings import QueryEmbedding
from ..serialised import clean
from ..turn import Session, StoredTurn, Tip
from .database import Database
from .index import any_of, look_up
from .lineage import KEPT_TURNS, Lineage, SessionRow, Snapshot, weight
from .protocol import Branch, EffortList, Found, Pointing, Saved
from .query import pointing
from .rows import state_of
from .schema import turns
from .search import first_distinct, search

_BETWEEN = select(turns.c.run, turns.c.place, turns.c.turn).where(
    any_of(turns.c.session, "sessions"),
    turns.c.status != "command",
    turns.c.at >= bindparam("since"),
    turns.c.at < bindparam("until"),
)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_SNAPSHOTS = 128
"""Snapshots, and sessions, that are cached: a few for each session that is talked to."""


@dataclass(slots=True)
class Moment:
    """What is read of one moment: sessions and lineages, over a connection opened when needed.

    A session that was just committed to is put here, so that it is not read again.
    """

    database: Database
    stack: ExitStack = field(default_factory=ExitStack)
    sessions: dict[Session, SessionRow | None] = field(default_factory=dict)
    lineages: dict[tuple[int, Tip], Lineage] = field(default_factory=dict)
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
    moment: Moment | None = None


class Reader:
    """Reads the sessions of a database for all threads, several questions of one moment."""

    def __init__(self, database: Database) -> None:
        """Take the database; the caches are empty."""
        self.rewritten = 0.0
        """When something was erased or rewritten: what was read before does not count."""
        self._database, self._thread = database, _ThreadState()
        self._sessions: LRUCache[Any, tuple[float, SessionRow]] = LRUCache(_SNAPSHOTS)
        self._snapshots: LRUCache[Any, Snapshot] = LRUCache(_SNAPSHOTS)
        self._kept: LRUCache[Any, StoredTurn] = LRUCache(KEPT_TURNS, weight)

    @contextmanager
    def together(self, since: float = 0.0) -> Iterator[None]:
        """Let this thread read one moment; see `Archive.together`."""
        if not self._thread.depth:
            self._thread.since = monotonic() - since
        self._thread.depth += 1
        try:
            yield
        finally:
            self._thread.depth -= 1
            if not self._thread.depth:
                self.end_moment()

    def ask(
        self,
        session: Session,
        tip: Tip,
        nothing: T,
        query: Callable[[Lineage, *Ts], T],
        *given: *Ts,
    ) -> T:
        """Return the answer of a query to what a tip sees, `nothing` if there is no session."""
        moment = self._thread.moment
        row = moment.sessions.get(session) if moment else None
        if moment and row:  # a turn asks some sixty questions: 0.8 ms less without the checks
            try:
                return query(self._lineage(moment, row, tip), *given)
            except Exception:  # noqa: BLE001 (asked again below, where errors are translated)
                self.end_moment()

        def read(moment: Moment, row: SessionRow) -> T:
            return query(self._lineage(moment, row, tip), *given)

        return self.session(session, nothing, read, tip)

    def session(
        self,
        session: Session,
        nothing: T,
        query: Callable[[Moment, SessionRow], T],
        tip: Tip | None = None,
    ) -> T:
        """Return the answer of a query to a session, or to that of the turn of a copied thread."""
        if self._thread.moment is None and not self._database.exists():
            return nothing
        return again_if_lost(lambda: self._read_once(session, query, nothing, tip))

    def known(self, session: SessionRow, tip: Tip) -> Snapshot | None:
        """Return the snapshot of a tip if it is cached."""
        with CACHES:
            return self._snapshots.get((self._edition(session), tip))

    def take(
        self, session: Session, row: SessionRow, turn: StoredTurn, snapshot: Snapshot, at: float
    ) -> None:
        """Cache what was just committed after all turns of a session, so that it is not read."""
        after = replace(row, turns=row.turns + 1, newest=snapshot.row)
        edition = self._edition(row)
        with CACHES:
            if turn.status != "command":
                self._kept[edition, snapshot.segments[0].run, turn.number] = turn
            self._snapshots[edition, turn.tip] = snapshot
            self._sessions[self._database.opened, session] = at, after
        if self._thread.depth:
            self._thread.moment = Moment(self._database, sessions={session: after})

    def end_moment(self) -> None:
        """End the thread's moment: a writer must see the present, over a single connection."""
        moment, self._thread.moment = self._thread.moment, None
        if moment is not None:
            moment.stack.close()

    def forget(self) -> None:
        """Empty the caches: something in them was erased, or the archive is closed."""
        self.rewritten = monotonic()
        with CACHES:
            for cache in (self._sessions, self._snapshots, self._kept):
                cache.clear()

    def _read_once(
        self,
        session: Session,
        query: Callable[[Moment, SessionRow], T],
        nothing: T,
        tip: Tip | None,
    ) -> T:
        with self.together():
            moment = self._thread.moment = self._thread.moment or Moment(self._database)
            try:
                if session not in moment.sessions:
                    moment.sessions[session] = self._session(moment, session)
                row = moment.sessions[session]
                if row is None and tip is not None and tip.id:  # a thread that was copied
                    row = SessionRow.with_turn(moment.connection(), session.user, tip)
                try:
                    return nothing if row is None else query(moment, row)
                except ValueError as error:
                    raise ArchiveFormatError(
                        f"session {session.thread!r} is damaged ({error}): `ebbtide archive "
                        "verify` says where; restore the archive from a backup"
                    ) from error
            except BaseException:
                self.end_moment()
                with self._database.using():  # what the error means
                    raise

    def _session(self, moment: Moment, session: Session) -> SessionRow | None:
        """Return a session, None if there is none; from the cache if it was read recently."""
        key = (self._database.opened, session)
        with CACHES:
            at, row = self._sessions.get(key) or (0.0, None)
        # An open connection may see an older moment than the one that the cache was filled at.
        if not moment.opened and at > max(self._thread.since, self.rewritten):
            return row
        try:
            row = SessionRow.of(moment.connection(), session)
        except SessionNotFoundError:
            return None
        with CACHES:
            self._sessions[self._database.opened, session] = moment.at, row
        return row

    def _lineage(self, moment: Moment, session: SessionRow, tip: Tip) -> Lineage:
        """Return the lineage of a tip in a moment."""
        if (lineage := moment.lineages.get((session.id, tip))) is None:
            snapshot, edition = self._snapshot(moment, session, tip), self._edition(session)
            lineage = Lineage(moment.connection, session, snapshot, self._kept, edition)
            moment.lineages[session.id, tip] = lineage
        return lineage

    def _snapshot(self, moment: Moment, session: SessionRow, tip: Tip) -> Snapshot:
        """Return the snapshot of a tip, one that sees nothing if the user has no such turn.

        It is cached: the past of a tip never changes.
        """
        snapshot = self.known(session, tip)
        if snapshot is None:
            snapshot = Snapshot.of(moment.connection(), session, tip)
            if snapshot is None:
                return Snapshot((), 0)
            with CACHES:
                self._snapshots[self._edition(session), tip] = snapshot
        return snapshot

    def _edition(self, session: SessionRow) -> tuple[int, int, int]:
        """Return a value that changes when a turn of the session is rewritten."""
        return (self._database.opened, session.id, session.rewritten)


def again_if_lost(read: Callable[[], T]) -> T:
    """Return what is read, from a new connection if the old one broke: nothing was written."""
    try:
        return read()
    except ArchiveUnavailableError as error:
        if not error.lost:
            raise
        return read()


class SqlBranch(Branch):
    """A branch in a database. It keeps nothing: each method asks the reader."""

    def __init__(self, reader: Reader, session: Session, tip: Tip) -> None:
        """Set what answers, and the tip."""
        self._ask = reader.ask
        self._place = session, tip

    def tip(self) -> Tip | None:
        def read(lineage: Lineage) -> Tip | None:
            segments = lineage.snapshot.segments
            return Tip(segments[0].turn, self._place[1].id) if segments else None

        return self._ask(*self._place, None, read)

    def saved(self) -> Saved | None:
        def read(lineage: Lineage) -> Saved | None:
            row = lineage.state()
            if row is None or row.state is None:
                return None
            return Saved(Tip(row.turn, row.hash), state_of(row))

        return self._ask(*self._place, None, read)

    def ids(self, numbers: Sequence[int]) -> Mapping[int, str]:
        return self._ask(*self._place, {}, Lineage.ids, numbers)

    def turns(self, numbers: Sequence[int], *, commands: bool = False) -> tuple[StoredTurn, ...]:
        read = Lineage.commits if commands else Lineage.turns
        return self._ask(*self._place, (), read, numbers)

    def turns_between(self, since: str, until: str) -> tuple[int, ...]:
        def find(lineage: Lineage) -> tuple[int, ...]:
            bounds = {"sessions": [*lineage.sessions], "since": since, "until": until}
            return tuple(sorted(row.turn for row in lineage.visible(_BETWEEN, **bounds)))

        return self._ask(*self._place, (), find)

    def efforts_named(self, ids: Sequence[str]) -> tuple[Effort, ...]:
        return self._ask(*self._place, (), Lineage.efforts_named, ids)

    def effort_names(self) -> frozenset[str] | None:
        nothing: frozenset[str] | None = frozenset()
        return self._ask(*self._place, nothing, Lineage.effort_names)

    def turns_of(self, effort_id: str | None, newest: int | None = None) -> tuple[int, ...]:
        if effort_id is None:
            return self._ask(*self._place, (), Lineage.ambient, newest or 0)
        return self._ask(*self._place, (), Lineage.effort_turns, effort_id)

    def efforts(self, newest: int) -> EffortList:
        return self._ask(*self._place, EffortList((), 0), Lineage.efforts, newest)

    def search(
        self,
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
            period = when.zone, when.since, when.until
            key = lineage.session.turns, query, when.today, period, when.language
            return lineage.cached("search", key, run)

        passages: tuple[Found, ...] = self._ask(*self._place, (), find)
        return tuple(first_distinct(passages, limit, lambda hit: (hit.turn, hit.passage)))

    def unsaid(self, terms: Sequence[str]) -> frozenset[str]:
        def find(lineage: Lineage) -> frozenset[str]:
            wanted = terms, 1
            user, ranges = lineage.session.user, lineage.ranges
            said, headed = look_up(lineage.connection, user, ranges, wanted, wanted)
            return frozenset(term for term in terms if not said[term] and not headed[term])

        found: frozenset[str] = self._ask(*self._place, frozenset(terms), find)
        return found

    def pointing(self, message: str) -> Pointing:
        def find(lineage: Lineage) -> Pointing:  # hints and references ask about the same message
            key = lineage.session.turns, message
            return lineage.cached("pointing", key, lambda: pointing(lineage, clean(message)))

        return self._ask(*self._place, Pointing({}, {}), find)

    def compression(self, effort_id: str) -> Compression | None:
        return self._ask(*self._place, None, Lineage.compression, effort_id)
