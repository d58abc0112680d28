"""The logs of a session: files of lines that grow, and are rewritten when a turn is erased."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .lines import Line, decode

UNFINISHED = ".new"
"""The end of the name of a file that is being written in the place of another one."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A line as it stands in a log: where, how long, and what it holds, None if damaged."""

    offset: int
    length: int
    line: Line | None
    ended: bool


def append(path: Path, data: bytes, *, durable: bool) -> int:
    """Append a line and return its offset; if writing fails, leave the file as it was."""
    fresh = not path.exists()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _BINARY, 0o666)
    try:
        offset = os.fstat(descriptor).st_size
        try:
            _write(descriptor, data, durable=durable)
        except OSError:
            os.ftruncate(descriptor, offset)
            raise
    except OSError:
        if fresh:
            path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
    if fresh and durable:
        sync_folder(path.parent)
    return offset


def file_size(path: Path) -> int:
    """Return the size of a file in bytes, 0 if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def replace_file(path: Path, data: bytes, *, durable: bool) -> None:
    """Write a file as a whole: afterwards it is the old one or the new one, never half of it."""
    replace_lines(path, (data,), durable=durable)


def replace_lines(path: Path, lines: Iterable[bytes], *, durable: bool) -> None:
    """Do what `replace_file` does with what is made line by line, perhaps from the old file."""
    temporary = path.with_name(f"{path.name}{UNFINISHED}")
    try:
        with temporary.open("wb") as file:
            file.writelines(lines)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def make_folder(path: Path, *, durable: bool) -> None:
    """Make a folder with its parents, each of them durable in its own parent."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing if durable else ():
        sync_folder(folder.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable, where the system can do that."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read(path: Path, start: int = 0) -> Iterator[Stored]:
    r"""Yield the lines of a log from an offset on; only `\n` ends a line."""
    with path.open("rb") as file:
        file.seek(start)
        for raw in file:
            yield Stored(start, len(raw), decode(raw), raw.endswith(b"\n"))
            start += len(raw)


def _write(descriptor: int, data: bytes, *, durable: bool) -> None:
    written = os.write(descriptor, data)
    while written < len(data):
        # The disk is full, and says so only now; or the line is longer than one write may be.
        written += os.write(descriptor, data[written:])
    if durable:
        os.fsync(descriptor)


_BINARY = getattr(os, "O_BINARY", 0)
