"""Talk until an effort is compressed, in a process that is killed in the middle of the pass.

`python -m tests.faults.compressing ROOT AFTER` is killed after the archive stored the compression
(AFTER is `commit`), or after it logged how that was made as well (`log`).
"""

import os
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver

from ebbtide import DiskArchive
from ebbtide.memory.record import Owner, Tip
from ebbtide.memory.salience import Compression, ExtractionEntry
from tests.agents import Talk
from tests.graph.long_effort import FILLER, agent, compressing, quoting

OWNER = Owner("default", "t")
RULE = "Orders must never be deleted."


class Dying(DiskArchive):
    """An archive whose process is killed after a step of storing a compression."""

    after = "commit"

    def commit_compression(self, owner: Owner, tip: Tip, made: Compression) -> Compression:
        """Store it; the process may not live on."""
        stored = super().commit_compression(owner, tip, made)
        if self.after == "commit":
            os.kill(os.getpid(), signal.SIGKILL)
        return stored

    def log_extraction(self, owner: Owner, entry: ExtractionEntry) -> None:
        """Log how it was made; the process does not live on."""
        super().log_extraction(owner, entry)
        os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def opened(
    root: Path, archive: DiskArchive, *, new: bool = False, extraction: Any = None
) -> Iterator[Talk]:
    """Open the agent on the files below a folder, with an open effort if it is new."""
    connection = sqlite3.connect(root / "checkpoints.sqlite", check_same_thread=False)
    try:
        yield (compressing if new else agent)(
            root,
            archive=archive,
            checkpointer=SqliteSaver(connection),
            extraction=extraction or quoting(RULE, kind="constraint"),
        )
    finally:
        connection.close()
        archive.close()


def main(root: Path, after: str) -> None:
    """Talk until killed."""
    dying = Dying(root)
    dying.after = after
    with opened(root, dying, new=True) as here:
        for turn in range(2, 20):
            said = RULE if turn == 2 else ""
            here.say(f"{said} {FILLER}{turn}", durability="sync")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
