"""A search that is killed while it makes the user's index leaves nothing in the way of the next."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def run(root: Path, first: int, step: int) -> dict[str, Any]:
    """Run the killing in a process of its own and return its report."""
    command = [sys.executable, "-m", "tests.faults.searching", str(root), str(first), str(step)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_killed_at_every_ninth_statement(tmp_path: Path) -> None:
    """Wherever the process died, with an older index or none, the next search finds all."""
    report = run(tmp_path, 5, 9)

    assert report["wrong"] == {}
    assert report["kills"] >= 8


@pytest.mark.soak
def test_killed_at_every_statement(tmp_path: Path) -> None:
    """So it is at each single statement."""
    report = run(tmp_path, 1, 1)

    assert report["wrong"] == {}
    assert report["kills"] >= 60
