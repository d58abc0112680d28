"""The examples without matplotlib; with it, whoever runs one looks for its picture."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.examples.running import example_run, run_without_plots
from tests.processes import ROOT


@pytest.mark.parametrize("name", ["attention", "slice1_compaction"])
def test_the_table_is_printed_without_a_plot(name: str, shared: Path, tmp_path: Path) -> None:
    """Without matplotlib there is the table, a line that says how to get the plot, and no file."""
    example = ROOT / "examples" / f"{name}.py"
    is_there = find_spec("matplotlib") is not None
    ran = run_without_plots(example, tmp_path) if is_there else example_run(example, shared)

    assert ran.code == 0
    assert ("┃" in ran.printed, "For a plot, install matplotlib." in ran.printed) == (True, True)
    assert list(ran.folder.iterdir()) == []


def test_every_example_is_run() -> None:
    """Each example has tests that look at what it prints; what they draw with is none."""
    examples = {path.stem for path in (ROOT / "examples").glob("*.py")} - {"drawing"}
    tested = {path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*.py")}

    assert examples <= tested
