"""Checking a session: digests and parents from the stored messages alone, and what lists them."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from sqlalchemy import select

from ..efforts import changed
from ..messages import digest
from ..record import Record
from .erasures import Scope
from .lineage import AMBIENT
from .protocol import Finding
from .records import packed, record_of, state_of
from .schema import branches, changes, members, sessions

_Place: TypeAlias = tuple[str, int]
_Listed: TypeAlias = Mapping[_Place, Any]


def verify(scope: Scope) -> tuple[Finding, ...]:
    """Return what is wrong with a session: the records in the order of their commit come first."""
    findings: list[Finding] = []
    kept: list[Record] = []
    left: dict[_Place, list[Any]] = {}
    places: list[_Place] = []
    for row in scope.turns():
        places.append((row.branch, row.turn))
        try:
            record = record_of(row)
            sound = _sound(record, row.content)
            left[places[-1]] = _left(record)
            state_of(row)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            findings.append(Finding(_where(row), f"damaged: it is no record ({error})"))
            continue
        if not sound:
            findings.append(Finding(_where(row), "the digest does not match the messages"))
        kept.append(replace(record, messages=()))
    findings += [
        *_parents(scope, kept),
        *_counts(scope, places),
        *_listed(scope, places, kept, left),
    ]
    return (*findings, *_leaves(scope, kept), *_erased(kept))


def _sound(record: Record, content: str | None) -> bool:
    if record.status == "erased":
        return not record.messages
    return digest(record.messages) == (content or record.digest)


def _left(record: Record) -> list[Any]:
    """Return what the manifest has of a record."""
    listed = ((event, changed(event, record.turn)) for event in record.events)
    return [
        (effort.id, effort.status, record.at, packed(event)) for event, effort in listed if effort
    ]


def _counts(scope: Scope, places: list[_Place]) -> Iterator[Finding]:
    """Yield where session and branches have other turns than there are, or others come last."""
    connection, session = scope.connection, scope.session.id
    query = select(sessions.c.turns, sessions.c.branch).where(sessions.c.id == session)
    count, newest = connection.execute(query).one()
    counted = (len(places), places[-1][0] if places else "")
    if (count, newest) != counted:
        noted = f"{count} turns are noted, the last of branch {newest!r}"
        yield Finding(
            "all branches", f"{noted}: there are {counted[0]}, and it is of {counted[1]!r}"
        )
    numbers: dict[str, list[int]] = {}
    for branch, turn in places:
        numbers.setdefault(branch, []).append(turn)
    query = select(branches.c.branch, branches.c.first, branches.c.last)
    rows = connection.execute(query.where(branches.c.session == session))
    ends = {row.branch: (row.first, row.last) for row in rows}
    for branch in sorted(ends.keys() | numbers):
        turns = numbers.get(branch, [0])
        if ends.get(branch) != (min(turns), max(turns)):
            what = f"branch {branch!r} has turns {min(turns)}-{max(turns)}, not {ends.get(branch)}"
            yield Finding(f"{branch}:{max(turns)}", what)


def _listed(
    scope: Scope, places: list[_Place], records: Iterable[Record], left: _Listed
) -> Iterator[Finding]:
    """Yield the turns of which the tables of efforts say something else than their records."""
    of_efforts = {(one.branch, one.turn): {*(one.efforts or (AMBIENT,))} for one in records}
    in_efforts: dict[_Place, set[str]] = {}
    for row in scope.rows(members, "effort"):
        in_efforts.setdefault((row.branch, row.turn), set()).add(row.effort)
    in_manifest: dict[_Place, list[Any]] = {}
    for row in scope.rows(changes, "id"):
        entry = (row.effort, row.status, row.at, row.entry)
        in_manifest.setdefault((row.branch, row.turn), []).append(entry)
    damaged = {*places} - of_efforts.keys()
    for place in sorted((in_efforts.keys() | in_manifest.keys() | of_efforts.keys()) - damaged):
        where = f"{place[0]}:{place[1]}"
        if in_efforts.get(place) != of_efforts.get(place):
            yield Finding(where, f"turn {place[1]} is listed under other efforts than it has")
        if in_manifest.get(place, []) != left.get(place, []):
            yield Finding(where, f"the manifest has other changes of efforts than turn {place[1]}")


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
