"""The number of the schema: tables of another number are refused and left as they are."""

from pathlib import Path

import pytest

from ebbtide import SqlArchive
from ebbtide.memory.archive import schema
from ebbtide.memory.errors import ArchiveFormatError
from tests.memory.turns import SESSION, commit_all, turn, visible


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Return the place of an empty database of each kind."""
    return tmp_path if request.param == "sqlite" else request.getfixturevalue("database").url


@pytest.mark.parametrize("number", [schema.VERSION - 1, schema.VERSION + 1, 99])
def test_tables_of_another_version(address: Path | str, number: int) -> None:
    """The error names both numbers and what to do; nothing is read or written."""
    with SqlArchive(address) as archive:
        tip = commit_all(archive, [turn(1)])
        with archive.database.writing() as connection:
            connection.execute(schema.version.update().values(version=number))
        known = f"tables of version {number}, this program knows version {schema.VERSION}: use"
        with SqlArchive(address) as later:
            with pytest.raises(ArchiveFormatError, match=known):
                later.users()
            with pytest.raises(ArchiveFormatError, match=known):
                later.commit(SESSION, tip, turn(2))

        assert len(visible(archive, tip)) == 1
