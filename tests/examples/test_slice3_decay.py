"""Slice 3, run as a script: an expanded effort decays."""

import re

from tests.examples.running import Run


def test_the_table_is_that_of_the_proof_run(ran: Run) -> None:
    """The log is expanded for four turns, collapses in the fifth, and comes back in the seventh."""
    pattern = r"^│ (\d) +│ [\w ,-]+? +│ ([\w -]+?)(?: \(collapsed\))? +│ (\d?) +│"
    rows = re.findall(pattern, ran.printed, re.MULTILINE)

    assert rows == [
        ("1", "auth-bug", "0"),
        ("2", "auth-bug", "0"),
        ("3", "auth-bug", "1"),
        ("4", "auth-bug", "2"),
        ("5", "none", "3"),
        ("6", "none", ""),
        ("7", "auth-bug", "0"),
    ]


def test_it_tells_of_the_collapse(ran: Run) -> None:
    """The banner of the automatic collapse is printed once."""
    banner = "--- Auto-collapsed effort: auth-bug (inactive for 3 turns) ---"

    assert ran.printed.count(banner) == 1


def test_it_prints_the_metrics(ran: Run) -> None:
    """The one collapse was undone two turns later; two calls were sent without the log."""
    (log,) = {*re.findall(r"Expanded effort: auth-bug \((\d+) tokens\)", ran.printed)}
    printed = dict(re.findall(r"^(\w+): (\S+)", ran.printed, re.MULTILINE))

    assert printed["false_decay_rate"] == "1"
    assert printed["avg_expansion_duration"] == "4"
    assert printed["tokens_saved_by_decay"] == f"{2 * int(log):,}"
