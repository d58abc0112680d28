"""Filling the index: the rows of a record, the sizes of the logs, intents, the manifest."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from ..manifest import Entry, entries
from ..record import Record, Tip
from .damage import checked
from .index import Index, Place, entry, packed
from .lines import Compressed
from .search_rows import add_headed, add_said


@dataclass(frozen=True, slots=True)
class ManifestState:
    """The manifest as the index knows it; another size or time means an edit by hand."""

    size: int
    modified: int
    appendable: bool


def add(connection: sqlite3.Connection, record: Record, place: Place, said: Sequence[str]) -> bool:
    """Add the rows of a record, after those before it; False if its place is taken.

    `said` are the terms of its messages, which need not be in the record any more.
    """
    index = Index(connection)
    if index.slot(record.branch, record.turn) is not None:
        return False
    _add_branch(connection, record)
    before = Tip(record.branch, record.turn - 1)
    ambient, efforts = index.counts(before)
    listed = entries(record)
    fresh = {item.effort.id for item in listed if index.effort(before, item.effort.id) is None}
    row = connection.execute(
        "INSERT INTO records(branch, turn, digest, parent, file, offset, length, ambient, efforts)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(record.branch, record.turn, record.digest, record.parent),
            *(place.file, place.offset, place.length),
            *(ambient + (not record.efforts), efforts + len(fresh)),
        ),
    ).lastrowid
    _add_members(connection, record)
    _add_changes(connection, listed)
    add_said(connection, row or 0, said)
    connection.execute("INSERT INTO unembedded VALUES (?)", (row,))
    add_headed(connection, listed)
    return True


def add_compressed(
    connection: sqlite3.Connection, line: Compressed, stretch: tuple[int, int]
) -> None:
    """Add the row of a compression, given the offset and the length of its line.

    Of two with the same place the first counts.
    """
    connection.execute(
        "INSERT OR IGNORE INTO compressions VALUES (?, ?, ?, ?, ?)",
        (line.made.effort, line.branch, line.made.turn, *stretch),
    )


def known_sizes(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the sizes up to which the logs are indexed."""
    rows = connection.execute("SELECT name, size FROM files")
    return dict(checked(row, str, int) for row in rows)


def known_size(connection: sqlite3.Connection, name: str) -> int:
    """Return the size up to which one log is indexed."""
    row = connection.execute("SELECT size FROM files WHERE name = ?", (name,)).fetchone()
    return int(checked(row, int)[0]) if row else 0


def set_sizes(connection: sqlite3.Connection, sizes: Mapping[str, int]) -> None:
    """Note up to which size logs are indexed."""
    rows = list(sizes.items())
    connection.executemany("INSERT OR REPLACE INTO files(name, size) VALUES (?, ?)", rows)


def intend(connection: sqlite3.Connection, names: Iterable[str]) -> None:
    """Note that these logs are about to grow: whoever finds the note reads their ends again."""
    rows = [(name,) for name in names]
    connection.executemany("INSERT OR IGNORE INTO pending(name) VALUES (?)", rows)


def intents(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Return the logs that a commit was about to extend when it was cut off."""
    return tuple(row[0] for row in connection.execute("SELECT name FROM pending"))


def settle(connection: sqlite3.Connection) -> None:
    """Forget the intents: the index says what the logs say."""
    connection.execute("DELETE FROM pending")


def manifest_state(connection: sqlite3.Connection) -> ManifestState | None:
    """Return the manifest as it was when it was last written or read, None if it never was."""
    row = connection.execute("SELECT size, modified, appendable FROM manifest").fetchone()
    return None if row is None else ManifestState(row[0], row[1], bool(row[2]))


def set_manifest_state(connection: sqlite3.Connection, state: ManifestState) -> None:
    """Note how the manifest is now."""
    connection.execute("DELETE FROM manifest")
    values = (state.size, state.modified, state.appendable)
    connection.execute("INSERT INTO manifest VALUES (?, ?, ?)", values)


def all_changes(connection: sqlite3.Connection) -> tuple[Entry, ...]:
    """Return every entry that the records add to the manifest, in the order of their commit."""
    rows = connection.execute("SELECT entry FROM changes ORDER BY turn, branch, seq")
    listed = (entry(checked(row, str)[0]) for row in rows)
    return tuple(sorted(listed, key=attrgetter("at")))


def set_edits(connection: sqlite3.Connection, edited: Iterable[Entry]) -> None:
    """Replace what was edited by hand."""
    connection.execute("DELETE FROM edits")
    rows = [
        (item.effort.id, item.branch, item.effort.turn, item.effort.status, packed(item))
        for item in edited
    ]
    connection.executemany("INSERT INTO edits VALUES (?, ?, ?, ?, ?)", rows)


def _add_branch(connection: sqlite3.Connection, record: Record) -> None:
    origin, upto = record.origin or (None, None)
    connection.execute(
        "INSERT INTO branches(branch, origin, upto, first, at, last) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET at = excluded.at, last = excluded.last"
        " WHERE (excluded.at, excluded.last) > (at, last)",
        (record.branch, origin, upto, record.turn, record.at, record.turn),
    )


def _add_members(connection: sqlite3.Connection, record: Record) -> None:
    rows = [(effort, record.branch, record.turn) for effort in record.efforts]
    connection.executemany("INSERT OR IGNORE INTO members VALUES (?, ?, ?)", rows)
    if not record.efforts:
        connection.execute("INSERT INTO ambient VALUES (?, ?)", (record.branch, record.turn))


def _add_changes(connection: sqlite3.Connection, listed: Sequence[Entry]) -> None:
    rows = [
        (item.effort.id, item.branch, item.effort.turn, seq, item.effort.status, packed(item))
        for seq, item in enumerate(listed)
    ]
    connection.executemany("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?)", rows)
