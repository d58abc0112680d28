"""Checking a session: its records against their digests and parents, and the other tables."""

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
"""A branch and a turn."""

_Changes: TypeAlias = dict[_Place, list[Any]]
"""The changes of efforts by turn, as the table has them or should have them."""


def verify(scope: Scope) -> tuple[Finding, ...]:
    """Return what is wrong with a session, first its records in the order of their commit."""
    findings: list[Finding] = []
    records: list[Record] = []
    expected: _Changes = {}
    places: list[_Place] = []
    for row in scope.turns():
        place = (row.branch, row.turn)
        places.append(place)
        try:
            record = record_of(row)
            state_of(row)
            efforts = ((changed(event, record.turn), event) for event in record.events)
            expected[place] = [
                (effort.id, effort.status, record.at, packed(event))
                for effort, event in efforts
                if effort
            ]
            if record.status == "erased":
                sound = not record.messages
            else:
                sound = digest(record.messages) == (row.content or record.digest)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            findings.append(_finding(place, f"damaged: it is no record ({error})"))
            continue
        if not sound:
            findings.append(_finding(place, "the digest does not match the messages"))
        records.append(replace(record, messages=()))
    findings += [*_parents(scope, records), *_counts(scope, places)]
    findings += [*_listed(scope, places, records, expected), *_leaves(scope, records)]
    if erased := sum(record.status == "erased" for record in records):
        number = f"{erased} turn{'' if erased == 1 else 's'}"
        findings.append(Finding("all branches", f"{number} erased", fatal=False))
    return tuple(findings)


def _counts(scope: Scope, places: list[_Place]) -> Iterator[Finding]:
    """Yield counts and ends, of the session or of a branch, that differ from the stored turns."""
    noted = (scope.session.turns, scope.session.branch)
    counted = (len(places), places[-1][0] if places else "")
    if noted != counted:
        yield Finding(
            "all branches",
            f"{noted[0]} turns are noted, the last of branch {noted[1]!r}: "
            f"there are {counted[0]}, and it is of {counted[1]!r}",
        )
    numbers: dict[str, list[int]] = {}
    for branch, turn in places:
        numbers.setdefault(branch, []).append(turn)
    ends = {row.branch: (row.first, row.last) for row in scope.rows(branches, "branch")}
    for branch in sorted(ends.keys() | numbers):
        turns = numbers.get(branch, [0])
        first, last = min(turns), max(turns)
        if ends.get(branch) != (first, last):
            text = f"branch {branch!r} has turns {first}-{last}, not {ends.get(branch)}"
            yield _finding((branch, last), text)


def _listed(
    scope: Scope, places: list[_Place], records: list[Record], expected: _Changes
) -> Iterator[Finding]:
    """Yield the turns whose rows in the tables of efforts differ from their records."""
    efforts = {
        (record.branch, record.turn): {*(record.efforts or (AMBIENT,))} for record in records
    }
    listed: dict[_Place, set[str]] = {}
    for row in scope.rows(members, "effort"):
        listed.setdefault((row.branch, row.turn), set()).add(row.effort)
    stored: _Changes = {}
    for row in scope.rows(changes, "id"):
        change = (row.effort, row.status, row.at, row.entry)
        stored.setdefault((row.branch, row.turn), []).append(change)
    damaged = {*places} - efforts.keys()
    for place in sorted((listed.keys() | stored.keys() | efforts.keys()) - damaged):
        if listed.get(place) != efforts.get(place):
            yield _finding(place, f"turn {place[1]} is listed under other efforts than it has")
        if stored.get(place, []) != expected.get(place, []):
            text = f"the manifest has other changes of efforts than turn {place[1]}"
            yield _finding(place, text)


def _parents(scope: Scope, records: list[Record]) -> Iterator[Finding]:
    """Yield the records whose parent is not the turn before them."""
    digests = {(record.branch, record.turn): record.digest for record in records}
    numbers: dict[str, list[int]] = {}
    for branch, turn in sorted(digests):
        numbers.setdefault(branch, []).append(turn)
    for record in records:
        parent = ""
        for segment in scope.lineage(record.branch, record.turn - 1).segments:
            turns = numbers.get(segment.branch, [])
            if count := bisect_right(turns, segment.last):
                parent = digests[segment.branch, turns[count - 1]]
                break
        if record.parent != parent:
            place = (record.branch, record.turn)
            yield _finding(place, f"the parent of turn {record.turn} is missing")


def _leaves(scope: Scope, records: list[Record]) -> Iterator[Finding]:
    """Yield the ends of branches that no other continues, but the newest one's."""
    ends: dict[str, int] = {}
    for record in records:
        ends.pop(record.branch, None)  # so that the branch that was committed to last comes last
        ends[record.branch] = record.turn
    continued = {one[:2] for branch in scope.branches.values() for one in branch.ancestors}
    for place in [*ends.items()][:-1]:
        if place not in continued:
            text = f"leaf branch {place[0]!r} ends with turn {place[1]}"
            yield _finding(place, text, fatal=False)


def _finding(place: _Place, text: str, *, fatal: bool = True) -> Finding:
    return Finding(f"{place[0]}:{place[1]}", text, fatal)
