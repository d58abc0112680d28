"""Slice 4, run as a script: the context stays bounded, and what left it is found."""

import re

import pytest

from tests.draws import SOAK
from tests.examples.running import Run

TURNS = 1_000 if SOAK else 160
ARGUMENTS = [str(TURNS)]
ROW = r"^│ (\d+) +│ [\w ]*? +│ (\d+) +│ (\d+) +│ ([\d,]+) +│ ([\d,]+) +│ ([\d,]+) +│"


@pytest.fixture(scope="module")
def tables(ran: Run) -> list[dict[int, list[int]]]:
    """Return both tables by turn: summaries, exchanges, and tokens of log, context and history."""
    pages = ran.printed.split("Largest context: ")[:2]
    rows = [re.findall(ROW, page, re.MULTILINE) for page in pages]
    return [
        {int(turn): [int(cell.replace(",", "")) for cell in cells] for turn, *cells in table}
        for table in rows
    ]


def test_exact_table_is_that_of_the_proof_run(tables: list[dict[int, list[int]]]) -> None:
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


def test_default_table_is_that_of_the_proof_run(tables: list[dict[int, list[int]]]) -> None:
    """What is due leaves with the next change, and the window stays between 10 and 15."""
    table = {turn: (sums, log > 0) for turn, (sums, _, log, *_) in tables[1].items()}

    assert [turn for turn, (_, log) in table.items() if log] == [23, 24, 25, 26]
    assert [table[turn][0] for turn in (1, 15, 21, 22, 23)] == [5] * 5
    assert [table[turn][0] for turn in (26, 27)] == [3] * 2
    assert {shown for _, shown, *_ in tables[1].values()} <= {*range(10, 16)}


def test_the_context_does_not_grow(ran: Run, tables: list[dict[int, list[int]]]) -> None:
    """After many turns it is smaller than after a few, while the history grows."""
    largest = re.findall(r"^Largest context: ([\d,]+) tokens", ran.printed, re.MULTILINE)
    *_, last = tables[1]
    history = [cells[-1] for cells in tables[1].values()]

    assert max(int(tokens.replace(",", "")) for tokens in largest) < 3_000
    assert tables[1][last][3] < tables[1][1][3]
    assert history == sorted({*history})
    assert history[-1] > TURNS / 100 * history[0]
