"""The page of benchmarks says what the examples and the demonstration print."""

import re
from pathlib import Path

import pytest

from tests.examples.running import DEMO, example_run, once
from tests.pages import text
from tests.processes import ROOT

_SECTION = text("docs/benchmarks.md").split("\n## ")[1]
_COMMAND = r"^`(?:python examples/(\w+)\.py|ebbtide (demo))`"
_, *_PARTS = re.split(_COMMAND, _SECTION, flags=re.MULTILINE)
SHOWN = {
    example or demo: said
    for example, demo, said in zip(_PARTS[::3], _PARTS[1::3], _PARTS[2::3], strict=True)
    if "\n| " in said
}
WIDE = 5  # cells of a row that is printed as it stands on the page


def printed_by(name: str, shared: Path) -> str:
    """Return what an example or the demonstration prints, run once for all tests."""
    if name == "demo":
        return once(*DEMO, shared).printed
    return example_run(ROOT / "examples" / f"{name}.py", shared).printed


def rows(page: str, sign: str) -> list[list[str]]:
    """Return the cells of the rows of the tables of a page, which a sign divides."""
    lines = [line.strip() for line in page.splitlines() if line.startswith(f"{sign} ")]
    return [[cell.strip() for cell in line.strip(sign).split(sign)] for line in lines]


def test_the_page_has_the_slices() -> None:
    """Each slice and the demonstration stand on the page."""
    slices = {path.stem for path in (ROOT / "examples").glob("slice*.py")}

    assert {*slices, "demo"} <= {*SHOWN}


@pytest.mark.parametrize("name", SHOWN)
def test_the_page_says_what_is_printed(name: str, shared: Path) -> None:
    """Figures and words in a cell of their own are printed, and so are whole rows."""
    printed = printed_by(name, shared)
    figures = [cell for row in rows(SHOWN[name], "|") for cell in row[1:] if cell.startswith("`")]
    whole = [row for row in rows(SHOWN[name], "|") if len(row) >= WIDE and row[-1][0].isdigit()]

    assert [one for one in figures if one.strip("`") not in printed] == []
    assert [row for row in whole if row not in rows(printed, "│")] == []
