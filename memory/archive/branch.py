"""The branch of a session in a database: what is read as seen from a tip."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar, TypeVarTuple

from sqlalchemy import bindparam, select

from ..compressions import Compression
from ..dates import When
from ..efforts import Effort
from ..messages import clean
from ..record import Owner, Record, Tip
from ..search.embeddings import QueryEmbedding
from .index import any_of, look_up
from .lineage import Lineage
from .protocol import Branch, EffortList, Found, Pointing, Saved
from .query import pointing
from .records import state_of
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


class Ask(Protocol):
    """Answers a query to the lineage of a tip, with `nothing` if there is no session."""

    def __call__(
        self, owner: Owner, tip: Tip, nothing: T, query: Callable[[Lineage, *Ts], T], *given: *Ts
    ) -> T:
        """Return the answer."""


class SqlBranch(Branch):
    """A branch in a database. It keeps nothing: each method asks the archive."""

    def __init__(self, ask: Ask, owner: Owner, tip: Tip) -> None:
        """Set what answers, and the tip."""
        self._ask = ask
        self._place = owner, tip

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

    def turns(self, numbers: Sequence[int], *, commands: bool = False) -> tuple[Record, ...]:
        read = Lineage.commits if commands else Lineage.turns
        return self._ask(*self._place, (), read, numbers)

    def turns_between(self, since: str, until: str) -> tuple[int, ...]:
        def find(lineage: Lineage) -> tuple[int, ...]:
            bounds = {"sessions": [*lineage.sessions], "since": since, "until": until}
            return tuple(sorted(row.turn for row in lineage.visible(_BETWEEN, **bounds)))

        return self._ask(*self._place, (), find)

    def ambient(self, last: int) -> tuple[int, ...]:
        return self._ask(*self._place, (), Lineage.ambient, last)

    def efforts_named(self, ids: Sequence[str]) -> tuple[Effort, ...]:
        return self._ask(*self._place, (), Lineage.efforts_named, ids)

    def effort_turns(self, effort_id: str) -> tuple[int, ...]:
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
            user, ranges = lineage.session.owner, lineage.ranges
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
