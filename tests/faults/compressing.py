"""Talk until an effort is compressed, in a process that is killed in the middle of the pass.

`python -m tests.faults.compressing ROOT URI` is killed after the archive stored the compression.
URI is that of a PostgreSQL database, empty for SQLite's files.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.compressions import Compression, ExtractionEntry
from ebbtide.memory.turn import Session
from tests.agents import Talk
from tests.faults.places import Place
from tests.graph.long_effort import FILLER, agent, compressing, quoting

SESSION = Session("", "t")
RULE = "Orders must never be deleted."


class Dying(SqlArchive):
    """An archive whose process is killed after a compression was stored."""

    def commit_compression(
        self, session: Session, entry: ExtractionEntry, made: Compression | None
    ) -> Compression | None:
        """Store it; the process does not live on."""
        super().commit_compression(session, entry, made)
        os.kill(os.getpid(), signal.SIGKILL)
        return made


@contextmanager
def opened(
    place: Place, *, kind: Any = SqlArchive, new: bool = False, extraction: Any = None
) -> Iterator[Talk]:
    """Open the agent in its place, with an open effort if it is new."""
    with place.saver() as saver, kind(place.address) as archive:
        yield (compressing if new else agent)(
            place.root,
            archive=archive,
            checkpointer=saver,
            extraction=extraction or quoting(RULE, kind="constraint"),
        )


def main(place: Place) -> None:
    """Talk until killed."""
    with opened(place, kind=Dying, new=True) as chat:
        for turn in range(2, 20):
            said = RULE if turn == 2 else ""
            chat.say(f"{said} {FILLER}{turn}", durability="sync")


if __name__ == "__main__":
    main(Place(Path(sys.argv[1]), sys.argv[2]).begun())
