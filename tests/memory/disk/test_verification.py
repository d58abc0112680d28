"""Verifying: each kind of damage is found in the bytes, with its place."""

from pathlib import Path

import pytest

from ebbtide.memory.archive.protocol import Finding
from ebbtide.memory.disk.archive import DiskArchive
from ebbtide.memory.disk.lines import Reference, encode_reference
from tests.memory.turns import OWNER, commit_all, opened, turn


@pytest.fixture
def raw(archive: DiskArchive, folder: Path) -> Path:
    """Return the raw log of a session of three turns that is closed."""
    commit_all(archive, [turn(1), turn(2), turn(3)])
    archive.close()
    return folder / "raw.jsonl"


def replaced(path: Path, old: bytes, new: bytes) -> None:
    """Replace bytes of a file."""
    path.write_bytes(path.read_bytes().replace(old, new))


def found(archive: DiskArchive) -> list[tuple[str, str, bool]]:
    """Return place, first words and gravity of each finding."""
    return [
        (finding.where, " ".join(finding.what.split()[:2]), finding.fatal)
        for finding in archive.verify(OWNER)
    ]


def test_torn_line(archive: DiskArchive, raw: Path) -> None:
    """Half a last line is what a crash leaves: it is named, and is no damage."""
    raw.write_bytes(raw.read_bytes() + b'{"v":1')

    assert found(archive) == [("raw.jsonl:4", "torn line:", False)]


def test_damaged_line(archive: DiskArchive, raw: Path) -> None:
    """A damaged line is fatal, and so is that its successor has no parent."""
    replaced(raw, b'"turn":2', b'"turn"?2')

    assert found(archive) == [
        ("raw.jsonl:2", "damaged line:", True),
        ("raw.jsonl:3", "the parent", True),
    ]


def test_changed_text(archive: DiskArchive, raw: Path) -> None:
    """A text that was changed does not match its digest."""
    replaced(raw, b'"content":"question 2"', b'"content":"question 9"')

    assert found(archive) == [("raw.jsonl:2", "the digest", True)]


def test_changed_digest(archive: DiskArchive, raw: Path) -> None:
    """Messages of no sense cannot match a digest."""
    replaced(raw, b'"data":{"content":"question 2"}', b'"data":{"additional_kwargs":"x"}')

    assert found(archive) == [("raw.jsonl:2", "the digest", True)]


def test_missing_line(archive: DiskArchive, raw: Path) -> None:
    """A line that was deleted is missing as a parent."""
    lines = raw.read_bytes().splitlines(keepends=True)
    raw.write_bytes(lines[0] + lines[2])

    assert found(archive) == [("raw.jsonl:2", "the parent", True)]


def test_missing_first_line(archive: DiskArchive, raw: Path) -> None:
    """A session whose first line was deleted has lost a parent."""
    lines = raw.read_bytes().splitlines(keepends=True)
    raw.write_bytes(lines[1] + lines[2])

    assert found(archive) == [("raw.jsonl:1", "the parent", True)]


def test_doubled_line(archive: DiskArchive, raw: Path) -> None:
    """Two records in one place are named with both places."""
    lines = raw.read_bytes().splitlines(keepends=True)
    raw.write_bytes(b"".join([*lines, lines[1]]))

    assert archive.verify(OWNER) == (
        Finding("raw.jsonl:4", "turn 2 of 'main' stands in raw.jsonl:2 already"),
    )


def test_dangling_reference(archive: DiskArchive, raw: Path) -> None:
    """A reference to a record that is not there is fatal."""
    line = encode_reference(Reference("main", 9, "raw.jsonl"))
    (raw.parent / "efforts" / "a.jsonl").write_bytes(line)

    assert found(archive) == [("efforts/a.jsonl:1", "turn 9", True)]


def test_missing_reference(archive: DiskArchive, folder: Path) -> None:
    """A second effort whose log does not refer to the turn is named, not as fatal."""
    commit_all(archive, [turn(1, efforts=["a", "b"], events=[opened("a")])])
    (folder / "efforts" / "b.jsonl").write_bytes(b"")

    assert found(archive) == [("efforts/a.jsonl:1", "efforts/b.jsonl does", False)]


def test_needs_no_index_and_changes_nothing(archive: DiskArchive, raw: Path) -> None:
    """Verifying reads only: a missing index stays missing, a torn line stays."""
    (raw.parent / "index.sqlite").unlink()
    raw.write_bytes(raw.read_bytes() + b'{"v":1')
    before = {path: path.stat().st_mtime_ns for path in raw.parent.rglob("*.*") if path.is_file()}

    archive.verify(OWNER)

    after = {path: path.stat().st_mtime_ns for path in raw.parent.rglob("*.*") if path.is_file()}
    assert {p: t for p, t in after.items() if p.name != ".lock"} == {
        p: t for p, t in before.items() if p.name != ".lock"
    }
