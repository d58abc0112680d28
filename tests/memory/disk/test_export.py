"""Exporting: a folder for people that is a session folder still."""

from pathlib import Path

import pytest

from ebbtide.memory.disk.archive import DiskArchive
from ebbtide.memory.errors import ArchiveError, SessionNotFoundError
from tests.memory.disk.answers import answers, populate
from tests.memory.turns import OWNER, START, turn


def test_export_holds_logs_and_a_readable_manifest(
    archive: DiskArchive, folder: Path, tmp_path: Path
) -> None:
    """The export has the logs as they are, and the manifest in block form."""
    populate(archive)
    archive.export(OWNER, tmp_path / "out" / "t1")
    out = tmp_path / "out" / "t1"

    assert (out / "raw.jsonl").read_bytes() == (folder / "raw.jsonl").read_bytes()
    assert "summary: A is done.\n" in (out / "manifest.yaml").read_text("utf-8")
    assert sorted(path.relative_to(out).as_posix() for path in out.rglob("*.*")) == [
        "efforts/a.jsonl",
        "efforts/b.jsonl",
        "manifest.yaml",
        "raw.jsonl",
        "session.json",
    ]


def test_export_can_be_put_into_an_archive(
    archive: DiskArchive, root: Path, tmp_path: Path
) -> None:
    """An exported session answers the same in another archive."""
    populate(archive)
    archive.export(OWNER, tmp_path / "other" / "ann" / "t1")

    assert answers(tmp_path / "other") == answers(root)


def test_export_of_a_session_without_efforts(archive: DiskArchive, tmp_path: Path) -> None:
    """Without efforts the manifest is an empty list."""
    archive.commit(OWNER, START, turn(1))
    archive.export(OWNER, str(tmp_path / "out"))

    assert (tmp_path / "out" / "manifest.yaml").read_text("utf-8") == "[]\n"


def test_export_overwrites_nothing(archive: DiskArchive, tmp_path: Path) -> None:
    """A folder that is not empty is refused."""
    archive.commit(OWNER, START, turn(1))
    (tmp_path / "mine").write_text("x")

    with pytest.raises(ArchiveError, match="not empty"):
        archive.export(OWNER, tmp_path)


def test_export_of_an_unknown_session(archive: DiskArchive, tmp_path: Path) -> None:
    """A session that was never written cannot be exported, and leaves no folder."""
    with pytest.raises(SessionNotFoundError):
        archive.export(OWNER, tmp_path / "out")

    assert list(tmp_path.iterdir()) == []
