"""Running an example as its reader does: in a process of its own, with no key."""

import fcntl
import json
import os
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.conftest import SECRETS
from tests.processes import ended

DEMO = ("demo", ["-m", "ebbtide.cli.main", "demo", "--root", "kept"])
"""The demonstration, whose page the documents quote."""

_HIDDEN = """
import runpy
import sys
from pathlib import Path

sys.modules["matplotlib"] = None
del sys.argv[0]
sys.path.insert(0, str(Path(sys.argv[0]).parent))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


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


def run_without_plots(program: Path, folder: Path, *arguments: str) -> Run:
    """Run a program as where matplotlib is not installed."""
    return run(["-c", _HIDDEN, str(program), *arguments], folder)


def once(name: str, arguments: list[str], shared: Path) -> Run:
    """Run Python in a folder of that name, once for all tests that look at what it printed."""
    folder, kept = shared / name, shared / f"{name}.json"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            folder.mkdir()
            ran = run(arguments, folder)
            kept.write_text(json.dumps([ran.printed, ran.code]), encoding="utf-8")
    printed, code = json.loads(kept.read_text(encoding="utf-8"))
    return Run(printed, folder, code)


def example_run(example: Path, shared: Path, *arguments: str) -> Run:
    """Run an example in an empty folder, once for all tests.

    It must end well, and save a picture of its name if it can draw one, in a folder of its own.
    """
    ran = once(example.stem, [str(example), *arguments], shared)
    drawn = {path.suffix for path in (ran.folder / "example-results").glob(f"{example.stem}.*")}
    figure = {".svg", ".png", ".pdf"} if find_spec("matplotlib") else set()
    assert (ran.code, drawn - {".json"}) == (0, figure)
    return ran
