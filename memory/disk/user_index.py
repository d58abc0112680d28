"""The index of what a user's sessions concluded: one SQLite file, a cache of their manifests.

It holds what any branch concluded; what the newest branch has is asked of the session itself. Who
uses it holds its lock, which is taken after that of a session, and leaves it closed: nobody has it
open when it is deleted.
"""

import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

from ..manifest import Entry, ManifestError, parse
from ..messages import broken, clean
from .damage import IndexDamagedError, noticed
from .folder import MANIFEST
from .lock import SessionLock
from .schema import connect, delete, transaction, version
from .search_rows import heading

_log = logging.getLogger("ebbtide.archive")

T = TypeVar("T")

NAME = ".concluded.sqlite"
"""The file in a user's folder; no session's folder has a name that begins with a dot."""

VERSION = 1
_LOCK = ".concluded.lock"
_WAIT_SECONDS = 10.0
_AT_ONCE = 500
"""Manifests that are read before others get the lock."""

_TABLES = """
CREATE TABLE manifests(
    session TEXT PRIMARY KEY, size INTEGER NOT NULL, modified INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE efforts(
    id INTEGER PRIMARY KEY,
    session TEXT NOT NULL, effort TEXT NOT NULL, at TEXT NOT NULL, reopened INTEGER NOT NULL);
CREATE INDEX efforts_by_session ON efforts(session);
CREATE VIRTUAL TABLE concluded USING fts5(terms, detail=none, columnsize=0, tokenize='ascii');
"""
# `at` is when an effort was concluded last; `reopened`: its last change left it open.

State: TypeAlias = tuple[int, int]
"""Size and time of change of a manifest, in bytes and nanoseconds."""


@dataclass(frozen=True, slots=True)
class Heading:
    """An effort that some branch concluded, with the terms of all that was said of it then."""

    effort: str
    at: str
    reopened: bool
    terms: str


def ask(folder: Path, do: Callable[[sqlite3.Connection], T], *, durable: bool) -> T:
    """Ask the index of a user's folder, brought up to date; a damaged one is built anew, once.

    What a crash kept out of a manifest is not known until that session is opened next. Raises
    `ArchiveLockedError`, `OSError`, `sqlite3.Error`.
    """
    try:
        with noticed():
            return _asked(folder, do, durable=durable)
    except IndexDamagedError as error:
        _log.warning("%s is built anew: %s", folder / NAME, error)
    forget(folder)
    with noticed():
        return _asked(folder, do, durable=durable)


def forget(folder: Path) -> None:
    """Delete the index of a user's folder, so that nothing is left of what it held."""
    lock = folder / _LOCK
    # Who has not taken the lock by now reads the manifests later than this.
    if lock.exists() or (folder / NAME).exists():
        with SessionLock(lock, _WAIT_SECONDS).held():
            delete(folder / NAME)


def _asked(folder: Path, do: Callable[[sqlite3.Connection], T], *, durable: bool) -> T:
    while True:
        with SessionLock(folder / _LOCK, _WAIT_SECONDS).held():
            states = _states(folder)
            with closing(_opened(folder / NAME, durable=durable)) as connection:
                known = _known(connection)
                gone = known.keys() - states.keys()
                changed = [name for name in states if known.get(name) != states[name]]
                if not gone and _caught_up(connection, folder, changed, states):
                    return do(connection)
            if gone:  # what a deleted session said is not to be kept
                delete(folder / NAME)


def _opened(path: Path, *, durable: bool) -> sqlite3.Connection:
    connection = connect(path, durable=durable)
    try:
        _make(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _make(connection: sqlite3.Connection) -> None:
    """Make the tables of a new index; one of another version is as good as a damaged one."""
    found = version(connection)
    if found not in {0, VERSION}:
        raise IndexDamagedError(f"it has version {found}")
    if not found:
        with transaction(connection):
            for statement in _TABLES.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={VERSION}")


def _states(folder: Path) -> dict[str, State]:
    """Return the states of the manifests, by the names of their folders."""
    found: dict[str, State] = {}
    with os.scandir(folder) as listed:
        for entry in listed:
            try:
                stat = os.stat(f"{entry.path}{os.sep}{MANIFEST}")  # noqa: PTH116 (for thousands)
            except (FileNotFoundError, NotADirectoryError):
                continue
            if not broken(entry.name):
                found[entry.name] = (stat.st_size, stat.st_mtime_ns)
    return found


def _known(connection: sqlite3.Connection) -> dict[str, State]:
    rows = connection.execute("SELECT session, size, modified FROM manifests")
    return {name: (size, modified) for name, size, modified in rows}


def _caught_up(
    connection: sqlite3.Connection,
    folder: Path,
    changed: Sequence[str],
    states: Mapping[str, State],
) -> bool:
    """Read manifests that changed, the oldest first; False if more are left than are read."""
    oldest = sorted(changed, key=lambda name: states[name][1])
    with transaction(connection) if changed else nullcontext():
        for name in oldest[:_AT_ONCE]:
            _forget_session(connection, name)
            _add(connection, name, _headings(folder / name / MANIFEST))
            row = (name, *states[name])
            connection.execute("INSERT OR REPLACE INTO manifests VALUES (?, ?, ?)", row)
    return len(changed) <= _AT_ONCE


def _forget_session(connection: sqlite3.Connection, session: str) -> None:
    rows = "SELECT id FROM efforts WHERE session = ?"
    connection.execute(f"DELETE FROM concluded WHERE rowid IN ({rows})", (session,))  # noqa: S608
    connection.execute("DELETE FROM efforts WHERE session = ?", (session,))


def _add(connection: sqlite3.Connection, session: str, headings: Iterable[Heading]) -> None:
    for one in headings:
        row = connection.execute(
            "INSERT INTO efforts(session, effort, at, reopened) VALUES (?, ?, ?, ?)",
            (session, one.effort, one.at, one.reopened),
        ).lastrowid
        connection.execute("INSERT INTO concluded(rowid, terms) VALUES (?, ?)", (row, one.terms))


def _headings(path: Path) -> list[Heading]:
    """Return what a manifest says concluded on any branch, the oldest first."""
    try:
        entries = parse(path.read_bytes()).entries
    except (OSError, ManifestError) as error:
        _log.warning("%s is not searched from other sessions: %s", path, error)
        return []
    efforts: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=lambda one: one.effort.turn):
        efforts.setdefault(entry.effort.id, []).append(entry)
    found = (_heading(changes) for changes in efforts.values())
    return sorted((one for one in found if one), key=lambda one: one.at)


def _heading(changes: Sequence[Entry]) -> Heading | None:
    """Return the heading of an effort, given all its changes; None if none concluded it."""
    left = [entry for entry in changes if entry.effort.status == "concluded"]
    if not left:
        return None
    said = " ".join(heading(entry.effort) for entry in left).split()
    return Heading(
        effort=clean(left[0].effort.id),
        at=clean(max(entry.at for entry in left)),
        reopened=changes[-1].effort.status == "open",
        terms=clean(" ".join(dict.fromkeys(said))),
    )
