"""An erasure in PostgreSQL that is killed is finished by erasing again, and loses nothing."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.databases import Database


def run(database: Database, root: Path, *arguments: str) -> dict[str, Any]:
    """Run the killing in a process of its own and return its report."""
    program = [sys.executable, "-m", "tests.faults.erasing_postgres", database.uri, str(root)]
    done = subprocess.run([*program, *arguments], capture_output=True, check=True, text=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.parametrize("kind", ["prune", "aprune", "threads"])
def test_killed_now_and_then(tmp_path: Path, database: Database, kind: str) -> None:
    """Wherever the process died, erasing again or talking on goes on with the whole thread."""
    report = run(database, tmp_path, kind, "20", "45")

    assert report["wrong"] == {}
    assert report["kills"] >= 3
    assert report["archived"] >= 1


@pytest.mark.soak
@pytest.mark.parametrize(("kind", "stateless"), [("prune", 0), ("aprune", 0), ("threads", 1)])
def test_killed_at_every_operation(
    tmp_path: Path, database: Database, kind: str, stateless: int
) -> None:
    """So it is at each operation; only if whole threads are deleted one is without its state."""
    report = run(database, tmp_path, kind, "1", "1")

    assert report["wrong"] == {}
    assert report["kills"] >= 100
    assert min(1, report["stateless"]) == stateless
