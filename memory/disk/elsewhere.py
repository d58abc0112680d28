"""Searching what the other sessions of a user concluded.

The user's index names what matches best; each of it is then read in the index of its own session,
as the newest branch left it, until enough is found.
"""

import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import nlargest
from itertools import islice
from typing import TypeVar

from ..archive.protocol import Elsewhere
from ..errors import ArchiveError
from ..manifest import Entry
from ..messages import clean
from ..record import Owner, Tip
from ..search import Rare, rarity
from ..terms import asked
from . import user_index
from .damage import IndexDamagedError, checked
from .folder import session_folder, user_folder
from .search_rows import heading
from .session import Opened
from .sessions import Sessions

_log = logging.getLogger("ebbtide.archive")

T = TypeVar("T")

_TERMS = 64
_RAREST = 32
_ROWS = 5_000
_CANDIDATES = 500
_ASKED = 50
"""Candidates that are asked for in their sessions at most, and as many that seem to be open."""


@dataclass(frozen=True, slots=True)
class Row:
    """An effort of a session, by the name of its folder; `most` is what it can score at most."""

    session: str
    effort: str
    at: str
    reopened: int
    most: float


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates for a query, best first, and how rare its terms are, the rarest first."""

    rare: Rare
    best: tuple[Row, ...]


def search_sessions(
    sessions: Sessions, owner: Owner, query: str, limit: int
) -> tuple[Elsewhere, ...]:
    """Return what other sessions concluded; see `Archive.search_sessions`."""
    wanted = asked(clean(query))[:_TERMS]
    if not wanted or limit < 1:
        return ()
    candidates = _asked(sessions, owner, partial(_candidates, wanted=wanted))
    return () if candidates is None else _found(sessions, owner.user, candidates, limit)


def newest_elsewhere(sessions: Sessions, owner: Owner, newest: int) -> tuple[Elsewhere, ...]:
    """Return what other sessions concluded last; see `Archive.concluded_elsewhere`."""
    rows = _asked(sessions, owner, partial(_newest, limit=newest + _ASKED)) or ()
    found = (
        Elsewhere(there, entry.effort, tip, entry.at)
        for row in rows
        for there, entry, tip in _concluded(sessions, owner.user, row)
    )
    return tuple(islice(found, newest))


def _asked(sessions: Sessions, owner: Owner, find: Callable[..., T]) -> T | None:
    """Ask the user's index; None if there is none, or, with a warning, if that fails."""
    folder = user_folder(sessions.root, owner.user)
    if not folder.is_dir():
        return None
    find = partial(find, own=session_folder(sessions.root, owner).name)
    try:
        return user_index.ask(folder, find, durable=sessions.durable)
    except (ArchiveError, OSError, sqlite3.Error) as error:
        _log.warning("other sessions of %r are not searched: %s", owner.user, error)
        return None


def _newest(connection: sqlite3.Connection, own: str, limit: int) -> list[Row]:
    query = (
        "SELECT session, effort, at, reopened FROM efforts"
        " WHERE session <> ? AND NOT reopened ORDER BY at DESC, id DESC LIMIT ?"
    )
    rows = connection.execute(query, (own, limit)).fetchall()
    return [Row(*(*checked(row, str, str, str, int), 0.0)) for row in rows]


def _candidates(connection: sqlite3.Connection, wanted: Sequence[str], own: str) -> Candidates:
    (total,) = connection.execute("SELECT count(*) FROM efforts").fetchone()
    count = "SELECT count(*) FROM concluded WHERE concluded MATCH ?"
    every = ((connection.execute(count, (f'"{term}"',)).fetchone()[0], term) for term in wanted)
    counts = sorted(pair for pair in every if pair[0])[:_RAREST]
    rare = {term: rarity(total, having) for having, term in counts}
    strengths = _strengths(connection, counts, rare, own)
    rows = _rows(connection, strengths)
    open_again = [row for row in rows if row.reopened][:_ASKED]
    chosen = {*[row for row in rows if not row.reopened][:_ASKED], *open_again}
    return Candidates(rare, tuple(row for row in rows if row in chosen))


def _rows(connection: sqlite3.Connection, strengths: Mapping[int, float]) -> list[Row]:
    """Return the strongest rows, the strongest first, of equal ones the newest."""
    query = "SELECT session, effort, at, reopened FROM efforts WHERE id = ?"
    strongest = nlargest(_CANDIDATES, strengths, key=lambda row: (strengths[row], row))
    found = (connection.execute(query, (row,)).fetchone() for row in strongest)
    kinds = (str, str, str, int)
    rows = [
        Row(*(*checked(values, *kinds), strengths[row]))
        for row, values in zip(strongest, found, strict=True)
    ]
    return sorted(rows, key=lambda row: (row.most, row.at), reverse=True)


def _strengths(
    connection: sqlite3.Connection, counts: Iterable[tuple[int, str]], rare: Rare, own: str
) -> dict[int, float]:
    """Return how rare the terms are that rows of other sessions say together.

    Once many rows are read, further ones do not come in by common terms alone.
    """
    query = (
        "SELECT f.rowid FROM concluded f CROSS JOIN efforts e ON e.id = f.rowid"
        " WHERE concluded MATCH ? AND e.session <> ? ORDER BY f.rowid DESC LIMIT ?"
    )
    total: dict[int, float] = {}
    read, rarer = 0, list[str]()
    for count, term in counts:
        common = read + count > _ROWS and rarer
        match = f'({" OR ".join(rarer)}) AND "{term}"' if common else f'"{term}"'
        for (row,) in connection.execute(query, (match, own, _ROWS)):
            total[row] = total.get(row, 0.0) + rare[term]
        rarer += [f'"{term}"'] if read <= _ROWS else []
        read += count
    return total


def _found(
    sessions: Sessions, user: str, candidates: Candidates, limit: int
) -> tuple[Elsewhere, ...]:
    """Return the best of the candidates that are concluded, as their sessions tell."""
    found: list[Elsewhere] = []
    for one in candidates.best:
        if len(found) >= limit and one.most <= found[limit - 1].score:
            break
        for owner, entry, tip in _concluded(sessions, user, one):
            result = _scored(owner, entry, tip, candidates.rare)
            found += [result] if result.said else []
            found.sort(key=lambda result: (result.score, result.at), reverse=True)
    return tuple(found[:limit])


def _concluded(sessions: Sessions, user: str, one: Row) -> Iterator[tuple[Owner, Entry, Tip]]:
    """Yield an effort as the newest branch of its session left it, if it is concluded there."""
    nothing: tuple[Entry, Tip] | None = None
    try:
        owner = sessions.owner_of(user_folder(sessions.root, user) / one.session, user)
        if owner is not None:
            left = sessions.get(owner).read(partial(_left, effort=one.effort), nothing)
            yield from () if left is None else ((owner, *left),)
    except (ArchiveError, OSError) as error:
        _log.warning("session %r of %r is not searched: %s", one.session, user, error)


def _left(opened: Opened, effort: str) -> tuple[Entry, Tip] | None:
    index, tip = opened.index, opened.index.newest()
    entry = None if tip is None else index.change(tip, effort)
    if entry is None or entry.effort.status != "concluded":
        return None
    turn = entry.effort.turn
    slot = index.slot(entry.branch, turn)
    if slot is None:
        raise IndexDamagedError(f"it lacks turn {turn} of {entry.branch!r}")
    return entry, Tip(entry.branch, turn, slot.digest)


def _scored(owner: Owner, entry: Entry, tip: Tip, rare: Rare) -> Elsewhere:
    """Score an effort by how rare the terms are that it says."""
    said = frozenset(heading(entry.effort).split()) & rare.keys()
    score = sum(weight for term, weight in rare.items() if term in said)
    return Elsewhere(owner, entry.effort, tip, entry.at, score, said)
