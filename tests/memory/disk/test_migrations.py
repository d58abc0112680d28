"""Formats: older ones are brought up to date, newer ones are refused."""

import json
from pathlib import Path

import pytest

from ebbtide.memory.disk.archive import DiskArchive
from ebbtide.memory.disk.folder import FORMAT
from ebbtide.memory.disk.migrations import MIGRATIONS
from ebbtide.memory.errors import ArchiveFormatError
from tests.memory.disk.answers import answers, populate
from tests.memory.turns import OWNER, START, commit_all, turn, visible


def made_oldest(folder: Path) -> None:
    """Write a session as the oldest format had it: no session file, no version, no status."""
    (folder / "session.json").unlink()
    (folder / "index.sqlite").unlink()
    for path in folder.rglob("*.jsonl"):
        bodies = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
        old = [{k: v for k, v in body.items() if k not in {"v", "status"}} for body in bodies]
        path.write_text("".join(json.dumps(body) + "\n" for body in old), "utf-8")


def test_every_older_format_has_a_migration() -> None:
    """From each format a migration leads to the next."""
    assert list(MIGRATIONS) == list(range(FORMAT))


def test_oldest_format_answers_the_same(archive: DiskArchive, root: Path, folder: Path) -> None:
    """A session of the oldest format is migrated when it is opened, and answers the same."""
    populate(archive)
    expected = answers(root)
    archive.close()
    made_oldest(folder)

    assert archive.sessions("ann") == (OWNER,)
    assert answers(root) == expected
    assert json.loads((folder / "session.json").read_bytes())["format"] == FORMAT
    assert [finding for finding in archive.verify(OWNER) if finding.fatal] == []


def test_oldest_format_is_committed_to(archive: DiskArchive, folder: Path) -> None:
    """A commit to a session of the oldest format migrates it first."""
    tip = commit_all(archive, [turn(1)])
    archive.close()
    made_oldest(folder)

    tip = commit_all(archive, [turn(2)], tip)

    assert visible(archive, tip) == ["question 1", "question 2"]


def test_damaged_lines_are_migrated_as_they_are(archive: DiskArchive, folder: Path) -> None:
    """A line that cannot be read stays byte for byte."""
    tip = commit_all(archive, [turn(1), turn(2), turn(3)])
    archive.close()
    made_oldest(folder)
    raw = folder / "raw.jsonl"
    raw.write_bytes(raw.read_bytes().replace(b'"turn": 2', b'"turn"? 2'))

    assert visible(archive, tip) == ["question 1", "question 3"]
    assert b'"turn"? 2' in raw.read_bytes()


def test_oldest_format_is_verified(archive: DiskArchive, folder: Path) -> None:
    """Verifying a session of the oldest format migrates it, and finds it sound."""
    commit_all(archive, [turn(1), turn(2)])
    archive.close()
    made_oldest(folder)

    assert archive.verify(OWNER) == ()


@pytest.mark.parametrize("read", [True, False])
def test_newer_format_is_refused(archive: DiskArchive, folder: Path, *, read: bool) -> None:
    """A session of a newer format is neither read nor written; the error names both versions."""
    tip = commit_all(archive, [turn(1)])
    archive.close()
    said = json.loads((folder / "session.json").read_bytes())
    (folder / "session.json").write_text(json.dumps({**said, "format": 7}), "utf-8")
    before = (folder / "raw.jsonl").read_bytes()

    with pytest.raises(ArchiveFormatError, match=r"format 7.*up to 1"):
        archive.newest(OWNER) if read else archive.commit(OWNER, tip, turn(2))

    assert (folder / "raw.jsonl").read_bytes() == before


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": "1"}'])
def test_damaged_session_file_is_an_error(archive: DiskArchive, folder: Path, text: str) -> None:
    """A session file that cannot be read is an error that names the file."""
    archive.commit(OWNER, START, turn(1))
    archive.close()
    (folder / "session.json").write_text(text, "utf-8")

    with pytest.raises(ArchiveFormatError, match=r"session\.json"):
        archive.newest(OWNER)
