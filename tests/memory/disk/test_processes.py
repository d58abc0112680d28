"""Processes: several of them use one session."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ebbtide.memory.disk.archive import DiskArchive
from ebbtide.memory.disk.lock import SessionLock
from ebbtide.memory.errors import ArchiveLockedError
from tests.memory.turns import OWNER, START, commit_all, turn, visible

COMMIT = """
import sys
from ebbtide.memory.disk.archive import DiskArchive
from ebbtide.memory.record import Tip
from tests.memory.turns import OWNER, commit_all, turn

with DiskArchive(sys.argv[1], durable=False) as archive:
    tip = Tip("main", 1, sys.argv[2])
    archive.turns(OWNER, tip, [1])
    print("ready", flush=True)
    sys.stdin.readline()
    commit_all(archive, [turn(n, f"{sys.argv[3]} {n}") for n in range(2, 22)], tip)
"""
HOLD = """
import sys
from filelock import FileLock

with FileLock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.readline()
"""
FORK = """
import os, sys
from ebbtide.memory.disk.archive import DiskArchive
from tests.memory.turns import OWNER, START, commit_all, turn, visible

archive = DiskArchive(sys.argv[1], durable=False)
tip = commit_all(archive, [turn(1)])
child = os.fork()
if child == 0:
    commit_all(archive, [turn(2)], tip)
    archive.close()
    os._exit(0)
os.waitpid(child, 0)
print(visible(archive, commit_all(archive, [turn(3)], archive.newest(OWNER))))
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a script in a process of its own, and wait until it says that it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def release(*processes: subprocess.Popen[str]) -> list[int]:
    """Let processes go on all at once, and return their exit codes."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)
    return [process.returncode for process in processes]


def test_two_processes_at_once_get_two_branches(archive: DiskArchive, root: Path) -> None:
    """Two processes that go on from one turn at the same time each have all their turns."""
    before = commit_all(archive, [turn(1)])
    processes = [start(COMMIT, root, before.digest, name) for name in ("one", "two")]

    assert release(*processes) == [0, 0]
    seen = sorted(visible(archive, tip)[1:] for tip in archive.tips(OWNER))
    assert seen == [[f"{name} {n}" for n in range(2, 22)] for name in ("one", "two")]
    assert [finding.fatal for finding in archive.verify(OWNER)] == [False]


def test_commits_of_another_process_are_seen(archive: DiskArchive, root: Path) -> None:
    """What another process commits is seen by one that has the session open."""
    before = commit_all(archive, [turn(1)])

    release(start(COMMIT, root, before.digest, "other"))

    newest = archive.newest(OWNER)
    assert newest is not None
    assert visible(archive, newest)[-1] == "other 21"


def test_two_archives_in_one_process(archive: DiskArchive, root: Path) -> None:
    """Two archives on one folder in one process see each other's commits."""
    tip = commit_all(archive, [turn(1)])

    with DiskArchive(root, durable=False) as other:
        tip = commit_all(other, [turn(2)], tip)
        tip = commit_all(archive, [turn(3)], tip)

        assert visible(other, tip) == ["question 1", "question 2", "question 3"]


def test_held_lock_is_an_error_that_names_it(
    archive: DiskArchive, root: Path, folder: Path
) -> None:
    """A lock that is held for longer than the timeout is an error that names the lock."""
    tip = commit_all(archive, [turn(1)])
    process = start(HOLD, folder / ".lock")

    with (
        DiskArchive(root, durable=False, lock_timeout=0.1) as impatient,
        pytest.raises(ArchiveLockedError, match=r"t1/\.lock.* 0\.1 s"),
    ):
        impatient.commit(OWNER, tip, turn(2))

    assert visible(archive, tip) == ["question 1"]
    release(process)
    assert archive.commit(OWNER, tip, turn(2)).branch == "main"


def test_lock_held_by_a_thread_is_an_error(tmp_path: Path) -> None:
    """A lock that another thread holds for longer than the timeout is the same error."""
    lock = SessionLock(tmp_path / "lock", 0.05)

    def waiting() -> None:
        with lock.held():
            pass

    with lock.held(), ThreadPoolExecutor(1) as pool:
        failed = pool.submit(waiting).exception()

    assert isinstance(failed, ArchiveLockedError)


def test_forked_process_opens_its_own(root: Path) -> None:
    """A process that was forked off writes the same session without harm to its parent."""
    process = start("print()\n" + FORK, root)

    said, _ = process.communicate(timeout=60)

    assert said.strip() == "['question 1', 'question 2', 'question 3']"


def test_closed_archive_opens_again(archive: DiskArchive) -> None:
    """A closed archive can be used; it opens what it needs."""
    tip = commit_all(archive, [turn(1)])
    archive.close()
    archive.close()

    assert visible(archive, tip) == ["question 1"]
    assert archive.turns(OWNER, START, [1]) == ()


def test_two_erase_at_once(archive: DiskArchive, root: Path) -> None:
    """Turns that are erased at the same time, while others are committed, are all gone."""
    tip = commit_all(archive, [turn(n) for n in range(1, 9)])

    def erase(number: int) -> tuple[tuple[str, int], ...]:
        with DiskArchive(root, durable=False) as other:
            return other.erase(OWNER, tip, number).places

    with ThreadPoolExecutor(4) as pool:
        erased = [*pool.map(erase, (2, 4, 6, 8))]
        tip = commit_all(archive, [turn(n) for n in range(9, 12)], tip)

    assert erased == [(("main", number),) for number in (2, 4, 6, 8)]
    records = archive.turns(OWNER, tip, range(1, 12))
    assert [one.turn for one in records if one.status == "erased"] == [2, 4, 6, 8]
    assert [finding.fatal for finding in archive.verify(OWNER)] == [False]
