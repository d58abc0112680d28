"""What holds for every example: it ends well, with a table, and with a plot if it can draw one."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.examples.running import example_run, run_without_plots
from tests.processes import ROOT

every = pytest.mark.parametrize(
    "example", sorted((ROOT / "examples").glob("*.py")), ids=lambda example: example.stem
)


@every
def test_it_ends_well(example: Path, shared: Path) -> None:
    """Each example ends without an error."""
    assert example_run(example, shared).code == 0


@every
def test_it_saves_a_plot(example: Path, shared: Path) -> None:
    """With matplotlib each example saves a picture of its name."""
    pytest.importorskip("matplotlib", reason="pip install 'ebbtide[plots]'")
    ran = example_run(example, shared)

    assert (ran.folder / f"{example.stem}.png").stat().st_size > 0


@pytest.mark.parametrize("name", ["attention", "slice1_compaction"])
def test_the_table_is_printed_without_a_plot(name: str, shared: Path, tmp_path: Path) -> None:
    """Without matplotlib there is the table, a line that says how to get the plot, and no file."""
    example = ROOT / "examples" / f"{name}.py"
    is_there = find_spec("matplotlib") is not None
    ran = run_without_plots(example, tmp_path) if is_there else example_run(example, shared)

    assert ran.code == 0
    assert ("┃" in ran.printed, "For a plot, install matplotlib." in ran.printed) == (True, True)
    assert list(ran.folder.iterdir()) == []
