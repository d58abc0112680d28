"""Turn numbers as people and models write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.errors import ToolError
from ebbtide.memory.names import numbers, ranges


@pytest.mark.parametrize(
    ("written", "turns"),
    [
        ("3-5,8", {3, 4, 5, 8}),
        (" 3 - 5 , 8 ", {3, 4, 5, 8}),
        ("3–5", {3, 4, 5}),
        ("", set()),
        ("1-100000", set(range(1, 100_001))),
    ],
)
def test_numbers_and_ranges_are_read(written: str, turns: set[int]) -> None:
    """Single numbers and ranges are read in any order, with spaces and en dashes."""
    assert numbers(written) == turns


@pytest.mark.parametrize(
    "written",
    ["all", "5-3", "3-", "3;4", "1-2-3", "1-100001", "1-60000,70000-130000"],
)
def test_anything_else_is_an_error_that_shows_how(written: str) -> None:
    """What cannot be read, and what names over 100,000 turns, is quoted beside an example."""
    with pytest.raises(ToolError) as raised:
        numbers(written)

    assert str(raised.value) == f"turns '{written}' cannot be read; write them like \"3-5,8\""


def test_many_large_ranges_take_no_time() -> None:
    """A text full of ranges is refused before its turns are counted out."""
    written = ",".join(f"{start}-{start + 99_998}" for start in range(0, 90_000_000, 100_000))

    with pytest.raises(ToolError, match="cannot be read"):
        numbers(written)


@given(st.sets(st.integers(0, 99_999)))
def test_ranges_and_numbers_are_inverse(turns: set[int]) -> None:
    """What `ranges` writes, `numbers` reads."""
    assert numbers(ranges(sorted(turns))) == turns


@pytest.mark.parametrize(
    ("turns", "written"),
    [([], ""), ([1, 2, 3, 7, 9, 10], "1-3,7,9-10")],
)
def test_neighbours_are_written_as_a_range(turns: list[int], written: str) -> None:
    """Runs of neighbouring turns are written by their ends."""
    assert ranges(turns) == written
