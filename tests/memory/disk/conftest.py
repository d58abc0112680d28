"""An archive on disk, and the folder of its session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbtide.memory.disk.archive import DiskArchive


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the folder of the archive."""
    return tmp_path / "sessions"


@pytest.fixture
def folder(root: Path) -> Path:
    """Return the folder of the session that the tests write."""
    return root / "ann" / "t1"


@pytest.fixture
def archive(root: Path) -> Iterator[DiskArchive]:
    """Yield an empty archive on disk."""
    with DiskArchive(root, durable=False) as disk:
        yield disk
