"""Slice 4, run as a script: the context stays bounded, and what left it is found."""

import re

import pytest

from tests.examples.page import not_printed
from tests.examples.running import Run

ROW = r"^│ (\d+) +│ [\w ,]+? +│ (\d+) +│ (\d+) +│ ([\d,]+) +│ ([\d,]+) +│ ([\d,]+) +│"
CEILING = 3_000

# The figure is most of what it shows, and 1,000 turns take half a minute.
pytest.importorskip("matplotlib", reason="a figure of 1,000 turns needs the extra plots")

Tables = list[dict[int, list[int]]]


@pytest.fixture(scope="module")
def tables(ran: Run) -> Tables:
    """Return both tables by turn: summaries, exchanges, and tokens of log, context and history."""
    pages = ran.printed.split("Largest context: ")[:2]
    rows = [re.findall(ROW, page, re.MULTILINE) for page in pages]
    return [
        {int(turn): [int(cell.replace(",", "")) for cell in cells] for turn, *cells in table}
        for table in rows
    ]


def test_the_page_says_what_is_printed(ran: Run) -> None:
    """Both tables stand on the page of benchmarks as they are printed."""
    assert not_printed("slice4_bounded_context", ran.printed) == []


def test_exact_table_is_that_of_the_proof_run(tables: Tables) -> None:
    """Three summaries leave, a search brings one back, and its log comes and goes."""
    table = {turn: (sums, shown, log > 0) for turn, (sums, shown, log, *_) in tables[0].items()}

    assert table == {
        1: (5, 10, False),
        15: (5, 10, False),
        20: (5, 10, False),
        21: (2, 10, False),
        22: (2, 10, False),
        23: (3, 10, True),
        26: (3, 10, True),
        27: (3, 10, False),
    }


def test_default_table_is_that_of_the_proof_run(tables: Tables) -> None:
    """What is due leaves with the next change, and the window goes back in steps."""
    table = {turn: (sums, shown, log > 0) for turn, (sums, shown, log, *_) in tables[1].items()}

    assert {turn: row for turn, row in table.items() if turn <= 27} == {
        1: (5, 10, False),
        6: (5, 15, False),
        7: (5, 10, False),
        15: (5, 12, False),
        20: (5, 11, False),
        21: (5, 12, False),
        22: (5, 13, False),
        23: (5, 14, True),
        24: (5, 15, True),
        25: (3, 10, True),
        26: (3, 11, True),
        27: (3, 10, False),
    }


def test_the_context_does_not_grow(ran: Run, tables: Tables) -> None:
    """In 1,000 turns with 200 efforts it stays below one ceiling, while the history grows."""
    largest = re.findall(r"^Largest context: ([\d,]+) tokens", ran.printed, re.MULTILINE)
    *_, history = tables[1][max(tables[1])]

    assert [int(tokens.replace(",", "")) < CEILING for tokens in largest] == [True] * 2
    assert history > 100_000
