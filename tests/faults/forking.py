"""Fork a process that talks, and let the children talk.

`python -m tests.faults.forking ROOT URI THREADS` prints one JSON line: how the children ended, and
how many turns of each thread the archive has. THREADS threads talk while the process is forked.
"""

import faulthandler
import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier, Event, Thread

from langchain_core.runnables import RunnableConfig

from ebbtide.memory.archive.sql import SqlArchive
from tests.agents import Talk, talk
from tests.faults.places import Place

CHILDREN, TURNS = 12, 3
PATIENCE = 60
"""Seconds after which a child that hangs says where, and ends."""


def say(chat: Talk, thread: str) -> None:
    """Have one turn of a thread."""
    config: RunnableConfig = {"configurable": {"thread_id": thread}}
    chat.say("hello", config)


@contextmanager
def talking(chat: Talk, threads: int) -> Iterator[None]:
    """Let threads talk meanwhile."""
    begun, over = Barrier(threads + 1), Event()

    def go_on(number: int) -> None:
        begun.wait()
        while not over.is_set():
            say(chat, f"parent {number}")

    running = [Thread(target=go_on, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    begun.wait()
    try:
        yield
    finally:
        over.set()
        for thread in running:
            thread.join()


def fork(chat: Talk, number: int) -> int:
    """Start a child that has its turns, and return its process id."""
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        try:
            for _ in range(TURNS):
                say(chat, f"child {number}")
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)
    return child


def kept(archive: SqlArchive) -> dict[str, int]:
    """Return how many turns each thread has that a child had."""
    turns = {}
    for owner in archive.sessions(""):
        tip = archive.newest(owner)
        if tip is not None and owner.thread.startswith("child"):
            turns[owner.thread] = len(archive.at(owner, tip).turns(range(1, tip.turn + 1)))
    return turns


def main(place: Place, threads: int) -> None:
    """Use the archive, fork, close it while the children talk, and report."""
    sys.setswitchinterval(1e-6)  # threads are interrupted anywhere, also while they hold a lock
    chat = talk(place.root, lambda _: "yes", archive=place.archive())
    say(chat, "parent")
    with talking(chat, threads):
        children = [fork(chat, number) for number in range(CHILDREN)]
    chat.archive.close()
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    with place.archive() as archive:
        sys.stdout.write(json.dumps({"codes": codes, "turns": kept(archive)}) + "\n")


if __name__ == "__main__":
    main(Place(Path(sys.argv[1]), sys.argv[2]), int(sys.argv[3]))
