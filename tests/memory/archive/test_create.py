"""The number of the schema: tables of another number are refused and left as they are."""

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from ebbtide import SqlArchive
from ebbtide.memory.archive import schema
from ebbtide.memory.archive.database import FILE
from ebbtide.memory.errors import ArchiveFormatError
from ebbtide.memory.turn import Tip
from tests.memory.turns import SESSION, commit_all, turn, visible


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Return the place of an empty database of each kind."""
    return tmp_path if request.param == "sqlite" else request.getfixturevalue("database").url


def test_tables_of_the_version_before(address: Path | str) -> None:
    """They are changed when they are opened; what they have is there, and can be gone on from."""
    with SqlArchive(address) as archive:
        tip = commit_all(archive, [turn(1), turn(2)])
        with archive.database.writing() as connection:
            for change in (
                "DROP INDEX ebbtide_turns_origin",
                "ALTER TABLE ebbtide_turns DROP COLUMN origin",
                "ALTER TABLE ebbtide_users DROP COLUMN going",
                "UPDATE ebbtide_version SET version = 4",
            ):
                connection.exec_driver_sql(change)

    for _ in range(2):
        with SqlArchive(address) as later:
            copied = replace(turn(2, "edited"), origin=tip.id)
            edited = later.commit(SESSION, Tip(1, later.load(SESSION, tip).ids([1])[1]), copied)
            assert later.load(SESSION, edited.tip).turns([2])[0].origin == tip.id
            assert visible(later, tip) == ["question 1", "question 2"]
            assert [one for one in later.verify(SESSION) if one.fatal] == []


@pytest.mark.parametrize("number", [schema.VERSION - 2, schema.VERSION + 1, 99])
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


def set_version(address: Path | str, number: int) -> None:
    """Give the tables another version, as a program that runs beside this one."""
    engine = create_engine(f"sqlite:///{address / FILE}" if isinstance(address, Path) else address)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE ebbtide_version SET version = {number}")  # noqa: S608 (ours)
    engine.dispose()


@pytest.mark.parametrize("number", [99, schema.VERSION + 1])
def test_a_version_that_changes_while_an_archive_is_open(address: Path | str, number: int) -> None:
    """Nothing is written any more, whatever it is; what is there is read."""
    with SqlArchive(address) as archive:
        tip = commit_all(archive, [turn(1)])
        set_version(address, number)
        for write in (
            lambda: archive.commit(SESSION, tip, turn(2)),
            lambda: archive.delete_session(SESSION),
            lambda: archive.delete_user(SESSION.user),
        ):
            archive.database._ready = True  # as in a process that runs on
            with pytest.raises(ArchiveFormatError, match=f"version {number}, .* nothing was writ"):
                write()
        set_version(address, schema.VERSION)

        assert len(visible(archive, tip)) == 1
        assert len(visible(archive, archive.commit(SESSION, tip, turn(2)).tip)) == 2


def test_a_version_that_changes_while_a_writer_waits(address: Path | str) -> None:
    """Who waits for the one that changes it is told of the new version, and writes nothing."""
    with SqlArchive(address) as archive, ThreadPoolExecutor() as threads:
        tip = commit_all(archive, [turn(1)])
        with SqlArchive(address) as another, another.database._engine.connect() as connection:
            connection.execution_options(ebbtide_writes=True)
            with connection.begin():
                if not another.database.sqlite:  # a file has one writer
                    connection.exec_driver_sql("LOCK TABLE ebbtide_version")
                connection.exec_driver_sql("UPDATE ebbtide_version SET version = 99")
                written = threads.submit(archive.commit, SESSION, tip, turn(2))
                assert not wait([written], timeout=0.3).done
        with pytest.raises(ArchiveFormatError, match="use the ebbtide that changed them"):
            written.result()
        set_version(address, schema.VERSION)

        assert len(visible(archive, tip)) == 1
