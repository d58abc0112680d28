"""The steps in which the checkpoints of a thread are replaced."""

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Seed:
    """A step: write the state that remains as the newest of the thread."""


@dataclass(frozen=True, slots=True)
class Delete:
    """A step: delete all checkpoints of the thread."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A step: let the archive hold the state that remains of the thread."""


@dataclass(frozen=True, slots=True)
class LetGo:
    """A step: let the archive hold no state of the thread any more."""


@dataclass(frozen=True, slots=True)
class Prune:
    """A step: delete all checkpoints of the thread but the newest."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """A step: remove what PostgreSQL still has of the thread, its newest checkpoint aside.

    It returns nothing if the planner's samples stay.
    """


@dataclass(frozen=True, slots=True)
class Sql:
    """A step: run a statement in a SQLite database, and return its rows."""

    statement: str


@dataclass(frozen=True, slots=True)
class Look:
    """A step: return the files of these that hold any of the pieces of text."""

    paths: tuple[Path, ...]
    pieces: tuple[str, ...]


Step: TypeAlias = Seed | Delete | Hold | LetGo | Prune | Sweep | Sql | Look
Steps: TypeAlias = Generator[Step, list[Any], tuple[str, ...]]
