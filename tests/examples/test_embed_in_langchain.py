"""Embedding, run as a script: the agent with tools, in a graph, in a chain."""

import re

from tests.examples.running import Run


def test_the_memory_is_the_same_in_each_place(ran: Run) -> None:
    """Alone, in a graph and in a chain the agent counts the same turns, effort and tokens."""
    rows = re.findall(r"^│ (\w[\w ]+?) +│ 3 +│ late-parcel +│ (\d+) ", ran.printed, re.MULTILINE)

    assert [place for place, _ in rows] == ["alone", "in a graph", "in a chain"]
    assert len({tokens for _, tokens in rows}) == 1


def test_the_applications_tool_answers(ran: Run) -> None:
    """In each place the last answer quotes what the application's tool said before."""
    answers = ran.printed.count("From a tool: ")

    assert answers == 3


def test_the_larger_graph_keeps_a_state_of_its_own(ran: Run) -> None:
    """The larger graph counts the requests beside what the memory keeps."""
    assert "The larger graph counted 3 requests." in ran.printed
