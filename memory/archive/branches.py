"""The branches that a search reads: that of a tip, and the newest of each other session of a user.

The others are read when something in them is found, since a user may have thousands of sessions.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from sqlalchemy import bindparam, func, select
from sqlalchemy.util import memoized_property

from ..turn import Session
from .index import any_of
from .load import CHANGES, TIP_PLACE, Past, Segment, SessionRow
from .schema import PASSAGE_BITS, TURN_BITS, changes, passages_of, runs, sessions, turns, users

Place: TypeAlias = tuple[int, str]
"""An effort: the number of its branch, and its id."""

Heading: TypeAlias = tuple[int, str, int]
"""A change that indexed an effort: its turn, its time and its id."""

_LAST_ID = 2**63 - 1

_NEWEST = (
    select(sessions, users.c.name.label("user"), *TIP_PLACE)
    .join(users, users.c.id == sessions.c.owner)
    .join(turns, turns.c.id == sessions.c.newest)
    .join(runs, runs.c.id == turns.c.run)
    .where(~sessions.c.hidden, any_of(sessions.c.id, "ids"))
)
_USER = (
    select(users.c.id, func.sum(sessions.c.turns).label("total"))
    .join(sessions, sessions.c.owner == users.c.id)
    .where(users.c.name == bindparam("name"))
    .group_by(users.c.id)
)
_HEADINGS = CHANGES.add_columns(changes.c.at)
_CHANGES = select(
    *(changes.c.id, changes.c.effort, changes.c.status, changes.c.run, changes.c.place)
).where(any_of(changes.c.run, "runs"), any_of(changes.c.effort, "names"))


class Branch:
    """The newest branch of another session of the user, and the `segments` that it sees."""

    def __init__(self, session: Session, row: Any, past: Past) -> None:
        """Take the session, the row of its newest turn, and a past of the same archive."""
        self.session, self._row, self._past = session, row, past
        own = Segment(row.run, row.id, row.place, row.turn)
        self.segments = [own] if row.ancestors == "[]" else self.past.segments

    def __eq__(self, other: object) -> bool:
        """Two searches find the same branch."""
        return isinstance(other, Branch) and self._row.id == other._row.id

    def __hash__(self) -> int:
        """Return the hash of its session."""
        return hash(self.session)

    @memoized_property
    def past(self) -> Past:
        """What the branch sees: a search seldom needs it."""
        return Past(self._past.connect, SessionRow.from_row(self._row)).at(self._row)


class Branches:
    """What a tip sees, as branch 0, and with a `session` the other sessions of its user.

    Those that a copied thread comes from are none: the tip sees what it has of them.

    Attributes:
        past: What the tip sees.
        session: The session whose user's others are searched, None for none.
        user: The number of the user.
        others: The first and the last ids of passages between the own sessions.
        total: The turns of all these sessions.
        read: The branches that were read, by their numbers.
    """

    def __init__(self, past: Past, session: Session | None = None) -> None:
        """Take what the tip sees; an anonymous `session` has no others."""
        self.past, self.session = past, session
        self.user, self.total = past.session.user, past.session.turns
        self.read: list[Branch | None] = [None]
        self.others: Sequence[tuple[int, int]] = ()
        self._looked_for = {*past.sessions}
        self._seen = {part.run: (0, part.last, past.until) for part in past.segments}
        self._concluded: dict[Place, int] = {}
        if session and not session.anonymous:
            for row in past.rows(_USER, name=session.user):
                self.user, self.total = row.id, row.total
                ends = sorted(map(passages_of, self._looked_for))
                firsts = [0, *(last + 1 for _, last in ends)]
                lasts = [*(first - 1 for first, _ in ends), _LAST_ID]
                gaps = zip(firsts, lasts, strict=True)
                self.others = [(first, last) for first, last in gaps if first < last]

    def visible(self, query: Any, **parameters: Any) -> list[tuple[int, Any]]:
        """Return the rows of a query that a branch sees, each with the branch's number.

        Its columns are `run`, `place` and `turn`. Only branches that were read count.
        """
        return self.seen(self.past.rows(query, runs=[*self._seen], **parameters))

    def seen(self, rows: Iterable[Any]) -> list[tuple[int, Any]]:
        """Return those of these rows that a branch sees, each with the branch's number."""
        found: list[tuple[int, Any]] = []
        for row in rows:
            branch, last, until = self._seen.get(row.run, (0, -1, 0))
            if row.place <= last and row.turn <= until:
                found.append((branch, row))
        return found

    def read_those_of(self, turn_ids: Iterable[int]) -> None:
        """Read the branches that these turns may be on."""
        new = {number >> TURN_BITS for number in turn_ids} - self._looked_for if self.others else ()
        if not new:
            return
        self._looked_for.update(new)
        for row in self.past.rows(_NEWEST, ids=[*new]):
            branch = Branch(Session(row.user, row.thread, row.namespace), row, self.past)
            for part in branch.segments:
                if part.session == row.id:
                    self._seen[part.run] = len(self.read), part.last, row.turn
            self.read.append(branch)

    def headings(self, ids: Sequence[int]) -> list[tuple[Place, Any]]:
        """Return the visible changes with these ids, each with its effort.

        Of another session only those that concluded an effort which is concluded still.
        """
        self.read_those_of(number >> PASSAGE_BITS for number in ids)
        rows = [((at, row.effort), row) for at, row in self.visible(_HEADINGS, ids=ids)]
        concluded = self.concluded(place for place, _ in rows)
        return [
            (place, row) for place, row in rows if not place[0] or concluded.get(place) == row.id
        ]

    def concluded(self, places: Iterable[Place]) -> dict[Place, int]:
        """Return which of these efforts of other sessions are concluded, each with its change.

        What all sessions need is read at once: there may be a hundred.
        """
        asked = {place for place in places if place[0]}
        if new := asked - self._concluded.keys():
            ends: dict[int, dict[int, int]] = defaultdict(dict)
            for at, branch in ((at, self.read[at]) for at, _ in new):
                for part in branch.segments if branch else ():
                    ends[part.run][at] = part.last
            newest: dict[Place, tuple[int, int, str]] = {}
            for row in self.past.rows(_CHANGES, runs=[*ends], names=[*{name for _, name in new}]):
                for at in (at for at, last in ends[row.run].items() if row.place <= last):
                    change = row.place, row.id, row.status
                    newest[at, row.effort] = max(change, newest.get((at, row.effort), change))
            for place in new:
                _, number, status = newest.get(place, (0, 0, ""))
                self._concluded[place] = number if status == "concluded" else 0
        return {place: number for place in asked if (number := self._concluded[place])}
