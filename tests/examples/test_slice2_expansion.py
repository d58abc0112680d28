"""Slice 2, run as a script: expanding and collapsing an effort."""

import re
from pathlib import Path

import pytest

from tests.examples.running import Run, run
from tests.processes import ROOT

FALSIFIED = """
import runpy
import sys
from ebbtide.graph import agent
from ebbtide.memory import transcript

sys.path.insert(0, {folder!r})
transcript.transcript = lambda turns: "another log"
runpy.run_path({path!r}, run_name="__main__")
"""


@pytest.mark.parametrize(
    "claim",
    [
        "Expanded equals the original log, byte for byte: yes",
        "Collapsed equals concluded, token for token: yes",
        "The other effort, its log and its summary, is untouched: yes",
    ],
)
def test_what_it_claims_holds(ran: Run, claim: str) -> None:
    """Each claim is printed with a yes."""
    lines = ran.printed.splitlines()

    assert claim in lines


def test_the_table_shows_the_log_come_and_go(ran: Run) -> None:
    """Quoted it holds tokens in the third step only; its turns are shown in the first only."""
    rows = re.findall(r"^│ (\w+) +│ \d+ +│ (\d+) +│ (\d+) ", ran.printed, re.MULTILINE)

    other = int(rows[1][2])
    assert [(step, quoted != "0", int(turns) > 2 * other) for step, quoted, turns in rows] == [
        ("open", False, True),
        ("concluded", False, False),
        ("expanded", True, False),
        ("collapsed", False, False),
    ]


def test_it_fails_if_the_log_is_another(tmp_path: Path) -> None:
    """If the archive's log were another than the one in the context, the example would fail."""
    folder = ROOT / "examples"
    script = FALSIFIED.format(folder=str(folder), path=str(folder / "slice2_expansion.py"))

    result = run(["-c", script], tmp_path)

    assert result.code == 1
    assert "byte for byte: no" in result.printed
