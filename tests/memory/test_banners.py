"""The lines that tell the user what happened."""

import pytest

from ebbtide.memory import banners


@pytest.mark.parametrize(
    ("banner", "expected"),
    [
        (banners.started("x"), "--- Started effort: x ---"),
        (banners.concluded("x", "It works."), "--- Concluded effort: x ---\nIt works."),
        (banners.switched("x"), "--- Switched to effort: x ---"),
        (banners.paused("x"), "--- Paused effort: x ---"),
        (banners.reopened("x"), "--- Reopened effort: x ---"),
        (banners.expanded("x", 812), "--- Expanded effort: x (812 tokens) ---"),
        (banners.collapsed("x"), "--- Collapsed effort: x (back to summary) ---"),
        (banners.evicted("x"), "--- Evicted effort: x (kept in the archive) ---"),
        (banners.returned("x"), "--- Returned effort: x ---"),
        (banners.wordless(), "--- Answered without words: only the state block was written ---"),
        (banners.goal_updated("x"), "--- Updated goal of effort: x ---"),
        (banners.constraints_updated("x"), "--- Updated constraints of effort: x ---"),
    ],
)
def test_a_banner_is_worded_as_specified(banner: str, expected: str) -> None:
    """Every banner reads as the specification has it, dashes included."""
    assert banner == expected
