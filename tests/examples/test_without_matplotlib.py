"""The examples where matplotlib is not installed."""

from pathlib import Path

import pytest

from tests.examples.running import ROOT, run

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
HIDDEN = """
import runpy
import sys

sys.modules["matplotlib.figure"] = None
runpy.run_path({path!r}, run_name="__main__")
"""


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.stem for example in EXAMPLES])
def test_the_table_is_printed_without_a_plot(tmp_path: Path, example: Path) -> None:
    """Without matplotlib there is the table, a line that says how to get the plot, and no file."""
    found = run(["-c", HIDDEN.format(path=str(example))], tmp_path)

    assert found.code == 0
    assert "┃" in found.printed
    assert "For a plot, install matplotlib." in found.printed
    assert list(tmp_path.iterdir()) == []
