"""Reading records from the places that the index names."""

import os
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import BinaryIO

from ..record import Record
from .damage import IndexDamagedError
from .folder import Folder
from .index import Place
from .lines import decode
from .records_cache import RecordsCache


def records(
    folder: Folder, places: Iterable[Place], cache: RecordsCache, generation: int
) -> tuple[Record, ...]:
    """Return the records of these places, ascending.

    Raises `IndexDamagedError` if one does not stand where the index says: built anew, the index
    names the places of those that can be read.
    """
    found: list[Record] = []
    missing: list[Place] = []
    for place in places:
        held = cache.get((generation, place.branch, place.turn))
        if held is None:
            missing.append(place)
        else:
            found.append(held)
    for place, record in _read(folder, missing):
        cache.put((generation, place.branch, place.turn), record, place.length)
        found.append(record)
    return tuple(sorted(found, key=attrgetter("turn")))


def _read(folder: Folder, places: Iterable[Place]) -> Iterator[tuple[Place, Record]]:
    ordered = sorted(places, key=attrgetter("file", "offset"))
    for name, group in groupby(ordered, key=attrgetter("file")):
        wanted = list(group)
        for place, line in zip(wanted, _lines(folder, name, wanted), strict=True):
            record = decode(line)
            if isinstance(record, Record) and _same(record, place):
                yield place, record
            else:
                raise IndexDamagedError(f"turn {place.turn} cannot be read from {name!r}")


def _lines(folder: Folder, name: str, places: list[Place]) -> list[bytes]:
    try:
        with (folder.path / name).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return [_line(file, size, place) for place in places]
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, ValueError):
        return [b""] * len(places)  # the log is gone, or what the index says is no name of one


def _line(file: BinaryIO, size: int, place: Place) -> bytes:
    if not 0 <= place.offset < place.offset + place.length <= size:
        return b""
    file.seek(place.offset)
    return file.read(place.length)


def _same(record: Record, place: Place) -> bool:
    found = (record.branch, record.turn, record.digest)
    return found == (place.branch, place.turn, place.digest)
