"""The lines that tell the user what happened."""

import pytest

from ebbtide.memory import banners

EVENT = {"effort": "x", "tokens": 812, "summary": "It works: {}."}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("opened", "--- Started effort: x ---"),
        ("concluded", "--- Concluded effort: x ---\nIt works: {}."),
        ("switched", "--- Switched to effort: x ---"),
        ("paused", "--- Paused effort: x ---"),
        ("reopened", "--- Reopened effort: x ---"),
        ("expanded", "--- Expanded effort: x (812 tokens) ---"),
        ("collapsed", "--- Collapsed effort: x (back to summary) ---"),
        ("evicted", "--- Evicted effort: x (kept in the archive) ---"),
        ("returned", "--- Returned effort: x ---"),
        ("goal_updated", "--- Updated goal of effort: x ---"),
        ("constraints_updated", "--- Updated constraints of effort: x ---"),
        ("referenced", ""),
    ],
)
def test_the_banner_of_an_event_is_worded_as_specified(kind: str, expected: str) -> None:
    """Every banner reads as the specification has it, dashes included."""
    assert banners.of({"type": kind, **EVENT}) == expected


def test_what_no_event_says_is_worded_as_specified() -> None:
    """Banners that say how long or how much are made of that."""
    assert (
        banners.auto_collapsed("x", 3) == "--- Auto-collapsed effort: x (inactive for 3 turns) ---"
    )
    assert banners.compressed("x", "2-9") == "--- Compressed effort: x (turns 2-9) ---"
    cut = "--- Shortened state block: 500 tokens, of which 400 may be kept ---"
    assert banners.anchor_cut(500, 400) == cut
    assert banners.WORDLESS == "--- Answered without words: only the state block was written ---"
