"""Running an example as its reader does: in a process of its own, with no key."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import SECRETS

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Run:
    """What an example printed, and the folder it ran in."""

    printed: str
    folder: Path
    code: int = 0


def run(arguments: list[str], folder: Path) -> Run:
    """Run Python with these arguments in a folder, with warnings as errors."""
    environment = {name: value for name, value in os.environ.items() if name not in SECRETS}
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=folder,
        env={**environment, "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"},
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=False,
    )
    return Run(done.stdout, folder, done.returncode)
