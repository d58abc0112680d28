"""The archives that the conformance suite runs against.

The suite is the contract of `memory/archive/protocol.py`, one file for each thing that any archive
can do. What belongs to a database or a folder is in `tests/memory/archive`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.testing import InMemoryArchive
from tests.agents import archive_in
from tests.databases import emptied


@pytest.fixture(params=["sqlite", "postgresql", pytest.param("memory", marks=pytest.mark.soak)])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlArchive]:
    """Yield an empty archive of every kind, one after the other.

    `numpy` is one in a database without pgvector, for tests of vectors alone.
    """
    if request.param == "sqlite":
        with archive_in(tmp_path / "sessions") as kept:
            yield kept
    elif request.param == "memory":
        with InMemoryArchive() as kept:
            yield kept
    elif request.param == "numpy":
        with SqlArchive(request.getfixturevalue("database").url, extensions=False) as kept:
            yield kept
    else:
        with emptied(request.getfixturevalue("shared_database")) as kept:
            yield kept
