"""A year of attention, run as a script."""

import re

from tests.examples.running import Run

ROW = r"^│ (\d+) +" + r"│ ([\d.()]*) +" * 5 + "│$"


def test_the_table_follows_the_law(ran: Run) -> None:
    """Each month shows what holds more than the threshold, and in brackets what is out."""
    rows = {int(day): cells for day, *cells in re.findall(ROW, ran.printed, re.MULTILINE)}

    assert list(rows) == [*range(0, 365, 30)]
    assert rows[0] == ["60.0", "", "", "", ""]
    assert rows[30] == ["42.0", "71.0", "58.4", "85.5", ""]
    assert rows[60] == ["(24.0)", "44.9", "48.2", "(57.0)", ""]
    assert rows[180] == ["(18.0)", "40.5", "(33.6)", "(28.5)", ""]
    assert rows[360] == ["(18.0)", "40.5", "(33.6)", "(28.5)", "(32.0)"]


def test_it_counts_the_days(ran: Run) -> None:
    """The days in attention are those of the law: one came back, one was taken out."""
    days = dict(re.findall(r"^([\w-]+): (\d+) days in attention", ran.printed, re.MULTILINE))

    assert days == {
        "never-used": "34",
        "used-weekly": "253",
        "came-back": "61",
        "suppressed": "20",
        "late": "51",
    }
