"""The anchor beside a rolling window, run as a script."""

import re

from tests.examples.running import Run

ROW = r"^│ (\d+) +│[^│]+│ (\d+) +│ ([^│]+?) +│ [\d,]+ +│ (\d+)% +│"


def test_the_window_rolls_and_the_anchor_stays(ran: Run) -> None:
    """Four turns are shown, with each one more an old one leaves; what was anchored stays."""
    rows = re.findall(ROW, ran.printed, re.MULTILINE)

    assert [int(ambient) for _, ambient, *_ in rows] == [0, 1, 2, 3, *[4] * 8]
    assert [anchor for _, _, anchor, _ in rows] == [
        *["port 8443"] * 2,
        *["port 8443, version 20.11"] * 10,
    ]


def test_most_of_the_prompt_is_a_prefix(ran: Run) -> None:
    """From the second turn on at least 80 % is the prompt of the call before, in every rebuild."""
    rows = re.findall(ROW, ran.printed, re.MULTILINE)

    assert [turn for turn, *_, prefix in rows if int(prefix) < 80] == ["1"]


def test_what_left_the_window_is_there(ran: Run) -> None:
    """What was anchored is answered from the notes, and what was not is found by searching."""
    said = " ".join(ran.printed.split())

    assert 'From the memory: "Technical Anchors: port 8443"' in said
    assert "Found turn 2: Miriam keeps the spare key of the server" in said
