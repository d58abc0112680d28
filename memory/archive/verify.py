"""Checking a session: digests and parents from the stored messages alone, and what lists them."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeAlias

from ..efforts import changed
from ..messages import digest
from ..record import Record
from .erasures import Scope
from .lineage import AMBIENT
from .protocol import Finding
from .records import packed, record_of, state_of
from .schema import branches, changes, members

_Place: TypeAlias = tuple[str, int]
_Entries: TypeAlias = dict[_Place, list[Any]]
"""What the manifest has of turns, or should have."""


def verify(scope: Scope) -> tuple[Finding, ...]:
    """Return what is wrong with a session: the records in the order of their commit come first."""
    findings: list[Finding] = []
    records: list[Record] = []
    entries: _Entries = {}
    places: list[_Place] = []
    for row in scope.turns():
        place = (row.branch, row.turn)
        places.append(place)
        try:
            record = record_of(row)
            state_of(row)
            left = ((changed(event, record.turn), event) for event in record.events)
            entries[place] = [
                (effort.id, effort.status, record.at, packed(event))
                for effort, event in left
                if effort
            ]
            if record.status == "erased":
                sound = not record.messages
            else:
                sound = digest(record.messages) == (row.content or record.digest)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            findings.append(Finding(_where(place), f"damaged: it is no record ({error})"))
            continue
        if not sound:
            findings.append(Finding(_where(place), "the digest does not match the messages"))
        records.append(replace(record, messages=()))
    findings += _parents(scope, records)
    findings += [*_counts(scope, places), *_listed(scope, places, records, entries)]
    findings += _leaves(scope, records)
    if erased := sum(record.status == "erased" for record in records):
        findings.append(Finding("all branches", f"{erased} turns erased", fatal=False))
    return tuple(findings)


def _counts(scope: Scope, places: list[_Place]) -> Iterator[Finding]:
    """Yield where session and branches have other turns than there are, or others come last."""
    noted = (scope.session.turns, scope.session.branch)
    counted = (len(places), places[-1][0] if places else "")
    if noted != counted:
        what = f"{noted[0]} turns are noted, the last of branch {noted[1]!r}"
        what += f": there are {counted[0]}, and it is of {counted[1]!r}"
        yield Finding("all branches", what)
    numbers: dict[str, list[int]] = {}
    for branch, turn in places:
        numbers.setdefault(branch, []).append(turn)
    ends = {row.branch: (row.first, row.last) for row in scope.rows(branches, "branch")}
    for branch in sorted(ends.keys() | numbers):
        turns = numbers.get(branch, [0])
        if ends.get(branch) != (min(turns), max(turns)):
            what = f"branch {branch!r} has turns {min(turns)}-{max(turns)}, not {ends.get(branch)}"
            yield Finding(f"{branch}:{max(turns)}", what)


def _listed(
    scope: Scope, places: list[_Place], records: list[Record], entries: _Entries
) -> Iterator[Finding]:
    """Yield the turns of which the tables of efforts say something else than their records."""
    efforts = {(one.branch, one.turn): {*(one.efforts or (AMBIENT,))} for one in records}
    in_efforts: dict[_Place, set[str]] = {}
    for row in scope.rows(members, "effort"):
        in_efforts.setdefault((row.branch, row.turn), set()).add(row.effort)
    in_manifest: _Entries = {}
    for row in scope.rows(changes, "id"):
        entry = (row.effort, row.status, row.at, row.entry)
        in_manifest.setdefault((row.branch, row.turn), []).append(entry)
    damaged = {*places} - efforts.keys()
    for place in sorted((in_efforts.keys() | in_manifest.keys() | efforts.keys()) - damaged):
        if in_efforts.get(place) != efforts.get(place):
            what = f"turn {place[1]} is listed under other efforts than it has"
            yield Finding(_where(place), what)
        if in_manifest.get(place, []) != entries.get(place, []):
            what = f"the manifest has other changes of efforts than turn {place[1]}"
            yield Finding(_where(place), what)


def _parents(scope: Scope, records: list[Record]) -> Iterator[Finding]:
    """Yield what is not where a record says that it comes from."""
    digests = {(record.branch, record.turn): record.digest for record in records}
    numbers: dict[str, list[int]] = {}
    for branch, turn in sorted(digests):
        numbers.setdefault(branch, []).append(turn)
    for record in records:
        parent = ""
        for segment in scope.lineage(record.branch, record.turn - 1).segments:
            turns = numbers.get(segment.branch, [])
            if before := bisect_right(turns, segment.last):
                parent = digests[segment.branch, turns[before - 1]]
                break
        if record.parent != parent:
            what = f"the parent of turn {record.turn} is missing"
            yield Finding(_where((record.branch, record.turn)), what)


def _leaves(scope: Scope, records: list[Record]) -> Iterator[Finding]:
    """Yield the branches that nothing follows, but the one that was committed to last."""
    last: dict[str, int] = {}
    for record in records:
        last.pop(record.branch, None)  # the one that was committed to last stands last
        last[record.branch] = record.turn
    left_at = {ancestor[:2] for branch in scope.branches.values() for ancestor in branch.ancestors}
    for place in [*last.items()][:-1]:
        if place not in left_at:
            what = f"leaf branch {place[0]!r} ends with turn {place[1]}"
            yield Finding(_where(place), what, fatal=False)


def _where(place: _Place) -> str:
    return f"{place[0]}:{place[1]}"
