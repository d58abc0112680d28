"""The steps in which the checkpoints of a thread are replaced."""

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Seed:
    """A step: write a whole state as the newest of a thread."""

    thread: str


@dataclass(frozen=True, slots=True)
class Delete:
    """A step: delete all checkpoints of a thread."""

    thread: str


@dataclass(frozen=True, slots=True)
class Free:
    """A step: return the thread if it has no state, or one of the same session; else nothing."""

    thread: str


@dataclass(frozen=True, slots=True)
class Prune:
    """A step: delete all checkpoints of a thread but the newest."""

    thread: str


@dataclass(frozen=True, slots=True)
class Sql:
    """A step: run a statement in a SQLite database, and return its rows."""

    statement: str


@dataclass(frozen=True, slots=True)
class Look:
    """A step: return the files of these that hold any of the pieces of text."""

    paths: tuple[Path, ...]
    pieces: tuple[str, ...]


Step: TypeAlias = Seed | Delete | Free | Prune | Sql | Look
Steps: TypeAlias = Generator[Step, list[Any], tuple[str, ...]]
