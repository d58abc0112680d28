"""An erasure that is killed anywhere is finished by whoever opens the session, or erases again."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def run(root: Path, first: int, step: int) -> dict[str, Any]:
    """Run the killing in a process of its own and return its report."""
    command = [sys.executable, "-m", "tests.faults.erasing", str(root), str(first), str(step)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_killed_at_every_fourth_operation(tmp_path: Path) -> None:
    """Wherever the process died, nothing of the text is left in the end, and the thread goes on."""
    report = run(tmp_path, 3, 4)

    assert report["wrong"] == {}
    assert report["kills"] >= 25
    assert report["begun"] >= 3
    assert report["known"] >= 1


@pytest.mark.soak
def test_killed_at_every_operation(tmp_path: Path) -> None:
    """So it is at each single operation on a file and each statement to the checkpoints."""
    report = run(tmp_path, 1, 1)

    assert report["wrong"] == {}
    assert report["kills"] >= 100
