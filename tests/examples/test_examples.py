"""The examples without matplotlib; with it, whoever runs one looks for its picture."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.examples.running import example_run, run, run_without_plots
from tests.processes import ROOT


@pytest.mark.parametrize("name", ["attention", "slice1_compaction"])
def test_the_table_is_printed_without_a_plot(name: str, shared: Path, tmp_path: Path) -> None:
    """Without matplotlib there is the table, its rows, and a line that says how to get the plot."""
    example = ROOT / "examples" / f"{name}.py"
    is_there = find_spec("matplotlib") is not None
    ran = run_without_plots(example, tmp_path) if is_there else example_run(example, shared)

    assert ran.code == 0
    assert ("┃" in ran.printed, "For a plot, install matplotlib." in ran.printed) == (True, True)
    assert [path.name for path in ran.folder.rglob("*.*")] == [f"{name}.json"]


def test_every_example_is_run() -> None:
    """Each example has tests that look at what it prints; what they draw with is none."""
    examples = {path.stem for path in (ROOT / "examples").glob("*.py")} - {"drawing"}
    tested = {path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*.py")}

    assert examples <= tested


@pytest.mark.parametrize("name", ["attention", "slice3_decay"])
def test_the_help_names_the_folder_and_runs_nothing(name: str, tmp_path: Path) -> None:
    """With `--help` an example says what it shows and where its files go."""
    ran = run([str(ROOT / "examples" / f"{name}.py"), "--help"], tmp_path)

    assert ran.code == 0
    assert ("example-results" in ran.printed, "┃" in ran.printed) == (True, False)
    assert not (tmp_path / "example-results").exists()


def test_rows_of_a_table_are_kept_as_numbers(shared: Path) -> None:
    """Beside the figure a JSON file has the table, the metrics, and what made them."""
    ran = example_run(ROOT / "examples" / "slice3_decay.py", shared)
    kept = json.loads((ran.folder / "example-results" / "slice3_decay.json").read_text("utf-8"))
    rows = kept["tables"][0]["rows"]

    assert [row["turn"] for row in rows] == [*range(1, 8)]
    assert rows[0]["all"] - rows[5]["all"] > rows[5]["log"] == 0
    assert kept["metrics"]["false_decay_rate"] == 1
    assert kept["settings"]["decay_threshold"] == 3
    assert {"Python", "ebbtide", "langgraph"} <= {*kept["versions"]}
