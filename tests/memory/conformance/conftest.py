"""The archives that the conformance suite runs against."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.disk.archive import DiskArchive


@pytest.fixture(params=["disk"])
def archive(tmp_path: Path) -> Iterator[Archive]:
    """Yield an empty archive of every kind, one after the other."""
    with DiskArchive(tmp_path / "sessions", durable=False) as disk:
        yield disk
