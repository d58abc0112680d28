"""Slice 4, run as a script: the context stays bounded, and what left it is found."""

import re
from pathlib import Path

import pytest

from tests.examples.page import not_printed
from tests.examples.running import example_run
from tests.processes import ROOT

ROW = r"^│ (\d+) +│ [\w ,]+? +│ (\d+) +│ (\d+) +│ ([\d,]+) +│ ([\d,]+) +│ ([\d,]+) +│"
CEILING = 3_000

# The figure is most of what it shows, and 1,000 turns take half a minute.
pytest.importorskip("matplotlib", reason="a figure of 1,000 turns needs the extra plots")


@pytest.mark.thorough
def test_the_context_does_not_grow(shared: Path) -> None:
    """In 1,000 turns with 200 efforts it stays below one ceiling, while the history grows.

    Three summaries leave, a search brings one back, and its log comes and goes.
    """
    printed = example_run(ROOT / "examples" / "slice4_bounded_context.py", shared).printed
    tables = [re.findall(ROW, page, re.MULTILINE) for page in printed.split("Largest context: ")]
    exact = {int(turn): (int(sums), log != "0") for turn, sums, _, log, *_ in tables[0]}
    largest = re.findall(r"^Largest context: ([\d,]+) tokens", printed, re.MULTILINE)

    assert not_printed("slice4_bounded_context", printed) == []
    assert [exact[turn] for turn in (20, 21, 23, 27)] == [
        *((5, False), (2, False), (3, True), (3, False))
    ]
    assert [int(tokens.replace(",", "")) < CEILING for tokens in largest] == [True] * 2
    assert int(tables[1][-1][-1].replace(",", "")) > 100_000
