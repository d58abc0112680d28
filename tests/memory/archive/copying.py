"""A process that copies an archive, and prints a line for each session: to be killed."""

import sys

from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.archive.transfer import Moved, copy


def told(one: Moved) -> None:
    """Say which session is there, at once."""
    print(one.owner.thread, one.fresh, flush=True)  # noqa: T201 (it is a program)


if __name__ == "__main__":
    with SqlArchive(sys.argv[1]) as source, SqlArchive(sys.argv[2]) as target:
        copy(source, target, told)
