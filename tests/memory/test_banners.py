"""The lines that tell the user what happened."""

from typing import Any

import pytest

from ebbtide.memory.banners import banner_of

EVENT: dict[str, Any] = {"effort": "x", "tokens": 812, "summary": "It works: {}."}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("opened", "--- Started effort: x ---"),
        ("concluded", "--- Concluded effort: x ---\nIt works: {}."),
        ("expanded", "--- Expanded effort: x (812 tokens) ---"),
        ("collapsed", "--- Collapsed effort: x (back to summary) ---"),
        ("evicted", "--- Evicted effort: x (kept in the archive) ---"),
        ("referenced", ""),
    ],
)
def test_the_banner_of_an_event_is_worded_as_specified(kind: str, expected: str) -> None:
    """Every banner reads as the specification has it, dashes included."""
    assert banner_of(kind, **EVENT) == expected
