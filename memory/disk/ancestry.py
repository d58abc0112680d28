"""Checking that the records of a session hang together: parents, gaps, branches left behind."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..archive.protocol import Finding
from ..lineage import lineage
from ..record import Record, Tip


@dataclass(frozen=True, slots=True)
class Ancestry:
    """The turns of each branch, ascending, and where each branch began."""

    turns: Mapping[str, list[int]]
    origins: Mapping[str, tuple[str, int] | None]

    def before(self, record: Record) -> tuple[str, int] | None:
        """Return branch and turn of the record before this one, None for the first."""
        for segment in lineage(Tip(record.branch, record.turn - 1), self.origins):
            turns = self.turns.get(segment.branch, [])
            count = bisect_right(turns, segment.upto)
            if count:
                return segment.branch, turns[count - 1]
        return None


def ancestry_found(records: Mapping[str, Record]) -> tuple[Finding, ...]:
    """Return what is wrong among records, which are given by where they stand."""
    held = {(record.branch, record.turn): record for record in records.values()}
    turns: dict[str, list[int]] = {}
    for branch, turn in sorted(held):
        turns.setdefault(branch, []).append(turn)
    origins = {branch: held[branch, listed[0]].origin for branch, listed in turns.items()}
    ancestry = Ancestry(turns, origins)
    return (*_parents_found(records, held, ancestry), *_leaves_found(records, ancestry))


def _parents_found(
    records: Mapping[str, Record], held: Mapping[tuple[str, int], Record], ancestry: Ancestry
) -> Iterator[Finding]:
    for where, record in records.items():
        before = ancestry.before(record)
        expected = held[before].digest if before else ""
        if record.gap:
            what = f"gap: the turn before turn {record.turn} is missing"
            yield Finding(where, what, fatal=False)
        elif record.parent != expected:
            yield Finding(where, f"the parent of turn {record.turn} is missing")


def _leaves_found(records: Mapping[str, Record], ancestry: Ancestry) -> Iterator[Finding]:
    newest = max(records.values(), key=lambda r: (r.at, r.turn, r.branch), default=None)
    for where, record in records.items():
        place = (record.branch, record.turn)
        last = ancestry.turns[record.branch][-1] == record.turn
        current = newest is not None and record.branch == newest.branch
        if last and not current and place not in ancestry.origins.values():
            what = f"leaf branch {record.branch!r} ends with turn {record.turn}"
            yield Finding(where, what, fatal=False)
