"""The notebook: its cells, run in their order, print what it shows."""

import json
from pathlib import Path

import pytest

from tests.examples.running import run
from tests.processes import ROOT

NOTEBOOK = ROOT / "examples" / "ebb_and_return.ipynb"
_END = "<<< end of a cell >>>"


@pytest.mark.thorough
def test_its_cells_print_what_it_shows(tmp_path: Path) -> None:
    """Without Jupyter, and from an empty folder."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    shown = ["".join("".join(one["text"]) for one in cell["outputs"]) for cell in cells]
    program = "\n".join("".join(cell["source"]) + f"\nprint({_END!r})" for cell in cells)

    ran = run(["-c", program], tmp_path)

    assert ran.printed.split(f"{_END}\n")[:-1] == shown
