"""The vectors of the index: one for each record, and one for each heading that a turn left.

They are of one model, which its probe tells; those of another model are thrown away.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..meaning import Meaning, Vector, Vectors, cosines, same_model
from ..record import Record
from .damage import IndexDamagedError, checked
from .index import Place
from .packing import blob, vectors

_CHUNK = 2_000
_PLACE = (str, int, str, str, int, int)
_BYTES = 8 * 1024 * 1024
_LONGEST = 1.01
"""Lengths and cosines are at most 1, give or take what is lost by storing."""


@dataclass(frozen=True, slots=True)
class Headings:
    """By effort, the turn of its newest visible heading, and the cosine of it with a meaning."""

    turns: dict[str, int]
    cosines: dict[str, float]


def waiting(
    connection: sqlite3.Connection, probe: Vector, limit: int, most: int = _BYTES
) -> list[Place]:
    """Return the records that have no vector of the model of this probe, the newest first.

    Up to `limit`; it ends with the record that makes them `most` bytes together, and has one in
    any case.
    """
    columns = "SELECT r.branch, r.turn, r.digest, r.file, r.offset, r.length FROM records r"
    missing = " JOIN unembedded u ON u.record = r.id" if fits(connection, probe) else ""
    query = f"{columns}{missing} ORDER BY r.id DESC LIMIT ?"
    found: list[Place] = []
    for row in connection.execute(query, (limit,)):
        found.append(Place(*checked(row, *_PLACE)))
        if sum(place.length for place in found) >= most:
            break
    return found


def places(connection: sqlite3.Connection, records: Sequence[Record]) -> list[Place]:
    """Return where records stand now."""
    query = (
        "SELECT branch, turn, digest, file, offset, length FROM records"
        " WHERE branch = ? AND turn = ?"
    )
    found = (connection.execute(query, (one.branch, one.turn)).fetchone() for one in records)
    return [Place(*checked(row, *_PLACE)) for row in found if row is not None]


def known(connection: sqlite3.Connection) -> bytes | None:
    """Return the probe of the model that the vectors are of; None if there is no model."""
    row = checked(connection.execute("SELECT vector FROM probe").fetchone(), bytes)
    return None if row is None else bytes(row[0])


def fits(connection: sqlite3.Connection, probe: Vector) -> bool:
    """Tell whether the vectors are of the model of this probe."""
    kept = known(connection)
    return kept is not None and same_model(vectors([kept])[0], probe)


def begin(connection: sqlite3.Connection, probe: Vector) -> None:
    """Throw away all vectors, and begin anew with the model of this probe."""
    for table in ("probe", "vectors", "heading_vectors"):
        connection.execute(f"DELETE FROM {table}")  # noqa: S608 (names of ours)
    connection.execute("INSERT INTO probe VALUES (?)", (blob(probe),))
    connection.execute("INSERT OR IGNORE INTO unembedded SELECT id FROM records")


def put(
    connection: sqlite3.Connection, record: Record, said: Vector, headings: Mapping[str, Vector]
) -> bool:
    """Keep the vectors of a record and of the headings it left; False if it is another by now."""
    query = "SELECT id, digest FROM records WHERE branch = ? AND turn = ?"
    place = (record.branch, record.turn)
    row = checked(connection.execute(query, place).fetchone(), int, str)
    if row is None or row[1] != record.digest:
        return False
    connection.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?)", (row[0], blob(said)))
    connection.executemany(
        "INSERT OR REPLACE INTO heading_vectors(branch, turn, effort, vector) VALUES (?, ?, ?, ?)",
        [(*place, effort, blob(vector)) for effort, vector in headings.items()],
    )
    connection.execute("DELETE FROM unembedded WHERE record = ?", (row[0],))
    return True


def nearest(
    connection: sqlite3.Connection, seen: Mapping[str, int], meaning: Meaning, limit: int
) -> list[int]:
    """Return the visible records that are nearest to a meaning, by id, the nearest first."""
    query = (
        "SELECT r.id, v.vector FROM records r CROSS JOIN vectors v ON v.record = r.id"
        " WHERE r.branch = ? AND r.turn <= ?"
    )
    best: list[tuple[float, int]] = []
    for segment in seen.items():
        for rows, found in _scanned(connection.execute(query, segment), meaning.vector):
            top = np.argpartition(-found, min(limit, len(found)) - 1)[:limit]
            best += [(float(found[at]), rows[at][0]) for at in top]
        best = sorted(best, reverse=True)[:limit]
    return [record for cosine, record in best if cosine > 0]


def heads(connection: sqlite3.Connection, seen: Mapping[str, int], meaning: Meaning) -> Headings:
    """Return the newest visible heading of each effort that has a vector."""
    query = (
        "SELECT effort, turn, vector FROM heading_vectors WHERE branch = ? AND turn <= ?"
        " ORDER BY turn"
    )
    found = Headings({}, {})
    for segment in reversed(tuple(seen.items())):
        for rows, near in _scanned(connection.execute(query, segment), meaning.vector):
            efforts, turns, _ = zip(*rows, strict=True)
            found.turns.update(zip(efforts, turns, strict=True))
            found.cosines.update(zip(efforts, near.tolist(), strict=True))
    return found


def vectors_of(connection: sqlite3.Connection, records: Sequence[int], size: int) -> Vectors:
    """Return the vectors of these records by row, of `size` numbers; zeros for one without."""
    query = (
        "SELECT v.record, v.vector FROM json_each(?) j CROSS JOIN vectors v ON v.record = j.value"
    )
    found = np.zeros((len(records), size), np.float32)
    held = dict(connection.execute(query, (json.dumps([*dict.fromkeys(records)]),)))
    places = [at for at, record in enumerate(records) if record in held]
    if places:
        rows = vectors([held[records[at]] for at in places], size)
        if not np.all(np.linalg.norm(rows, axis=1) <= _LONGEST):
            raise IndexDamagedError("a vector is too long")
        found[places] = rows
    return found


def _scanned(
    cursor: sqlite3.Cursor, meant: Vector
) -> Iterator[tuple[list[tuple[Any, ...]], NDArray[np.float32]]]:
    """Yield rows whose last value is a vector, with the cosines of these vectors, in parts."""
    while rows := cursor.fetchmany(_CHUNK):
        found = cosines(vectors([row[-1] for row in rows], len(meant)), meant)
        if not np.all(np.abs(found) <= _LONGEST):
            raise IndexDamagedError("a vector is too long")
        yield rows, found
