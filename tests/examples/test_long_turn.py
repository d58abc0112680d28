"""One long turn, run as a script: the request stays whole, and the budget holds."""

import re

from tests.examples.running import Run

ROW = r"^│ (\d+) +│ ([\d,]+) +│ (\w+) +│ (\d+) +│ (\d+) +│"


def test_the_request_stays_and_results_leave(ran: Run) -> None:
    """Efforts that conclude become summaries, whose results leave; each call has the request."""
    rows = re.findall(ROW, ran.printed, re.MULTILINE)
    tokens, requests, summaries, _ = zip(*(row[1:] for row in rows), strict=True)

    assert {*requests} == {"whole"}
    assert [int(number) for number in summaries] == sorted(map(int, summaries))
    assert int(summaries[-1]) >= 3
    assert max(int(number.replace(",", "")) for number in tokens) <= 4_000
