"""Pointing: which thing a message clearly is about."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.context.notes import pointed_at

SAID = {"a": {"k", "l", "m", "z"}, "b": {"n", "z"}, "c": {"o", "z"}}


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (["k", "l", "m"], "a"),
        (["k", "l", "m", "unknown"], "a"),
        (["k", "l", "m", "x", "y", "w"], None),
        (["k", "l"], None),
        (["k", "l", "z"], None),
        (["k", "l", "m", "n"], "a"),
        (["x", "y", "w"], None),
        ([], None),
    ],
)
def test_what_a_message_points_at(message: list[str], name: str | None) -> None:
    """It takes three telling words, most of what the message says, and a clear lead."""
    assert pointed_at(message, SAID, 5) == name


def test_two_equals_are_none() -> None:
    """If two things say the same, neither is pointed at."""
    assert pointed_at(["k", "l", "m"], {"a": {"k", "l", "m"}, "b": {"k", "l", "m"}}, 9) is None


def test_without_things_there_is_nothing_to_point_at() -> None:
    """An empty session has no best."""
    assert pointed_at(["k", "l", "m"], {}, 0) is None


@given(st.lists(st.sampled_from("klmnoz"), max_size=8), st.integers(0, 50))
def test_order_and_repetition_do_not_matter(message: list[str], count: int) -> None:
    """A message is the set of what it says."""
    assert pointed_at(message, SAID, count) == pointed_at([*reversed(message)] * 2, SAID, count)
