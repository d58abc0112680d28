"""The places in which acceptance tests are killed."""

from pathlib import Path

import pytest

from tests.databases import Server
from tests.faults.places import Place


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return an empty place of each kind, with tables for checkpoints."""
    if request.param == "sqlite":
        return Place(tmp_path / "place").begun()
    server: Server = request.getfixturevalue("postgres")
    return Place(tmp_path / "place", server.database().uri).begun()
