"""The places in which faults are tested."""

from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.databases import Server
from tests.faults.places import Place


@pytest.fixture(scope="session")
def template(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the name of a database with all tables and no rows, from which others are made."""
    place = Place(tmp_path_factory.mktemp("template"), postgres.database().uri).begun()
    with place.archive() as archive:
        archive.users()
    return str(make_url(place.uri).database)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return an empty place of each kind."""
    if request.param == "sqlite":
        return Place(tmp_path).begun()
    server: Server = request.getfixturevalue("postgres")
    return Place(tmp_path, server.database(request.getfixturevalue("template")).uri)
