"""Compressions of open efforts, and the log of how they were made."""

import json
from dataclasses import asdict

from ..errors import ArchiveError
from ..record import Tip
from ..salience import Compression, ExtractionEntry
from .damage import IndexDamagedError
from .folder import COMPRESSED, Folder
from .index import Stretch
from .indexing import add_compressed, intend, set_sizes, settle
from .lines import Compressed, decode, encode_compressed, plain
from .log import append
from .schema import transaction
from .session import Opened, Session


def commit(session: Session, tip: Tip, made: Compression) -> Compression:
    """Store a compression once for its effort and tip; see `Archive.commit_compression`."""
    if made.turn != tip.turn:
        raise ArchiveError(
            f"a compression made after turn {made.turn} cannot be stored for turn {tip.turn}"
        )

    def write(opened: Opened) -> Compression:
        stretch = opened.index.compression(tip, made.effort)
        if stretch is not None and (stretch.branch, stretch.turn) == (tip.branch, tip.turn):
            return _read(session.folder, stretch, made.effort)
        return _written(session.folder, opened, Compressed(tip.branch, made))

    return session.write((COMPRESSED,), write)


def newest(session: Session, tip: Tip, effort_id: str) -> Compression | None:
    """Return the newest visible compression of an effort; see `Archive.compression`."""

    def read(opened: Opened) -> Compression | None:
        stretch = opened.index.compression(tip, effort_id)
        return None if stretch is None else _read(session.folder, stretch, effort_id)

    return session.read(read, None)


def log(session: Session, entry: ExtractionEntry) -> None:
    """Append to the log of extractions; see `Archive.log_extraction`."""
    folder = session.folder
    line = json.dumps(plain({"v": 1, **asdict(entry)}), ensure_ascii=False) + "\n"
    session.write((), lambda _: append(folder.extractions, line.encode(), durable=folder.durable))


def _written(folder: Folder, opened: Opened, compressed: Compressed) -> Compression:
    connection, line = opened.connection, encode_compressed(compressed)
    intend(connection, (COMPRESSED,))
    offset = append(folder.path / COMPRESSED, line, durable=folder.durable)
    with transaction(connection):
        add_compressed(connection, compressed, (offset, len(line)))
        set_sizes(connection, {COMPRESSED: offset + len(line)})
        settle(connection)
    return _decoded(line).made


def _read(folder: Folder, stretch: Stretch, effort_id: str) -> Compression:
    """Read a compression; what does not stand where the index says is looked for again."""
    try:
        with (folder.path / COMPRESSED).open("rb") as file:
            file.seek(stretch.offset)
            found = _decoded(file.read(stretch.length))
    except FileNotFoundError as error:
        raise IndexDamagedError(f"{COMPRESSED} is missing") from error
    if (found.branch, found.made.turn, found.made.effort) != (*_place(stretch), effort_id):
        raise IndexDamagedError(f"{COMPRESSED} says something else at {stretch.offset}")
    return found.made


def _place(stretch: Stretch) -> tuple[str, int]:
    return stretch.branch, stretch.turn


def _decoded(line: bytes) -> Compressed:
    found = decode(line)
    if not isinstance(found, Compressed):
        raise IndexDamagedError(f"no compression: {line[:80]!r}")
    return found
