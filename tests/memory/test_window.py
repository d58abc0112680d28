"""The ambient window, cut in steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.window import window

COUNTS = st.integers(0, 1_000)
SIZES = st.integers(1, 50)


@pytest.mark.parametrize(
    ("groups", "size", "step", "expected"),
    [
        (0, 10, 5, 0),
        (9, 10, 5, 9),
        (10, 10, 5, 10),
        (14, 10, 5, 14),
        (15, 10, 5, 10),
        (16, 10, 5, 11),
        (19, 10, 5, 14),
        (20, 10, 5, 10),
        (11, 10, 1, 10),
        (500, 10, 1, 10),
        (500, 0, 5, 500),
        (0, 0, 5, 0),
        (3, 1, 2, 1),
    ],
)
def test_the_window_by_number_of_groups(groups: int, size: int, step: int, expected: int) -> None:
    """All are shown up to the size, then up to a step more; size 0 means all."""
    assert window(groups, size, step) == expected


@given(COUNTS, SIZES, SIZES)
def test_the_window_is_within_its_bounds(groups: int, size: int, step: int) -> None:
    """At least the size is shown if there is so much, at most a step less one more."""
    shown = window(groups, size, step)

    assert min(groups, size) <= shown <= min(groups, size + step - 1)


@given(COUNTS, SIZES, SIZES)
def test_the_window_begins_later_only_by_whole_steps(groups: int, size: int, step: int) -> None:
    """One more group moves the beginning not at all, or by a whole step."""
    before = groups - window(groups, size, step)
    after = groups + 1 - window(groups + 1, size, step)

    assert after - before in {0, step}
