"""Slice 4, run as a script: the context stays bounded, and what left it is found."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.running import Run
from tests.graph.journeys import CEILING
from tests.processes import ROOT

ROW = r"^│ (\d+) +│ [\w ,:]+? +│ (\d+) +│ (\d+) +│ (\d+) +│ (\d+) +│ (\d+) +│"


@pytest.fixture(scope="module")
def rows(ran: Run) -> dict[int, list[int]]:
    """Return by turn: summaries, ambient exchanges, and tokens of log, context and history."""
    table = re.findall(ROW, ran.printed, re.MULTILINE)
    return {int(turn): [int(cell) for cell in cells] for turn, *cells in table}


def test_the_table_is_that_of_the_proof_run(rows: dict[int, list[int]]) -> None:
    """Summaries and ambient exchanges are sent as the proof run has them, and the log is."""
    table = {turn: (sent, ambient, log > 0) for turn, (sent, ambient, log, *_) in rows.items()}

    assert table == {
        1: (5, 10, False),
        15: (5, 10, False),
        20: (5, 10, False),
        21: (2, 10, False),
        22: (2, 10, False),
        23: (3, 10, True),
        26: (3, 10, True),
        27: (3, 10, False),
    }


def test_the_context_stays_below_its_ceiling(ran: Run, rows: dict[int, list[int]]) -> None:
    """The largest context of the whole run is below the ceiling, while the history grows."""
    (largest,) = re.findall(r"^Largest context: ([\d,]+) tokens", ran.printed, re.MULTILINE)
    history = [cells[-1] for cells in rows.values()]

    assert max(cells[3] for cells in rows.values()) <= int(largest.replace(",", "")) < CEILING
    assert history == sorted(set(history))


def test_it_says_the_same_each_time(ran: Run, tmp_path: Path) -> None:
    """A second run prints the same table, whatever the order of its sets."""
    command = [sys.executable, str(ROOT / "examples" / "slice4_bounded_context.py")]
    again = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "COLUMNS": "100"}, check=True, capture_output=True
    )

    assert again.stdout.decode() == ran.printed
