"""Slice 4, run as a script: the context stays bounded, and what left it is found."""

import re

import pytest

from tests.examples.running import Run

ROW = r"^│ (\d+) +│ [\w ,:]+? +│ (\d+) +│ ([\d,]+) +│ ([\d,]+) +│ ([\d,]+) +│"


@pytest.fixture(scope="module")
def rows(ran: Run) -> dict[int, list[int]]:
    """Return by turn: summaries, and tokens of log, context and history."""
    table = re.findall(ROW, ran.printed, re.MULTILINE)
    return {int(turn): [int(cell.replace(",", "")) for cell in cells] for turn, *cells in table}


def test_the_table_is_that_of_the_proof_run(rows: dict[int, list[int]]) -> None:
    """Three summaries leave, a search brings one back, and its log comes and goes."""
    table = {turn: (summaries, log > 0) for turn, (summaries, log, *_) in rows.items()}

    assert table == {
        16: (5, False),
        30: (5, False),
        41: (2, False),
        42: (3, False),
        43: (3, True),
        47: (3, False),
        1_000: (0, False),
    }


def test_the_context_does_not_grow(ran: Run, rows: dict[int, list[int]]) -> None:
    """After 1,000 turns it is as large as after 30, while the history grows."""
    (largest,) = re.findall(r"^Largest context: ([\d,]+) tokens", ran.printed, re.MULTILINE)
    history = [cells[-1] for cells in rows.values()]

    assert int(largest.replace(",", "")) < 3_000
    assert rows[1_000][2] < rows[30][2]
    assert history == sorted(set(history))
