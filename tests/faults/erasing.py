"""Erase a turn in child processes that are killed at every file operation and SQL statement.

`python -m tests.faults.erasing ROOT FIRST STEP` kills a child at its operation FIRST, the next one
at FIRST + STEP, and so on until one ends by itself. It prints one JSON line: how many were killed,
at how many of these points the session itself finished what was begun, how often the user's index
said a word of it before, and what went wrong.
"""

import json
import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver

from ebbtide import DiskArchive, erase
from ebbtide.memory.disk.user_index import NAME
from ebbtide.memory.record import Owner
from tests.agents import Talk, talk
from tests.doubles import call

OWNER = Owner("ann", "erased")
OTHER = Owner("ann", "asking")
CONFIG: RunnableConfig = {"configurable": {"thread_id": OWNER.thread, "user_id": OWNER.user}}
ASKED = "Nobody but you and me knows that the north gate is open."
ANSWERED = "I shall keep what you told me of that gate to myself."
GOAL = "Keep the secret of the gate"
SECRETS = (ASKED, ANSWERED, GOAL)
TERM = "north"
"""What the user's index, which holds no sentence, has of them."""

SCRIPT = (
    *("Hello.", call("open_effort", name="gate", goal=GOAL), ANSWERED),
    *(call("close_effort"), "Closed.", "Well.", "On we go."),
)
TOLD = {"summary": f"It was said: {ASKED}", "keywords": ["gate"]}
AGAIN = {"summary": "It is about a garden.", "keywords": ["garden"]}
LATER = "Now that this is settled, what of the garden behind the house?"
WORDS = ("Hello there.", ASKED, LATER, "Well?")
CHANGES = {"open", "os.rename", "os.remove", "os.truncate", "os.mkdir", "sqlite3.connect"}


@dataclass
class Countdown:
    """Kills the process at an operation of a given number."""

    left: int
    root: str

    def audited(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Count an operation on files below the root."""
        if event in CHANGES and str(arguments[0]).startswith(self.root):
            self.counted()

    def counted(self, _statement: str = "") -> None:
        """Count one operation, before it is done."""
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def opened(root: Path, countdown: Countdown | None = None) -> Iterator[Talk]:
    """Open the thread on the files below a folder."""
    connection = sqlite3.connect(root / "checkpoints.sqlite", check_same_thread=False)
    if countdown is not None:
        connection.set_trace_callback(countdown.counted)
    saver = SqliteSaver(connection)
    here = talk(root / "archive", [*SCRIPT], [AGAIN] * 9, checkpointer=saver)
    try:
        yield here
    finally:
        connection.close()
        here.archive.close()


def killed(root: Path, number: int) -> bool:
    """Erase turn 2 in a child that is killed at an operation; tell whether it came to that."""
    child = os.fork()
    if child == 0:
        countdown = Countdown(number, str(root))
        sys.addaudithook(countdown.audited)
        with opened(root, countdown) as here:
            erase(here.agent, CONFIG, 2)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def traces(folder: Path) -> list[str]:
    """Return the files below a folder in which text of the turn stands."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    found = [path for path in files if _holds(path, SECRETS)]
    indexes = [path for path in files if path.name.startswith(NAME) and _holds(path, [TERM])]
    return [str(path.relative_to(folder)) for path in (*found, *indexes)]


def searched(archive: DiskArchive) -> list[str]:
    """Search from another session, which makes the user's index; say whether it is wrong."""
    found = archive.search_sessions(OTHER, f"{TERM} gate", 5)
    wrong = [one.owner for one in found] != [OWNER] or TERM in found[0].said
    return ["searched"] if wrong else []


def finished(root: Path) -> tuple[bool, list[str]]:
    """Open the session as anybody would; tell if an erasure was under way, and what went wrong."""
    (begun,) = {path.exists() for path in (root / "archive").glob("*/*/erasing.json")} or {False}
    with DiskArchive(root / "archive") as archive:
        faults = searched(archive) if begun else []
        tip = archive.newest(OWNER)
        faults += [f"{f.where}: {f.what}" for f in archive.verify(OWNER) if f.fatal]
    left = traces(root / "archive") if begun else []
    return begun, [*faults, *left, *([] if tip and tip.turn == len(WORDS) else ["no tip"])]


def resumed(root: Path) -> list[str]:
    """Erase again, go on with the thread, and say what went wrong."""
    with opened(root) as here:
        report = erase(here.agent, CONFIG, 2)
        left = [*searched(here.archive), *traces(root)]
        here.model.answers = ["On we go."]
        state = here.say("And?", CONFIG)
        records = here.records(state)
        faults = [f"{f.where}: {f.what}" for f in here.archive.verify(OWNER) if f.fatal]
    statuses = [record.status for record in records]
    wanted = {
        "statuses": statuses == ["done", "erased", "done", "done", "done"],
        "state": (state["memory"]["turn"], state["memory"]["position"]["branch"]) == (5, "main"),
        "efforts": (state["memory"]["active_effort"], list(state["memory"]["summaries"]))
        == (None, ["gate"]),
        "report": report.branches == ("main",) and report.stale == (),
        "checkpoints": not left,
    }
    return [*left, *faults, *(name for name, held in wanted.items() if not held)]


def main(root: Path, first: int, step: int) -> None:
    """Kill child after child, and print what was found."""
    (root / "whole").mkdir()
    with opened(root / "whole") as here:
        here.model.structured = [TOLD]
        [here.say(words, CONFIG) for words in WORDS]
        here.archive.search_sessions(OTHER, TERM, 5)
    known = (root / "whole" / "archive" / OWNER.user / NAME).read_bytes().count(TERM.encode())
    kills, begun, wrong = 0, 0, dict[int, list[str]]()
    number = first
    while killed(shutil.copytree(root / "whole", root / str(number)), number):
        copy = shutil.copytree(root / str(number), root / f"{number}-opened")
        under_way, faults = finished(copy)
        faults += resumed(root / str(number))
        kills, begun = kills + 1, begun + under_way
        wrong |= {number: faults} if faults else {}
        shutil.rmtree(copy)
        shutil.rmtree(root / str(number))
        number += step
    sys.stdout.write(
        json.dumps({"kills": kills, "begun": begun, "known": known, "wrong": wrong}) + "\n"
    )


def _holds(path: Path, sought: Sequence[str]) -> bool:
    data = path.read_bytes()
    return any(text.encode() in data for text in sought)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
