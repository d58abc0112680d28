"""Checking a session: every digest and every parent, from the stored messages alone."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ..messages import digest
from ..record import Record
from .erase import Scope
from .protocol import Finding
from .records import record_of


def verify(scope: Scope) -> tuple[Finding, ...]:
    """Return what is wrong with the records of a session, in the order of their commit."""
    found: list[Finding] = []
    kept: list[Record] = []
    for row in scope.rows():
        try:
            record = record_of(row)
            sound = _sound(record, row.content)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            found.append(Finding(_where(row), f"damaged: it is no record ({error})"))
            record, sound = None, True
        if not sound:
            found.append(Finding(_where(row), "the digest does not match the messages"))
        if record is not None:
            kept.append(replace(record, messages=()))
    return (*found, *_parents(scope, kept), *_leaves(scope, kept), *_erased(kept))


def _sound(record: Record, content: str | None) -> bool:
    if record.status == "erased":
        return not record.messages
    return digest(record.messages) == (content or record.digest)


def _parents(scope: Scope, records: Iterable[Record]) -> Iterator[Finding]:
    """Yield what is not where a record says that it comes from."""
    listed = list(records)
    digests = {(one.branch, one.turn): one.digest for one in listed}
    numbers: dict[str, list[int]] = {}
    for branch, turn in sorted(digests):
        numbers.setdefault(branch, []).append(turn)
    for record in listed:
        before = _before(scope, record, numbers)
        if record.parent != (digests[before] if before else ""):
            yield Finding(_where(record), f"the parent of turn {record.turn} is missing")


def _before(scope: Scope, record: Record, numbers: dict[str, list[int]]) -> tuple[str, int] | None:
    """Return branch and turn of the record before this one, None for the first."""
    for segment in scope.lineage(record.branch, record.turn - 1).segments:
        turns = numbers.get(segment.branch, [])
        count = bisect_right(turns, segment.upto)
        if count:
            return segment.branch, turns[count - 1]
    return None


def _leaves(scope: Scope, records: Iterable[Record]) -> Iterator[Finding]:
    """Yield the branches that nothing follows, but the one that was committed to last."""
    last: dict[str, Record] = {}
    for record in records:
        last.pop(record.branch, None)  # the one that was committed to last stands last
        last[record.branch] = record
    left_at = {ancestor[:2] for branch in scope.branches.values() for ancestor in branch.ancestors}
    for record in [*last.values()][:-1]:
        if (record.branch, record.turn) not in left_at:
            what = f"leaf branch {record.branch!r} ends with turn {record.turn}"
            yield Finding(_where(record), what, fatal=False)


def _erased(records: Iterable[Record]) -> Iterator[Finding]:
    count = sum(record.status == "erased" for record in records)
    if count:
        yield Finding("all branches", f"{count} turns erased", fatal=False)


def _where(place: Record | object) -> str:
    return f"{getattr(place, 'branch', '?')}:{getattr(place, 'turn', '?')}"
