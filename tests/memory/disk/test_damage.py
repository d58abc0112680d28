"""Damage: an index that holds anything else than was written into it is built anew, once."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ebbtide.memory.disk.archive import DiskArchive
from ebbtide.memory.disk.damage import IndexDamagedError, checked, noticed
from ebbtide.memory.record import Tip
from tests.memory.disk.answers import answers, populate
from tests.memory.turns import OWNER, commit_all, turn, visible

DAMAGE = [
    "UPDATE changes SET entry = '{}'",
    "UPDATE changes SET entry = '{'",
    "UPDATE changes SET entry = '[1]'",
    "UPDATE changes SET entry = CAST(x'fffe' AS TEXT)",
    "UPDATE changes SET entry = x'00'",
    "UPDATE changes SET effort = CAST(x'ff' AS TEXT)",
    "UPDATE records SET offset = -5",
    "UPDATE records SET offset = 'x'",
    "UPDATE records SET offset = offset + 1",
    "UPDATE records SET length = 10000000000",
    "UPDATE records SET length = -1",
    "UPDATE records SET file = CAST(x'ff' AS TEXT)",
    "UPDATE records SET file = 'efforts'",
    "UPDATE records SET file = 'no log'",
    "UPDATE records SET file = 'raw.jsonl/x'",
    "UPDATE records SET file = CAST(x'00' AS TEXT)",
    "UPDATE records SET turn = 'x' WHERE turn = 4",
    "UPDATE records SET digest = 'x' WHERE turn = 3",
    "UPDATE records SET ambient = 'x'",
    "DELETE FROM records WHERE branch <> 'main'",
    "UPDATE branches SET upto = 'x'",
    "UPDATE files SET size = 'x'",
    "DROP TABLE members",
]


@pytest.mark.parametrize("statement", DAMAGE)
def test_damaged_rows(archive: DiskArchive, root: Path, folder: Path, statement: str) -> None:
    """Whatever a row holds, every question is answered as before."""
    populate(archive)
    expected = answers(root)
    archive.close()
    with closing(sqlite3.connect(folder / "index.sqlite", isolation_level=None)) as connection:
        connection.execute(statement)

    assert answers(root) == expected


@pytest.mark.parametrize("statement", DAMAGE)
def test_damaged_rows_before_a_commit(archive: DiskArchive, folder: Path, statement: str) -> None:
    """Whatever a row holds, the next turn is committed and can be read."""
    tip = populate(archive)
    archive.close()
    with closing(sqlite3.connect(folder / "index.sqlite", isolation_level=None)) as connection:
        connection.execute(statement)

    record = archive.commit(OWNER, tip, turn(5))

    assert visible(archive, record.tip)[-1] == "question 5"
    assert archive.verify(OWNER)[1:] == ()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE records SET digest = 'x'",
        "DELETE FROM records WHERE turn = 4",
        "DELETE FROM records",
        "UPDATE records SET turn = 40 WHERE turn = 4",
    ],
)
def test_a_gap_of_the_index_is_none(
    archive: DiskArchive, folder: Path, statement: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A turn whose parent only the index lacks follows it, once the index is built anew."""
    tip = populate(archive)
    archive.close()
    with closing(sqlite3.connect(folder / "index.sqlite", isolation_level=None)) as connection:
        connection.execute(statement)

    record = archive.commit(OWNER, tip, turn(5))

    assert (record.branch, record.parent, record.gap) == ("main", tip.digest, False)
    assert visible(archive, record.tip)[-2:] == ["question 4", "question 5"]
    assert caplog.text.count("built anew") == 1


def test_a_real_gap_costs_one_rebuild(
    archive: DiskArchive, tip_of_five: Tip, caplog: pytest.LogCaptureFixture
) -> None:
    """What the index built anew lacks as well is accepted as missing, and the next turn follows."""
    tip = archive.commit(OWNER, Tip("main", 8, "8" * 16), turn(9)).tip
    record = archive.commit(OWNER, tip, turn(10))

    assert (record.branch, record.gap) == (tip_of_five.branch, False)
    assert caplog.text.count("built anew") == 1


def test_the_newest_turn_is_named_as_it_stands_in_its_log(
    archive: DiskArchive, folder: Path, tip_of_five: Tip
) -> None:
    """A wrong digest in the index is not handed out."""
    archive.close()
    with closing(sqlite3.connect(folder / "index.sqlite", isolation_level=None)) as connection:
        connection.execute("UPDATE records SET digest = 'x'")

    assert archive.newest(OWNER) == tip_of_five


def test_damaged_schema(archive: DiskArchive, root: Path, folder: Path) -> None:
    """A schema that is no UTF-8, which SQLite cannot even report, is replaced."""
    populate(archive)
    expected = answers(root)
    archive.close()
    path = folder / "index.sqlite"
    path.write_bytes(path.read_bytes().replace(b"branchesbranches", b"\xff" * 16))

    assert answers(root) == expected


def test_line_removed_while_open(archive: DiskArchive, folder: Path, tip_of_five: Tip) -> None:
    """Turns behind a line that was removed are found where they stand now."""
    raw = folder / "raw.jsonl"
    lines = raw.read_bytes().splitlines(keepends=True)
    raw.write_bytes(b"".join(lines[:1] + lines[2:]))

    expected = ["question 1", "question 3", "question 4", "question 5"]
    assert visible(archive, tip_of_five) == expected


def test_lines_swapped_while_open(archive: DiskArchive, folder: Path, tip_of_five: Tip) -> None:
    """Turns whose lines were exchanged are not taken for each other."""
    raw = folder / "raw.jsonl"
    lines = raw.read_bytes().splitlines(keepends=True)
    raw.write_bytes(b"".join(reversed(lines)))

    expected = ["question 1", "question 2", "question 3", "question 4", "question 5"]
    assert visible(archive, tip_of_five) == expected


def test_index_is_rebuilt_once(
    archive: DiskArchive, folder: Path, tip_of_five: Tip, caplog: pytest.LogCaptureFixture
) -> None:
    """A turn that is gone from its log costs one rebuild, not one for each question."""
    raw = folder / "raw.jsonl"
    raw.write_bytes(b"".join(raw.read_bytes().splitlines(keepends=True)[:4]))

    assert [visible(archive, tip_of_five)[-1] for _ in range(3)] == ["question 4"] * 3
    assert caplog.text.count("built anew") == 1


def test_wrong_use_of_sqlite_is_no_damage() -> None:
    """An error that says nothing about the file is raised as it is."""
    connection = sqlite3.connect(":memory:")
    connection.close()

    with pytest.raises(sqlite3.ProgrammingError), noticed():
        connection.execute("SELECT 1")


def test_checked_rows() -> None:
    """A row of the right kinds, or none, is returned; any other is damage."""
    assert checked(("a", 1), str, int) == ("a", 1)
    assert checked(None, str) is None
    with pytest.raises(IndexDamagedError, match="cannot be a row"):
        checked(("a", "1"), str, int)


@pytest.fixture
def tip_of_five(archive: DiskArchive) -> Tip:
    """Return the tip of a session of five turns, none of which was read before."""
    tip = commit_all(archive, [turn(number) for number in range(1, 6)])
    archive.close()
    assert archive.tips(OWNER) == (tip,)
    return tip
