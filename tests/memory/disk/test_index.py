"""The index: a cache that may be deleted, damaged or outdated at any time."""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from ebbtide.memory.disk.archive import DiskArchive
from ebbtide.memory.record import Owner
from tests.memory.conformance.test_lineage import STEPS, Step, run
from tests.memory.disk.answers import answers, populate
from tests.memory.turns import OWNER, commit_all, turn, visible


def test_deleted_index_is_rebuilt(archive: DiskArchive, root: Path, folder: Path) -> None:
    """Without its index a session answers the same."""
    populate(archive)
    expected = answers(root)
    archive.close()
    (folder / "index.sqlite").unlink()

    assert answers(root) == expected


def test_index_deleted_while_open(archive: DiskArchive, folder: Path) -> None:
    """An index that is deleted while it is open is rebuilt at the next question."""
    tip = commit_all(archive, [turn(1)])
    (folder / "index.sqlite").unlink()
    assert visible(archive, tip) == ["question 1"]
    (folder / "index.sqlite").unlink()

    tip = commit_all(archive, [turn(2)], tip)

    assert visible(archive, tip) == ["question 1", "question 2"]


@pytest.mark.parametrize("left", ["index.sqlite-wal", "index.sqlite-shm"])
def test_rest_of_a_deleted_index_is_no_index(
    archive: DiskArchive, root: Path, folder: Path, left: str
) -> None:
    """What SQLite kept beside a deleted index is not played into the new one."""
    populate(archive)
    expected = answers(root)
    archive.close()
    (folder / "index.sqlite").unlink()
    (folder / left).write_bytes(b"left" * 5000)

    assert answers(root) == expected


@pytest.mark.parametrize("data", [b"", b"no database" * 100, b"SQLite format 3\0" + b"x" * 8192])
def test_damaged_index_is_rebuilt(
    archive: DiskArchive, root: Path, folder: Path, data: bytes
) -> None:
    """An index that is no database is replaced."""
    populate(archive)
    expected = answers(root)
    archive.close()
    (folder / "index.sqlite").write_bytes(data)

    assert answers(root) == expected


def test_index_damaged_inside_is_rebuilt(archive: DiskArchive, root: Path, folder: Path) -> None:
    """An index whose pages are overwritten behind the first is replaced when that shows."""
    populate(archive)
    expected = answers(root)
    archive.close()
    whole = (folder / "index.sqlite").read_bytes()
    (folder / "index.sqlite").write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))

    assert answers(root) == expected


def damage(folder: Path, table: str) -> None:
    """Overwrite the page on which a table of the index begins."""
    with closing(sqlite3.connect(folder / "index.sqlite")) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        (page,) = connection.execute(query, (table,)).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with (folder / "index.sqlite").open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)


def test_damage_found_by_a_question(archive: DiskArchive, root: Path, folder: Path) -> None:
    """Damage that shows when a question is asked is mended, and the question answered."""
    populate(archive)
    expected = answers(root)
    archive.close()
    damage(folder, "members")

    assert answers(root) == expected


def test_damage_found_by_a_commit(archive: DiskArchive, folder: Path) -> None:
    """Damage that shows in the middle of a commit is mended, and the turn stored once."""
    tip = commit_all(archive, [turn(1)])
    archive.close()
    damage(folder, "ambient")

    record = archive.commit(OWNER, tip, turn(2))
    assert (record.branch, visible(archive, record.tip)) == ("main", ["question 1", "question 2"])
    assert archive.verify(OWNER) == ()


def test_index_that_lacks_a_table_is_rebuilt(
    archive: DiskArchive, root: Path, folder: Path
) -> None:
    """An index of the right version without one of its tables is replaced."""
    populate(archive)
    expected = answers(root)
    archive.close()
    with closing(sqlite3.connect(folder / "index.sqlite")) as connection:
        connection.execute("DROP TABLE files")

    assert answers(root) == expected


def test_first_of_two_records_in_one_place_counts(
    archive: DiskArchive, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If a log holds two records of one place, the first is read and a warning logged."""
    tip = commit_all(archive, [turn(1), turn(2)])
    archive.close()
    (folder / "raw.jsonl").write_bytes((folder / "raw.jsonl").read_bytes() * 2)

    assert visible(archive, tip) == ["question 1", "question 2"]
    assert "there twice" in caplog.text


def test_index_of_another_version_is_rebuilt(
    archive: DiskArchive, root: Path, folder: Path
) -> None:
    """An index that another version wrote is replaced."""
    populate(archive)
    expected = answers(root)
    archive.close()
    connection = sqlite3.connect(folder / "index.sqlite")
    connection.execute("PRAGMA user_version=99")
    connection.execute("DROP TABLE records")
    connection.close()

    assert answers(root) == expected


def test_shortened_log_makes_a_new_index(archive: DiskArchive, folder: Path) -> None:
    """A log that is shorter than the index says, as after a restored backup, is read anew."""
    first = commit_all(archive, [turn(1)])
    size = (folder / "raw.jsonl").stat().st_size
    commit_all(archive, [turn(2), turn(3)], first)
    archive.close()
    with (folder / "raw.jsonl").open("r+b") as file:
        file.truncate(size)

    assert archive.newest(OWNER) == first


def test_other_log_of_greater_length_makes_a_new_index(archive: DiskArchive, folder: Path) -> None:
    """A log in which no line ends where the index says is read anew."""
    commit_all(archive, [turn(1, "short")])
    other = Owner("ann", "t2")
    archive.commit(other, commit_all(archive, []), turn(1, "quite another, and longer"))
    archive.close()
    data = (folder.with_name("t2") / "raw.jsonl").read_bytes()
    (folder / "raw.jsonl").write_bytes(data)

    newest = archive.newest(OWNER)

    assert newest is not None
    assert visible(archive, newest) == ["quite another, and longer"]


def test_damaged_line_is_left_out(
    archive: DiskArchive, root: Path, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A line that is damaged in the middle is left out; the rest is read."""
    tip = commit_all(archive, [turn(1), turn(2), turn(3)])
    archive.close()
    data = (folder / "raw.jsonl").read_bytes()
    (folder / "raw.jsonl").write_bytes(data.replace(b"question 2", b'question"2'))

    with caplog.at_level(logging.WARNING, "ebbtide.archive"):
        assert visible(archive, tip) == ["question 1", "question 3"]
    assert "turn 2 cannot be read" in caplog.text
    (folder / "index.sqlite").unlink()
    with DiskArchive(root) as again:
        assert visible(again, tip) == ["question 1", "question 3"]


def test_deleted_log_is_left_out(archive: DiskArchive, folder: Path) -> None:
    """Turns whose log is deleted while the session is open are left out."""
    tip = commit_all(archive, [turn(1, efforts=["a"]), turn(2)])
    archive.close()
    archive.newest(OWNER)
    (folder / "efforts" / "a.jsonl").unlink()

    assert visible(archive, tip) == ["question 2"]


@given(steps=STEPS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_rebuilt_index_answers_the_same(
    archive: DiskArchive, root: Path, steps: list[Step]
) -> None:
    """Whatever was forked and retried, an index rebuilt from the logs answers the same."""
    owner = Owner("ann", f"p{len(list(root.glob('*/*')))}")
    tips = list(run(archive, owner, steps).histories)
    before = [all_said(archive, owner, tip.turn) for tip in tips]
    archive.close()
    for path in root.glob(f"ann/{owner.thread}/index.sqlite"):
        path.unlink()

    assert [all_said(archive, owner, tip.turn) for tip in tips] == before


def all_said(archive: DiskArchive, owner: Owner, number: int) -> list[object]:
    """Return what an archive answers from every tip about turns up to a number."""
    return [
        (
            archive.turns(owner, tip, range(number + 1)),
            archive.ambient(owner, tip, 3),
            archive.ambient_count(owner, tip),
            archive.efforts(owner, tip, 3),
            archive.effort_turns(owner, tip, "a"),
        )
        for tip in archive.tips(owner)
    ]
