"""Running an example as its reader does: in a process of its own, with no key."""

import fcntl
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import SECRETS
from tests.processes import ended


@dataclass(frozen=True)
class Run:
    """What an example printed, and the folder it ran in."""

    printed: str
    folder: Path
    code: int | None = 0


def run(arguments: list[str], folder: Path) -> Run:
    """Run Python with these arguments in a folder, with warnings as errors."""
    environment = {name: value for name, value in os.environ.items() if name not in SECRETS}
    told = {**environment, "COLUMNS": "100"}
    done = ended(["-W", "error", *arguments], folder, told)
    sys.stderr.write(done.failed)
    return Run(done.printed, folder, done.code)


def once(example: Path, shared: Path) -> Run:
    """Run an example in a folder of its own, once for all tests that look at what it printed."""
    folder, kept = shared / example.stem, shared / f"{example.stem}.json"
    with (shared / f"{example.stem}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            folder.mkdir()
            ran = run([str(example)], folder)
            kept.write_text(json.dumps([ran.printed, ran.code]), encoding="utf-8")
    printed, code = json.loads(kept.read_text(encoding="utf-8"))
    return Run(printed, folder, code)
