"""A process that copies an archive, and prints a line for each session: to be killed."""

import sys

from ebbtide.memory.archive.copy import Copied, copy
from ebbtide.memory.archive.sql import SqlArchive


def report(session: Copied) -> None:
    """Print which session was copied, at once."""
    print(session.session.thread, session.fresh, flush=True)  # noqa: T201 (it is a program)


if __name__ == "__main__":
    with SqlArchive(sys.argv[1]) as source, SqlArchive(sys.argv[2]) as target:
        copy(source, target, report)
