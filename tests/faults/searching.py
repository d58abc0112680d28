"""Search in other sessions in child processes that are killed at every SQL statement.

`python -m tests.faults.searching ROOT FIRST STEP` kills a child at its statement FIRST, the next
one at FIRST + STEP, and so on until one ends by itself. It prints one JSON line: how many were
killed, and after which of these kills the next search went wrong.
"""

import json
import os
import shutil
import signal
import sqlite3
import sys
from functools import partial
from pathlib import Path
from typing import Any

from ebbtide import DiskArchive
from ebbtide.memory.record import Group, Owner, Tip

OWNER = Owner("ann", "asking")
QUERY = "grey cats"
WANTED = ["t3", "t2"]


class Counted(sqlite3.Connection):
    """A connection that kills the process at an SQL statement of a given number."""

    left = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Count the statements from here on, before they are done."""
        super().__init__(*arguments, **options)
        self.set_trace_callback(self.counted)

    @classmethod
    def counted(cls, _statement: str) -> None:
        """Count one statement of any connection."""
        cls.left -= 1
        if cls.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def found(root: Path) -> list[str]:
    """Return the threads that a search finds, best first."""
    with DiskArchive(root) as archive:
        return [one.owner.thread for one in archive.search_sessions(OWNER, QUERY, 5)]


def conclude(root: Path, owner: Owner, at: str) -> None:
    """Commit a turn that concludes an effort."""
    event = {"type": "concluded", "effort": "pet", "summary": "The cat is grey."}
    human = {"type": "human", "data": {"content": at}}
    with DiskArchive(root) as archive:
        archive.commit(owner, Tip(), Group(1, (human,), at, ("pet",), (event,)))


def killed(root: Path, number: int) -> bool:
    """Search in a child that is killed at a statement; tell whether it came to that."""
    child = os.fork()
    if child == 0:
        Counted.left = number
        sqlite3.connect = partial(sqlite3.connect, factory=Counted)  # type: ignore[assignment]
        os._exit(found(root) != WANTED)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def main(root: Path, first: int, step: int) -> None:
    """Kill child after child, some with an older index, and print what was found."""
    kills, wrong = 0, dict[str, list[str]]()
    for name, before in (("new", []), ("older", ["t2"])):
        whole = root / name
        for thread in before:
            conclude(whole, Owner("ann", thread), "2026-01-02")
        found(whole)
        for thread in sorted({*WANTED} - {*before}):
            conclude(whole, Owner("ann", thread), f"2026-01-0{thread[1]}")
        number = first
        while killed(shutil.copytree(whole, root / f"{name}-{number}"), number):
            copy = root / f"{name}-{number}"
            answer = found(copy)
            wrong |= {copy.name: answer} if answer != WANTED else {}
            kills, number = kills + 1, number + step
            shutil.rmtree(copy)
    sys.stdout.write(json.dumps({"kills": kills, "wrong": wrong}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
