"""Logs: what is appended is there as a whole or not at all."""

import subprocess
import sys
from pathlib import Path

import pytest

from ebbtide.memory.disk.archive import DiskArchive
from ebbtide.memory.disk.log import append, read, replace_file
from tests.memory.turns import OWNER, START, commit_all, turn, visible

FULL = """
import resource, sys
from ebbtide.memory.disk.archive import DiskArchive
from tests.memory.turns import OWNER, START, turn

archive = DiskArchive(sys.argv[1], durable=False)
tip = archive.newest(OWNER) or START
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    archive.commit(OWNER, tip, turn(tip.turn + 1, "x" * 5_000_000))
except OSError as error:
    print(type(error).__name__)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(archive.newest(OWNER) == (tip if tip.turn else None))
print(archive.commit(OWNER, tip, turn(tip.turn + 1)).branch)
"""
SMALL = """
import pathlib, resource, sys
from ebbtide.memory.disk.log import append

resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
try:
    append(pathlib.Path(sys.argv[1]), b"x" * 200, durable=False)
except OSError as error:
    print(error.strerror)
"""
ROOM_FOR_INDEX, ROOM_FOR_NOTHING = 2_000_000, 300


def full(root: Path, limit: int) -> list[str]:
    """Commit in a process whose files may not be larger than `limit` bytes; return what it said."""
    command = [sys.executable, "-c", FULL, str(root), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_append_returns_the_offset(tmp_path: Path) -> None:
    """Each line is put behind the others; its offset is returned."""
    path = tmp_path / "log"

    assert [append(path, line, durable=True) for line in (b"one\n", b"two\n")] == [0, 4]
    assert path.read_bytes() == b"one\ntwo\n"


def small(path: Path) -> str:
    """Append 200 bytes in a process whose files may not be larger than 100; return the error."""
    done = subprocess.run(
        [sys.executable, "-c", SMALL, str(path)], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_half_written_line_is_taken_back(tmp_path: Path) -> None:
    """A line of which only a part fits is taken back as a whole."""
    path = tmp_path / "log"
    append(path, b"one\n", durable=False)

    assert small(path) == "File too large"
    assert path.read_bytes() == b"one\n"


def test_half_written_file_is_taken_back(tmp_path: Path) -> None:
    """A file whose first line does not fit is not there afterwards."""
    assert small(tmp_path / "log") == "File too large"
    assert list(tmp_path.iterdir()) == []


def test_failed_append_leaves_no_file(tmp_path: Path) -> None:
    """If the folder is missing the error is raised."""
    with pytest.raises(FileNotFoundError):
        append(tmp_path / "missing" / "log", b"x\n", durable=False)


def test_replaced_file_leaves_nothing_beside_it(tmp_path: Path) -> None:
    """A file is replaced as a whole, and no temporary file stays."""
    path = tmp_path / "file"
    path.write_bytes(b"old")

    replace_file(path, b"new", durable=True)

    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_failed_replacement_keeps_the_old_file(tmp_path: Path) -> None:
    """If a file cannot be replaced, what stands there stays, and no temporary file."""
    path = tmp_path / "folder"
    (path / "file").mkdir(parents=True)

    with pytest.raises(OSError, match="folder"):
        replace_file(path, b"new", durable=False)

    assert list(tmp_path.iterdir()) == [path]


def test_only_newlines_end_a_line(tmp_path: Path) -> None:
    """Other characters that may end a line stand inside it."""
    path = tmp_path / "log"
    path.write_bytes("a\x85b\u2028c\rd\x0ce\n\nf".encode())

    found = [(stored.offset, stored.length, stored.ended) for stored in read(path)]

    assert found == [(0, 13, True), (13, 1, True), (14, 1, False)]


def test_full_disk_leaves_nothing_behind(archive: DiskArchive, folder: Path, root: Path) -> None:
    """A line that does not fit is taken back, the error is raised, and the next turn works."""
    tip = commit_all(archive, [turn(1)])
    size = (folder / "raw.jsonl").stat().st_size

    said = full(root, ROOM_FOR_INDEX)

    assert said == ["OSError", "True", "main"]
    assert (folder / "raw.jsonl").stat().st_size < 2 * size + 100
    assert visible(archive, archive.newest(OWNER) or tip) == ["question 1", "question 2"]
    assert archive.verify(OWNER) == ()


def test_full_disk_at_the_first_turn(root: Path, folder: Path) -> None:
    """A first line that does not fit leaves a session without turns, which then begins."""
    assert full(root, ROOM_FOR_INDEX) == ["OSError", "True", "main"]
    with DiskArchive(root) as archive:
        assert archive.verify(OWNER) == ()
        assert len(list(read(folder / "raw.jsonl"))) == 1


def test_full_disk_for_the_index(archive: DiskArchive, root: Path) -> None:
    """If not even the index can be written, that is an `OSError` too, and nothing is lost."""
    tip = commit_all(archive, [turn(1)])
    archive.close()

    assert full(root, ROOM_FOR_NOTHING) == ["OSError", "True", "main"]
    assert [tip.branch for tip in archive.tips(OWNER)] == [tip.branch]
    assert archive.turns(OWNER, START, [1]) == ()
