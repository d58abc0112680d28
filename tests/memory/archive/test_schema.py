"""The numbers of the tables: a session or a turn that would exceed them is an error."""

import pytest
from sqlalchemy import update

from ebbtide import SqlArchive
from ebbtide.memory.archive import schema
from ebbtide.memory.errors import ArchiveError
from tests.memory.turns import SESSION, commit_all, opened, turn, visible


def test_more_than_a_session_holds(archive: SqlArchive) -> None:
    """The turn after the last that there are numbers for is an error that says so."""
    tip = commit_all(archive, [turn(1)])
    with archive.database.writing() as connection:
        full = update(schema.sessions).values(turns=(1 << schema.TURN_BITS) - 1)
        connection.execute(full)

    with pytest.raises(ArchiveError, match="has 4,194,303 turns at most: go on in a new thread"):
        archive.commit(SESSION, tip, turn(2))

    assert len(visible(archive, tip)) == 1


def test_more_than_a_turn_holds(archive: SqlArchive) -> None:
    """A turn with more changes of efforts than there are numbers for is an error that says so."""
    most = [opened(f"e{number}") for number in range(1 << schema.PASSAGE_BITS)]
    tip = commit_all(archive, [turn(1, "", (), most)])

    with pytest.raises(ArchiveError, match="changes efforts 1,024 times at most"):
        archive.commit(SESSION, tip, turn(2, "", (), [*most, opened("more")]))

    assert len(visible(archive, tip)) == 1
