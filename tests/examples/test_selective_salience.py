"""An open effort that goes on for long, run as a script."""

import re

from tests.examples.running import Run

ROW = r"^│ (\d+) +│ ([^│]*?) +│ ([\d,]+) +│ ([\d,]+) +│ ([\d,]+) +│"


def rows(ran: Run) -> list[tuple[int, str, int, int, int]]:
    """Return the table: turn, what was compressed, effort, context, all that was said."""
    table = re.findall(ROW, ran.printed, re.MULTILINE)
    return [
        (int(turn), span, *(int(cell.replace(",", "")) for cell in cells))
        for turn, span, *cells in table
    ]


def test_the_effort_stays_in_its_share(ran: Run) -> None:
    """What was said grows fourfold and more; the effort in the context does not."""
    _, first, *_, last = rows(ran)

    assert last[4] > 4 * first[4]
    assert last[2] <= first[2] * 1.1
    assert max(row[3] for row in rows(ran)) <= 2_700


def test_it_is_compressed_again_and_again(ran: Run) -> None:
    """Each pass takes further turns, all from the first one on."""
    spans = [row[1] for row in rows(ran) if row[1]]

    ends = [int(turns.removeprefix("turns 1-")) for turns in spans]
    assert len(ends) > 5
    assert ends == sorted(set(ends))


def test_what_holds_is_verbatim_and_what_was_revised_is_gone(ran: Run) -> None:
    """All four statements that hold stand in the last context, the old number does not."""
    lines = ran.printed.splitlines()

    assert len([line for line in lines if line.startswith("verbatim ")]) == 4
    assert [line for line in lines if line.startswith("gone ")] == [
        "gone     The upload limit is 10 MB."
    ]
