"""`ebbtide eval` in this process, and what it wrote."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from ebbtide.evaluation.lines import read_lines
from ebbtide.evaluation.results import TrialResult
from tests.cli.commands_run import run

MODEL = ("--model", "openai:gpt-5-mini")


def evaluated(folder: Path, *options: str, plots: bool = False) -> Result:
    """Run the command with these options; a plot takes half a second, so there is none unasked."""
    with pytest.MonkeyPatch.context() as patch:
        if not plots:
            patch.setitem(sys.modules, "matplotlib", None)
        return run("eval", "--out", str(folder), *options)


def trials(folder: Path) -> list[TrialResult]:
    """Return the trials that a folder holds, in the order in which they were kept."""
    return [*read_lines(folder / "trials.jsonl", TrialResult)]


def rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of the results."""
    made = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return [dict(row) for row in made["rows"]]
