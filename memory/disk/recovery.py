"""Opening the index of a session: as it is, brought up to date, or built anew from the logs."""

import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..record import Record
from .damage import IndexDamagedError, noticed
from .folder import FORMAT, Folder, description, logs
from .index import Place
from .indexing import add, add_compressed, intents, known_size, known_sizes, set_sizes, settle
from .lines import Compressed, Reference, encode_reference
from .log import Stored, append, file_size, read
from .projection import reconcile, touched
from .schema import VERSION, connect, create, delete, transaction, version
from .search_rows import said

_log = logging.getLogger("ebbtide.archive")

_Fit: TypeAlias = Callable[[Folder, sqlite3.Connection], bool]


@dataclass(frozen=True, slots=True)
class Unindexed:
    """A line that the index does not know yet; a record without its messages, but their terms."""

    file: str
    stored: Stored
    said: tuple[str, ...] = ()


def current(folder: Folder) -> sqlite3.Connection | None:
    """Open the index if it says exactly what the files say; needs no lock."""
    said = description(folder)
    if (said is not None and said["format"] != FORMAT) or not folder.index.exists():
        return None
    if folder.erasing.exists():
        return None
    return _opened(folder, _says_what_the_files_say)


def behind(folder: Folder, connection: sqlite3.Connection, names: Iterable[str]) -> bool:
    """Tell whether the files say more than the index, or other things, before these logs grow.

    A commit or an erasure was cut off, the manifest was edited, or a log has another size.
    """
    return (
        bool(intents(connection))
        or folder.erasing.exists()
        or touched(folder, connection)
        or any(known_size(connection, name) != file_size(folder.path / name) for name in names)
    )


def repaired(folder: Folder) -> sqlite3.Connection:
    """Open the index and bring it up to date, from nothing if need be; needs the lock."""
    connection = _opened(folder, _can_be_continued) if folder.index.exists() else None
    if connection is None:
        delete(folder.index)
        connection = connect(folder.index, durable=folder.durable)
    try:
        if version(connection) != VERSION or not _says_what_the_files_say(folder, connection):
            _catch_up(folder, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _catch_up(folder: Folder, connection: sqlite3.Connection) -> None:
    """Index what logs that can be continued hold beyond it, and complete what a crash cut off."""
    with transaction(connection):
        if version(connection) != VERSION:
            create(connection)
        found = list(_found(folder, connection))
        _complete_references(folder, found)
        for item, record in sorted(_records(found), key=lambda pair: pair[1].turn):
            stored = item.stored
            where = (item.file, stored.offset, stored.length)
            place = Place(record.branch, record.turn, record.digest, *where)
            if not add(connection, record, place, item.said):
                _log.warning("%s: turn %d is there twice", item.file, record.turn)
        for item, line in _compressed(found):
            add_compressed(connection, line, (item.stored.offset, item.stored.length))
        set_sizes(connection, folder.sizes())
        reconcile(folder, connection)
        settle(connection)


def _opened(folder: Folder, fit: _Fit) -> sqlite3.Connection | None:
    connection = None
    try:
        with noticed():
            connection = connect(folder.index, durable=folder.durable)
            if version(connection) == VERSION and fit(folder, connection):
                return connection
    except IndexDamagedError as error:
        _log.warning("%s is damaged: %s", folder.index, error)
    if connection is not None:
        connection.close()
    return None


def _says_what_the_files_say(folder: Folder, connection: sqlite3.Connection) -> bool:
    return (
        not intents(connection)
        and known_sizes(connection) == folder.sizes()
        and not touched(folder, connection)
    )


def _can_be_continued(folder: Folder, connection: sqlite3.Connection) -> bool:
    sizes = folder.sizes()
    return all(
        known <= sizes.get(name, -1) and _ends_a_line(folder, name, known)
        for name, known in known_sizes(connection).items()
        if known != sizes.get(name)
    )


def _ends_a_line(folder: Folder, name: str, offset: int) -> bool:
    with (folder.path / name).open("rb") as file:
        file.seek(max(offset - 1, 0))
        return offset == 0 or file.read(1) == b"\n"


def _found(folder: Folder, connection: sqlite3.Connection) -> Iterator[Unindexed]:
    known = known_sizes(connection)
    for name, size in sorted(folder.sizes().items()):
        start = known.get(name, 0)
        if size > start:
            yield from _end(folder, name, start)


def _end(folder: Folder, name: str, start: int) -> list[Unindexed]:
    """Return the lines of a log from an offset on; a torn last line is cut off.

    Half a line never has its end, so a damaged line that has it was once whole: it is kept.
    """
    path = folder.path / name
    found = [_light(name, stored) for stored in read(path, start)]
    if found and not found[-1].stored.ended:
        torn = found.pop().stored
        _log.warning("%s: a torn last line of %d bytes is cut off", path, torn.length)
        os.truncate(path, torn.offset)
    for item in found:
        if item.stored.line is None:
            _log.warning("%s: the line at byte %d is damaged", path, item.stored.offset)
    return found


def _light(name: str, stored: Stored) -> Unindexed:
    if isinstance(stored.line, Record):
        bare = replace(stored, line=replace(stored.line, messages=()))
        return Unindexed(name, bare, said(stored.line))
    return Unindexed(name, stored)


def _records(found: Iterable[Unindexed]) -> Iterator[tuple[Unindexed, Record]]:
    for item in found:
        if isinstance(item.stored.line, Record):
            yield item, item.stored.line


def _compressed(found: Iterable[Unindexed]) -> Iterator[tuple[Unindexed, Compressed]]:
    for item in found:
        if isinstance(item.stored.line, Compressed):
            yield item, item.stored.line


def _complete_references(folder: Folder, found: Iterable[Unindexed]) -> None:
    present = {
        (item.file, item.stored.line) for item in found if isinstance(item.stored.line, Reference)
    }
    for item, record in _records(found):
        reference = Reference(record.branch, record.turn, item.file)
        for name in logs(record.efforts)[1:]:
            if (name, reference) not in present:
                line = encode_reference(reference)
                append(folder.path / name, line, durable=folder.durable)
