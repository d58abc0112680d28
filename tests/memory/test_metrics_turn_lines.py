"""Turns as lines, in pages."""

import pytest

from ebbtide.memory.metrics import numbers_on, pages, turn_line
from ebbtide.memory.record import Group, place
from ebbtide.memory.valid_history import note


def test_a_line_says_how_the_user_began() -> None:
    """The first user message is quoted in one line, cut when long; notes are not the user's."""
    long = {"type": "human", "data": {"content": "word\n" * 40}}
    group = Group(3, (note("of ours"), long), at="2026-01-01T10:00:00.000Z", efforts=("a",))

    line = turn_line(place(group, "main", "", None))

    assert (line.turn, line.efforts, line.at) == (3, ("a",), "2026-01-01T10:00:00.000Z")
    assert line.said == "word " * 12 + "…"


def test_a_turn_without_user_message_has_an_empty_line() -> None:
    """A turn of which nothing is left still has its line."""
    line = turn_line(place(Group(1, (), at="", status="aborted"), "main", "", None))

    assert (line.said, line.status) == ("", "aborted")


@pytest.mark.parametrize("turns", [0, 1, 19, 20, 21, 40, 41])
def test_pages_hold_each_turn_once(turns: int) -> None:
    """All pages together are all turns, the newest on the first page."""
    listed = [[*numbers_on(page, turns)] for page in range(1, pages(turns) + 1)]

    assert [turn for page in reversed(listed) for turn in page] == [*range(1, turns + 1)]
    assert all(len(page) == 20 for page in listed[:-1])
