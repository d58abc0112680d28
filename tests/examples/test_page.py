"""The page of benchmarks says what the examples and the demonstration print."""

from pathlib import Path

import pytest

from tests.examples.page import SHOWN, not_printed
from tests.examples.running import DEMO, example_run, once
from tests.processes import ROOT

LONG = "slice4_bounded_context"
"""It has its own test with those of what it prints: two workers would wait for one run."""


def printed_by(name: str, shared: Path) -> str:
    """Return what an example or the demonstration prints, run once for all tests."""
    if name == "demo":
        return once(*DEMO, shared).printed
    return example_run(ROOT / "examples" / f"{name}.py", shared).printed


def test_the_page_has_the_slices() -> None:
    """Each slice and the demonstration stand on the page."""
    slices = {path.stem for path in (ROOT / "examples").glob("slice*.py")}

    assert {*slices, "demo"} <= {*SHOWN}


@pytest.mark.parametrize("name", [name for name in SHOWN if name != LONG])
def test_the_page_says_what_is_printed(name: str, shared: Path) -> None:
    """Figures and words in a cell of their own are printed, and so are whole rows."""
    assert not_printed(name, printed_by(name, shared)) == []
