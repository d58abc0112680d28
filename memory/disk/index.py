"""Questions to the index, as seen from a tip, at a cost that does not grow with the session."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any, TypeAlias

from ..archive.protocol import EffortList
from ..efforts import Effort
from ..lineage import Segment, lineage
from ..manifest import Entry, entry_of, fields
from ..placement import Slot
from ..record import Tip
from .damage import IndexDamagedError, checked

_Kinds: TypeAlias = tuple[type | UnionType, ...]
_PLACE = (str, int, str, str, int, int)
_NAMES = tuple(fields(Entry(Effort("", "open", stale=True), "", "")))

_ORIGINS = """
WITH RECURSIVE chain(branch, origin, upto) AS (
    SELECT branch, origin, upto FROM branches WHERE branch = ?
    UNION
    SELECT b.branch, b.origin, b.upto FROM branches b JOIN chain c ON b.branch = c.origin)
SELECT branch, origin, coalesce(upto, 0) FROM chain"""

_EDITED = """
SELECT coalesce(e.entry, c.entry) FROM changes c LEFT JOIN edits e
    ON e.effort = c.effort AND e.branch = c.branch AND e.turn = c.turn AND e.status = c.status
"""
_NEWEST_CHANGE = (
    _EDITED
    + "WHERE c.effort = ? AND c.branch = ? AND c.turn <= ? ORDER BY c.turn DESC, c.seq DESC LIMIT 1"
)
_NEWEST_CHANGES = (
    "SELECT effort FROM changes WHERE branch = ? AND turn <= ? ORDER BY turn DESC, seq DESC"
)

_KNOWN = "SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM changes WHERE effort = value)"
"""Thousands of runs of words may be asked for of which hardly one is an id."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the record of a turn stands."""

    branch: str
    turn: int
    digest: str
    file: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Where a compression stands in its log, and after which turn of which branch it was made."""

    branch: str
    turn: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Index:
    """The index of one session."""

    connection: sqlite3.Connection

    def lineage(self, tip: Tip) -> tuple[Segment, ...]:
        """Return what `tip` sees, newest branch first."""
        rows = self._all((str, str | None, int), _ORIGINS, tip.branch)
        origins = {row[0]: None if row[1] is None else (row[1], row[2]) for row in rows}
        return lineage(tip, origins)

    def places(self, tip: Tip, numbers: Sequence[int]) -> tuple[Place, ...]:
        """Return where the visible records of these turns stand, ascending."""
        query = (
            "SELECT branch, turn, digest, file, offset, length FROM records WHERE branch = ?"
            " AND turn IN (SELECT value FROM json_each(?)) ORDER BY turn"
        )
        segments = self.lineage(tip)
        floors = (*(segment.upto for segment in segments[1:]), 0)
        found: list[Place] = []
        for segment, floor in reversed(tuple(zip(segments, floors, strict=True))):
            wanted = [number for number in numbers if floor < number <= segment.upto]
            if wanted:
                rows = self._all(_PLACE, query, segment.branch, json.dumps(wanted))
                found += [Place(*row) for row in rows]
        return tuple(found)

    def ambient(self, tip: Tip, last: int) -> tuple[int, ...]:
        """Return the newest visible ambient turns, up to `last`, ascending."""
        query = "SELECT turn FROM ambient WHERE branch=? AND turn<=? ORDER BY turn DESC LIMIT ?"
        found: list[int] = []
        for segment in self.lineage(tip):
            if len(found) >= last:
                break
            rows = self._all((int,), query, *_of(segment), last - len(found))
            found += [row[0] for row in rows]
        return tuple(reversed(found))

    def counts(self, tip: Tip) -> tuple[int, int]:
        """Count the visible ambient turns and efforts."""
        query = (
            "SELECT ambient, efforts FROM records"
            " WHERE branch = ? AND turn <= ? ORDER BY turn DESC LIMIT 1"
        )
        for segment in self.lineage(tip):
            row = self._one((int, int), query, *_of(segment))
            if row is not None:
                return row[0], row[1]
        return 0, 0

    def effort(self, tip: Tip, effort_id: str) -> Effort | None:
        """Return a visible effort as its newest change, or an edit by hand, left it."""
        return self._effort(self.lineage(tip), effort_id)

    def change(self, tip: Tip, effort_id: str) -> Entry | None:
        """Return the newest visible change of an effort, as it is or was edited by hand."""
        return self._change(self.lineage(tip), effort_id)

    def efforts_named(self, tip: Tip, ids: Sequence[str]) -> tuple[Effort, ...]:
        """Return the visible efforts among these, in their order."""
        rows = self._all((str,), _KNOWN, json.dumps(ids))
        known = {row[0] for row in rows}
        segments = self.lineage(tip)
        found = (self._effort(segments, effort_id) for effort_id in ids if effort_id in known)
        return tuple(effort for effort in found if effort is not None)

    def effort_turns(self, tip: Tip, effort_id: str) -> tuple[int, ...]:
        """Return the visible turns of an effort, ascending."""
        query = "SELECT turn FROM members WHERE effort=? AND branch=? AND turn<=? ORDER BY turn"
        return tuple(
            row[0]
            for segment in reversed(self.lineage(tip))
            for row in self._all((int,), query, effort_id, *_of(segment))
        )

    def efforts(self, tip: Tip, newest: int) -> EffortList:
        """Return the visible efforts that changed last, and how many there are."""
        segments = self.lineage(tip)
        _, total = self.counts(tip)
        names: dict[str, None] = {}
        for name in self._changed(segments):
            if len(names) >= min(newest, total):
                break
            names[name] = None
        found = (self._effort(segments, name) for name in names)
        return EffortList(tuple(effort for effort in found if effort is not None), total)

    def compression(self, tip: Tip, effort_id: str) -> Stretch | None:
        """Return where the newest visible compression of an effort stands, None if nowhere."""
        query = (
            "SELECT branch, turn, offset, length FROM compressions"
            " WHERE effort = ? AND branch = ? AND turn <= ? ORDER BY turn DESC LIMIT 1"
        )
        for segment in self.lineage(tip):
            row = self._one((str, int, int, int), query, effort_id, *_of(segment))
            if row is not None:
                return Stretch(*row)
        return None

    def newest(self) -> Tip | None:
        """Return the tip of the branch with the newest record."""
        query = "SELECT branch FROM branches ORDER BY at DESC, last DESC, branch DESC LIMIT 1"
        row = self._one((str,), query)
        return None if row is None else self._tip(row[0])

    def tips(self) -> tuple[Tip, ...]:
        """Return the tip of every branch, by name."""
        rows = self._all((str,), "SELECT branch FROM branches ORDER BY branch")
        return tuple(self._tip(row[0]) for row in rows)

    def slot(self, branch: str, turn: int) -> Slot | None:
        """Return what decides about a retry, None if the place is free."""
        query = (
            "SELECT r.digest, r.parent, CASE WHEN b.first = r.turn THEN b.origin END,"
            " coalesce(b.upto, 0)"
            " FROM records r JOIN branches b ON b.branch = r.branch WHERE r.branch=? AND r.turn=?"
        )
        row = self._one((str, str, str | None, int), query, branch, turn)
        if row is None:
            return None
        return Slot(row[0], row[1], None if row[2] is None else (row[2], row[3]))

    def head(self, branch: str, below: int | None = None) -> int:
        """Return the newest turn of a branch, or the newest before `below`; 0 if none."""
        if below is None:
            query = "SELECT max(turn) FROM records WHERE branch = ?"
            row = self._one((int | None,), query, branch)
        else:
            query = "SELECT max(turn) FROM records WHERE branch = ? AND turn < ?"
            row = self._one((int | None,), query, branch, below)
        return int(row[0] or 0) if row else 0

    def _tip(self, branch: str) -> Tip:
        query = "SELECT turn, digest FROM records WHERE branch = ? ORDER BY turn DESC LIMIT 1"
        row = self._one((int, str), query, branch)
        if row is None:
            raise IndexDamagedError(f"branch {branch!r} has no turn")
        return Tip(branch, *row)

    def _effort(self, segments: Sequence[Segment], effort_id: str) -> Effort | None:
        change = self._change(segments, effort_id)
        return None if change is None else change.effort

    def _change(self, segments: Sequence[Segment], effort_id: str) -> Entry | None:
        for segment in segments:
            row = self._one((str,), _NEWEST_CHANGE, effort_id, *_of(segment))
            if row is not None:
                return entry(row[0])
        return None

    def _changed(self, segments: Sequence[Segment]) -> Iterator[str]:
        for segment in segments:
            for row in self.connection.execute(_NEWEST_CHANGES, _of(segment)):
                yield checked(row, str)[0]

    def _one(self, kinds: _Kinds, query: str, *values: Any) -> Any:
        return checked(self.connection.execute(query, values).fetchone(), *kinds)

    def _all(self, kinds: _Kinds, query: str, *values: Any) -> list[Any]:
        return [checked(row, *kinds) for row in self.connection.execute(query, values)]


def packed(item: Entry) -> str:
    """Return an entry as a row of `changes` or `edits` holds it: its values, without their names.

    >>> packed(Entry(Effort("a", "open", turn=2), "main", ""))
    '["a","open","",[],50,"",[],0,2,"main",""]'
    """
    return json.dumps([*fields(item).values()], ensure_ascii=False, separators=(",", ":"))


def entry(text: str) -> Entry:
    """Return the entry that a row of `changes` or `edits` holds."""
    try:
        values = json.loads(text)
        names = _NAMES[: max(len(values), len(_NAMES) - 1)]  # the last is there if it is true
        found = entry_of(dict(zip(names, values, strict=True)))
    except (ValueError, TypeError, RecursionError):
        found = None
    if found is None:
        raise IndexDamagedError(f"{text!r} is no entry")
    return found


def _of(segment: Segment) -> tuple[str, int]:
    return segment.branch, segment.upto
