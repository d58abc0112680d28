"""The archives that sessions are taken from and to."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TypeAlias

import pytest

from ebbtide.memory.archive.sql import SqlArchive
from tests.databases import Server

Make: TypeAlias = Callable[[], SqlArchive]
"""Makes an empty archive; each call another one."""


@pytest.fixture(params=["sqlite", "postgresql"])
def make(request: pytest.FixtureRequest, tmp_path: Path, postgres: Server) -> Iterator[Make]:
    """Yield what makes archives of every kind, one kind after the other."""
    numbers = count(1)

    def place() -> str:
        if request.param == "postgresql":
            return postgres.database().url
        return str(tmp_path / f"archive{next(numbers)}")

    with ExitStack() as opened:
        yield lambda: opened.enter_context(SqlArchive(place(), durable=False))


@pytest.fixture
def archive(make: Make) -> SqlArchive:
    """Return an empty archive of every kind."""
    return make()


@pytest.fixture
def another(make: Make) -> SqlArchive:
    """Return another empty archive of the same kind."""
    return make()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SqlArchive]:
    """Yield an empty archive in a SQLite file, where the kind does not matter."""
    with SqlArchive(tmp_path / "disk", durable=False) as kept:
        yield kept
