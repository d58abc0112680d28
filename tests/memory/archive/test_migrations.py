"""Migrating the tables of older versions: all of it or nothing, on both databases."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, inspect

from ebbtide import SqlArchive
from ebbtide.memory.archive import migrations, schema
from ebbtide.memory.archive.index import add_terms, remove_terms
from ebbtide.memory.errors import ArchiveFormatError
from tests.memory.turns import OWNER, commit_all, concluded, opened, turn, visible


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Return the place of an empty database of each kind."""
    return tmp_path if request.param == "sqlite" else request.getfixturevalue("database").url


def test_newer_tables(address: Path | str) -> None:
    """Tables that a newer program has made are not touched."""
    with SqlArchive(address) as archive:
        tip = commit_all(archive, [turn(1)])
        with archive.database.writing() as connection:
            connection.exec_driver_sql("UPDATE ebbtide_version SET version = 99")
        later = SqlArchive(address)
        with pytest.raises(ArchiveFormatError, match=r"tables of version 99.*install a newer"):
            later.commit(OWNER, tip, turn(2))
        later.close()

        assert len(visible(archive, tip)) == 1


@pytest.mark.parametrize("number", [0, -1])
def test_tables_of_no_version(tmp_path: Path, number: int) -> None:
    """Tables of a version that never was are not touched either."""
    with SqlArchive(tmp_path) as archive:
        commit_all(archive, [turn(1)])
        with archive.database.writing() as connection:
            connection.exec_driver_sql(f"UPDATE ebbtide_version SET version = {number}")  # noqa: S608 (ours)

    with (
        SqlArchive(tmp_path) as later,
        pytest.raises(ArchiveFormatError, match=f"of version {number}, .* from a backup"),
    ):
        later.users()


def test_a_migration_leads_from_every_version() -> None:
    """There is a migration to each version but the first."""
    assert [*migrations.MIGRATIONS] == [*range(2, schema.VERSION + 1)]


def _widen(connection: Connection) -> None:
    connection.exec_driver_sql("ALTER TABLE ebbtide_sessions ADD COLUMN second TEXT")


def _fill(connection: Connection) -> None:
    connection.exec_driver_sql("UPDATE ebbtide_sessions SET second = 'filled'")
    connection.exec_driver_sql("CREATE TABLE ebbtide_third (id INTEGER)")


def _fail(connection: Connection) -> None:
    _fill(connection)
    connection.exec_driver_sql("SELECT * FROM nowhere")


def _version_and_columns(archive: SqlArchive) -> tuple[Any, list[str]]:
    """Return the version of the tables and the columns of sessions."""
    with archive.database._engine.connect() as connection:
        number = connection.exec_driver_sql("SELECT version FROM ebbtide_version").scalar()
        columns = inspect(connection).get_columns("ebbtide_sessions")
        return number, [column["name"] for column in columns]


def test_older_tables(address: Path | str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older tables are changed in one transaction: if it is cut off in the middle, not at all."""
    with SqlArchive(address) as archive:
        tip = commit_all(archive, [turn(1)])
        before = _version_and_columns(archive)
    monkeypatch.setattr(schema, "VERSION", 4)

    monkeypatch.setattr(migrations, "MIGRATIONS", {3: _widen, 4: _fail})
    with SqlArchive(address) as failed:
        with pytest.raises(ArchiveFormatError, match="nowhere"):
            failed.users()
        assert _version_and_columns(failed) == before
    monkeypatch.setattr(migrations, "MIGRATIONS", {3: _widen, 4: _fill})
    with SqlArchive(address) as later:
        assert later.users() == (OWNER.user,)
        assert _version_and_columns(later) == (4, [*before[1], "second"])
        assert len(visible(later, commit_all(later, [turn(2)], tip))) == 2


def _first_version(archive: SqlArchive) -> None:
    """Change the tables back into those of version 1, which knew nothing of passages."""
    with archive.database.writing() as connection:
        connection.exec_driver_sql("ALTER TABLE ebbtide_turns DROP COLUMN passages")
        connection.exec_driver_sql("UPDATE ebbtide_version SET version = 1")
        for table in (schema.said, schema.headed):
            number = schema.passage_id(schema.turn_id(1, 1))
            for place in range(4):
                rows = [(number + place, ["stale"])]
                if not archive.database.sqlite:
                    remove_terms(connection, table, 1, rows)
                add_terms(connection, table, 1, rows)


def test_what_the_first_version_wrote(address: Path | str) -> None:
    """Turns of version 1 are searched by passages like new ones, and in no other way."""
    text = f"The certificate expires in May. {'Nothing else is said here. ' * 60} Renew it then."
    events = [concluded("tls", "Renewed the certificate.")]
    groups = [turn(1, text, ["tls"], [opened("tls")]), turn(2, "Done.", ["tls"], events)]
    with SqlArchive(address, durable=False) as archive:
        tip = commit_all(archive, groups)
        before = [
            archive.search_passages(OWNER, tip, query, 9) for query in ("renew", "certificate")
        ]
        _first_version(archive)

    with SqlArchive(address, durable=False) as later:
        after = [later.search_passages(OWNER, tip, query, 9) for query in ("renew", "certificate")]
        assert after == before
        assert {one.passage for one in after[0]} > {2}
        assert later.search(OWNER, tip, "stale", 9) == ()
