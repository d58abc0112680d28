"""Crashes: whatever a commit had done when it was cut off, the session is whole again."""

import json
import logging
import shutil
from pathlib import Path

import pytest

from ebbtide.memory.disk.archive import DiskArchive
from ebbtide.memory.disk.indexing import intend, intents
from ebbtide.memory.disk.lines import encode
from ebbtide.memory.disk.schema import connect
from ebbtide.memory.record import Record, Tip, place
from tests.memory.disk.answers import answers, populate
from tests.memory.turns import OWNER, commit_all, opened, turn, visible


def following(tip: Tip, *efforts: str) -> Record:
    """Return the record of a turn after `tip` that opens its efforts."""
    group = turn(tip.turn + 1, "late", efforts, [opened(effort) for effort in efforts])
    return place(group, tip.branch, tip.digest, None)


def write(path: Path, data: bytes) -> None:
    """Put bytes at the end of a log behind the archive's back."""
    with path.open("ab") as file:
        file.write(data)


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_half_a_line_is_cut_off(
    archive: DiskArchive, folder: Path, cut: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Half a line at the end is cut off at the next opening, with a warning."""
    tip = commit_all(archive, [turn(1)])
    archive.close()
    size = (folder / "raw.jsonl").stat().st_size
    write(folder / "raw.jsonl", encode(following(tip))[:-cut])

    with caplog.at_level(logging.WARNING, "ebbtide.archive"):
        newest = archive.newest(OWNER)

    assert newest == tip
    assert (folder / "raw.jsonl").stat().st_size == size
    assert "torn last line" in caplog.text
    assert archive.verify(OWNER) == ()


def test_half_a_line_without_index(archive: DiskArchive, root: Path, folder: Path) -> None:
    """Half a line is also cut off when the index is built anew."""
    tip = commit_all(archive, [turn(1)])
    archive.close()
    write(folder / "raw.jsonl", b'{"v":1,"tur')
    (folder / "index.sqlite").unlink()

    assert answers(root)["newest"] == tip
    assert archive.verify(OWNER) == ()


def test_half_a_line_of_another_process_is_cut_off(archive: DiskArchive, folder: Path) -> None:
    """A process that has the session open notices half a line when it writes the next one."""
    tip = commit_all(archive, [turn(1)])
    write(folder / "raw.jsonl", encode(following(tip))[:-9])

    tip = commit_all(archive, [turn(2)], tip)

    assert visible(archive, tip) == ["question 1", "question 2"]
    assert archive.verify(OWNER) == ()


def test_damaged_last_line_is_kept(archive: DiskArchive, folder: Path) -> None:
    """A damaged last line that has its end was written whole: it is kept, and turns follow it."""
    tip = commit_all(archive, [turn(1), turn(2)])
    archive.close()
    whole = (folder / "raw.jsonl").read_bytes().replace(b'"turn":2', b'"turn"?2')
    (folder / "raw.jsonl").write_bytes(whole)
    (folder / "index.sqlite").unlink()

    record = archive.commit(OWNER, tip, turn(3))

    assert (folder / "raw.jsonl").read_bytes().startswith(whole)
    assert visible(archive, record.tip) == ["question 1", "question 3"]


def test_line_without_all_that_follows(archive: DiskArchive, root: Path, folder: Path) -> None:
    """A line that was written is committed: index, reference and manifest are completed."""
    tip = commit_all(archive, [turn(1, efforts=["a"], events=[opened("a")])])
    archive.close()
    record = following(tip, "b", "a")
    write(folder / "efforts" / "b.jsonl", encode(record))

    assert answers(root)["newest"] == record.tip
    assert archive.effort_turns(OWNER, record.tip, "a") == (1, 2)
    assert archive.turns(OWNER, record.tip, [2]) == (record,)
    assert archive.verify(OWNER) == ()


def test_retry_after_the_line_finds_it(archive: DiskArchive, folder: Path) -> None:
    """A retry after a crash right behind the line returns that record and completes the rest."""
    tip = commit_all(archive, [turn(1)])
    record = following(tip, "b")
    write(folder / "efforts" / "b.jsonl", encode(record))

    again = archive.commit(OWNER, tip, turn(2, "late", ["b"], [opened("b")]))

    assert again == record
    assert [found.branch for found in archive.tips(OWNER)] == ["main"]
    assert archive.verify(OWNER) == ()


def test_intent_of_another_process_is_followed(archive: DiskArchive, folder: Path) -> None:
    """A process that has the session open follows the intent of one that died while writing."""
    tip = commit_all(archive, [turn(1)])
    record = following(tip, "b")
    connection = connect(folder / "index.sqlite", durable=False)
    intend(connection, ["efforts/b.jsonl"])
    write(folder / "efforts" / "b.jsonl", encode(record))

    archive.commit(OWNER, record.tip, turn(3))

    assert archive.turns(OWNER, record.tip, [2]) == (record,)
    assert intents(connection) == ()
    connection.close()


def test_shifted_log_beside_a_deleted_manifest(
    archive: DiskArchive, root: Path, folder: Path
) -> None:
    """A log that was changed while another one is written and the manifest mended is read anew."""
    tip = commit_all(archive, [turn(1), turn(2, efforts=["a"], events=[opened("a")])])
    raw = folder / "raw.jsonl"
    raw.write_bytes(b"\n" + raw.read_bytes())
    (folder / "manifest.yaml").unlink()

    tip = commit_all(archive, [turn(3, efforts=["a"])], tip)

    archive.close()
    assert visible(archive, tip) == ["question 1", "question 2", "question 3"]
    assert answers(root)["newest"] == tip


def test_torn_log_beside_a_deleted_manifest(archive: DiskArchive, folder: Path) -> None:
    """Half a line in another log than the one written is cut off, so that no turn joins it."""
    tip = commit_all(archive, [turn(1, efforts=["a"], events=[opened("a")]), turn(2)])
    raw = folder / "raw.jsonl"
    raw.write_bytes(raw.read_bytes()[:-7])
    (folder / "manifest.yaml").unlink()

    tip = commit_all(archive, [turn(3, efforts=["a"]), turn(4), turn(5)], tip)

    assert visible(archive, tip) == ["question 1", "question 3", "question 4", "question 5"]
    (folder / "index.sqlite").unlink()
    assert visible(archive, tip) == ["question 1", "question 3", "question 4", "question 5"]


def test_index_from_an_older_copy(archive: DiskArchive, root: Path, folder: Path) -> None:
    """An index older than the logs is brought up to date."""
    tip = commit_all(archive, [turn(1, efforts=["a"], events=[opened("a")])])
    archive.close()
    shutil.copy(folder / "index.sqlite", folder / "old")
    commit_all(archive, [turn(2, efforts=["b", "a"], events=[opened("b")]), turn(3)], tip)
    expected = answers(root)
    archive.close()

    shutil.move(folder / "old", folder / "index.sqlite")

    assert answers(root) == expected
    assert archive.verify(OWNER) == ()


def test_entry_that_a_crash_kept_out_is_added(archive: DiskArchive, folder: Path) -> None:
    """A manifest that lacks its last entries gets them at the next opening, once."""
    populate(archive)
    archive.close()
    whole = (folder / "manifest.yaml").read_bytes()
    (folder / "manifest.yaml").write_bytes(whole[: whole.index(b"\n") + 20])

    archive.newest(OWNER)

    assert sorted((folder / "manifest.yaml").read_bytes().split(b"\n")) == sorted(
        whole.split(b"\n")
    )


def test_folder_without_session_file_begins_anew(archive: DiskArchive, folder: Path) -> None:
    """A crash before anything was written leaves a folder that the first turn completes."""
    folder.mkdir(parents=True)

    assert archive.newest(OWNER) is None
    commit_all(archive, [turn(1)])
    assert json.loads((folder / "session.json").read_bytes())["format"] == 1


def test_deleted_session_begins_anew(archive: DiskArchive, folder: Path) -> None:
    """A session whose folder was deleted is gone, and a state that goes on leaves a gap."""
    tip = commit_all(archive, [turn(1)])
    shutil.rmtree(folder)

    assert archive.turns(OWNER, tip, [1]) == ()
    assert archive.commit(OWNER, tip, turn(2)).gap


def test_restored_backup_goes_on_with_a_gap(archive: DiskArchive, folder: Path) -> None:
    """After an older copy of the folder was put back, the conversation goes on."""
    first = commit_all(archive, [turn(1)])
    archive.close()
    shutil.copytree(folder, folder.with_name("backup"))
    tip = commit_all(archive, [turn(2), turn(3)], first)
    shutil.rmtree(folder)
    shutil.move(folder.with_name("backup"), folder)

    record = archive.commit(OWNER, tip, turn(4))

    assert (record.gap, record.branch) == (True, "main")
    assert visible(archive, record.tip) == ["question 1", "question 4"]
