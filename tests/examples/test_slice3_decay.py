"""Slice 3, run as a script: an expanded effort decays."""

import re

from tests.examples.running import Run


def test_the_table_is_that_of_the_proof_run(ran: Run) -> None:
    """The log is expanded for four turns, collapses in the fifth, and comes back in the seventh."""
    pattern = r"^│ (\d) +│ [\w ,-]+? +│ ([\w-]+) +│ (\d?) +│"
    rows = re.findall(pattern, ran.printed, re.MULTILINE)

    assert rows == [
        ("1", "auth-bug", "0"),
        ("2", "auth-bug", "0"),
        ("3", "auth-bug", "1"),
        ("4", "auth-bug", "2"),
        ("5", "none", ""),
        ("6", "none", ""),
        ("7", "auth-bug", "0"),
    ]


def test_it_tells_of_the_collapse(ran: Run) -> None:
    """The banner of the automatic collapse is printed once."""
    banner = "--- Auto-collapsed effort: auth-bug (inactive for 3 turns) ---"

    assert ran.printed.count(banner) == 1
