"""The archives that the conformance suite runs against."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbtide.memory.archive.sql import DiskArchive, SqlArchive
from tests.databases import emptied


@pytest.fixture(params=["sqlite", "postgresql"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlArchive]:
    """Yield an empty archive of every kind, one after the other."""
    if request.param == "sqlite":
        with DiskArchive(tmp_path / "sessions", durable=False) as kept:
            yield kept
    else:
        with emptied(request.getfixturevalue("shared_database")) as kept:
            yield kept
