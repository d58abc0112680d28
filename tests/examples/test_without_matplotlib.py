"""The examples where matplotlib is not installed."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.examples.running import Run, once, run
from tests.processes import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
HIDDEN = """
import runpy
import sys

sys.modules["matplotlib.figure"] = None
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_the_table_is_printed_without_a_plot(example: Path, shared: Path, tmp_path: Path) -> None:
    """Without matplotlib there is the table, a line that says how to get the plot, and no file."""
    is_there = find_spec("matplotlib") is not None
    ran: Run = (
        run(["-c", HIDDEN, str(example)], tmp_path)
        if is_there
        else once(example.stem, [str(example)], shared)
    )

    assert ran.code == 0
    assert ("┃" in ran.printed, "For a plot, install matplotlib." in ran.printed) == (True, True)
    assert list(ran.folder.iterdir()) == []
