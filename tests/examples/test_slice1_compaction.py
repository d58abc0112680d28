"""Slice 1, run as a script: concluding an effort."""

import re

import pytest

from tests.examples.running import Run


def test_there_is_a_row_for_each_turn(ran: Run) -> None:
    """The table shows the ten turns of the effort and the four after it."""
    turns = re.findall(r"^│ (\d+) ", ran.printed, re.MULTILINE)

    assert turns == [str(turn) for turn in range(1, 15)]


def test_concluding_saves_four_fifths(ran: Run) -> None:
    """The summary has at most a fifth of the tokens of the raw log, as the printed figures say."""
    printed = ran.printed.replace(",", "")
    ((log, summary),) = re.findall(r"Open: (\d+) tokens.*Concluded: (\d+) tokens", printed)
    (saved,) = re.findall(r"Saved: ([\d.]+)%", printed)

    assert float(saved) >= 80
    assert float(saved) == pytest.approx(100 * (1 - int(summary) / int(log)), abs=0.1)


def test_the_parts_add_up(ran: Run) -> None:
    """Instructions, summary, turns and this turn are what was sent."""
    rows = re.findall(r"^│ \d+ +│ ([\d,]+)" + r" +│ ([\d,]+)" * 4, ran.printed, re.MULTILINE)
    cells = [[int(cell.replace(",", "")) for cell in row] for row in rows]

    assert [sum(parts) for *parts, _ in cells] == [sent for *_, sent in cells]


def test_the_raw_log_leaves(ran: Run) -> None:
    """From the call after its conclusion on its summary stands for it."""
    rows = re.findall(r"^│ \d+ +│ [\d,]+ +│ ([\d,]+) +│ ([\d,]+) ", ran.printed, re.MULTILINE)
    cells = [[int(cell.replace(",", "")) for cell in row] for row in rows]

    assert [summary > 0 for summary, _ in cells] == [False] * 9 + [True] * 5
    assert cells[-1][1] < 0.2 * cells[8][1]
