"""Checking a session: its turns against their ids and parents, and the other tables."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeAlias

from sqlalchemy import select

from ..efforts import changed
from ..turn import StoredTurn, commit_id
from . import attachments, parts
from .erasures import Scope
from .index import among
from .load import listed_under
from .protocol import Finding
from .rows import packed, remains, state_of, turn_of
from .schema import changes, members, runs, turns

_Place: TypeAlias = tuple[int, int]
"""A run and a place in it."""

_Changes: TypeAlias = dict[_Place, list[Any]]
"""The changes of efforts by turn, as the table has them or should have them."""


def verify(scope: Scope) -> tuple[Finding, ...]:
    """Return what is wrong with a session, first its turns in the order of their commit."""
    findings: list[Finding] = []
    places: dict[_Place, Any] = {}
    checked: dict[_Place, StoredTurn] = {}
    expected: _Changes = {}
    for row in scope.turns():
        place = (row.run, row.place)
        places[place] = row
        try:
            turn = turn_of(row)
            state_of(row)
            efforts = ((changed(event, turn.number), event) for event in turn.events)
            expected[place] = [
                (effort.id, effort.status, turn.at, packed(event))
                for effort, event in efforts
                if effort
            ]
            sound = _is_sound(turn)
            if row.block and row.anchor is None:
                findings.append(_finding(row, "its state block is missing"))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            findings.append(_finding(row, f"damaged: it is no turn ({error})"))
            continue
        if not sound:
            findings.append(_finding(row, "the id does not match the messages"))
        checked[place] = replace(turn, messages=())
    findings += [*_parents(scope, places), *_counts(scope, places)]
    findings += [*_listed(scope, places, checked, expected), *_leaves(scope, places)]
    findings += _attachments(scope, places)
    for part in parts.unjoined(scope.connection, scope.row.user, scope.session):
        what = "rounds of a turn that runs, or broke off, and was not committed"
        findings.append(Finding(f"part {part[:12]}", what, fatal=False))
    if erased := sum(turn.status == "erased" for turn in checked.values()):
        number = f"{erased} turn{'' if erased == 1 else 's'}"
        findings.append(Finding("session", f"{number} erased", fatal=False))
    return tuple(findings)


def _attachments(scope: Scope, places: dict[_Place, Any]) -> Iterator[Finding]:
    """Yield the turns whose attachments are missing, and attachments that no turn refers to."""
    connection, user = scope.connection, scope.row.user
    missing = attachments.missing(connection, user)
    for row in places.values():
        if row.id in missing:
            yield _finding(row, f"its attachment {missing[row.id][:12]} is missing")
    for digest_ in attachments.unused(connection, user):
        yield Finding(f"attachment {digest_[:12]}", "no turn refers to it", fatal=False)


def _is_sound(turn: StoredTurn) -> bool:
    """Tell whether a turn is what its id says; a tombstone has no messages."""
    if turn.status == "erased":
        return not turn.messages
    if turn.content:
        return remains(turn) == turn.content
    return commit_id(turn.nonce, turn.parent, turn.hashed) == turn.id


def _counts(scope: Scope, places: dict[_Place, Any]) -> Iterator[Finding]:
    """Yield counts and ends, of the session or of a run, that differ from the stored turns."""
    own = [row for row in places.values() if row.session == scope.row.id]
    noted = scope.row.turns, scope.row.newest
    counted = len(own), own[-1].id if own else 0
    if noted != counted:
        text = f"{noted[0]} turns are noted, the last in row {noted[1]}: there are {counted}"
        yield Finding("session", text)
    taken: dict[int, set[int]] = {}
    for run, place in places:
        taken.setdefault(run, set()).add(place)
    stored = scope.connection.execute(select(runs).where(among(runs.c.id, scope.runs)))
    ends = {row.id: {*range(row.first, row.last + 1)} for row in stored}
    for run in sorted(taken.keys() | ends):
        if taken.get(run, set()) != ends.get(run, set()):
            text = f"run {run} has other turns than it says"
            yield Finding("session", text)


def _listed(
    scope: Scope, places: dict[_Place, Any], checked: dict[_Place, StoredTurn], expected: _Changes
) -> Iterator[Finding]:
    """Yield the turns whose rows in the tables of efforts differ from what they say."""
    efforts = {place: {*listed_under(turn)} for place, turn in checked.items()}
    listed: dict[_Place, set[str]] = {}
    for row in scope.rows(members, "effort"):
        listed.setdefault((row.run, row.place), set()).add(row.effort)
    stored: _Changes = {}
    for row in scope.rows(changes, "id"):
        change = (row.effort, row.status, row.at, row.entry)
        stored.setdefault((row.run, row.place), []).append(change)
    damaged = places.keys() - efforts.keys()
    for place in sorted((listed.keys() | stored.keys() | efforts.keys()) - damaged):
        where = _name(places[place]) if place in places else f"run {place[0]}"
        if listed.get(place, set()) != efforts.get(place, set()):
            yield Finding(where, "the turn is listed under other efforts than it has")
        if stored.get(place, []) != expected.get(place, []):
            yield Finding(where, "the manifest has other changes of efforts than the turn")


def _parents(scope: Scope, places: dict[_Place, Any]) -> Iterator[Finding]:
    for (run, place), row in places.items():
        before, front = places.get((run, place - 1)), scope.runs.get(run)
        if before is None and front and row.place == front[0].last + 1:
            before = places.get(front[0][0:3:2]) or _row(scope, front[0])
        if row.parent != (before.hash if before else ""):
            yield _finding(row, f"the parent of turn {row.turn} is missing")


def _row(scope: Scope, segment: Any) -> Any:
    """Return the row at the end of a segment, which may be of another session; None if missing."""
    place = turns.c.run == segment.run, turns.c.place == segment.last
    return scope.connection.execute(select(turns.c.hash).where(*place)).first()


def _leaves(scope: Scope, places: dict[_Place, Any]) -> Iterator[Finding]:
    """Yield the turns that no other follows, but the newest one."""
    followed = {row.parent for row in places.values()}
    for row in places.values():
        if row.hash not in followed and row.id != scope.row.newest:
            yield _finding(row, f"turn {row.turn} is the leaf of a branch", fatal=False)


def _name(row: Any) -> str:
    return f"turn {row.turn} ({row.hash[:12]})"


def _finding(row: Any, text: str, *, fatal: bool = True) -> Finding:
    return Finding(_name(row), text, fatal)
