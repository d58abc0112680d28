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
    assert banner_of(kind, **EVENT) == expected


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        (
            "faded",
            {"effort": "x", "turns": 3},
            "--- Auto-collapsed effort: x (inactive for 3 turns) ---",
        ),
        ("shortened", {"effort": "x", "turns": "2-9"}, "--- Compressed effort: x (turns 2-9) ---"),
        (
            "anchor_cut",
            {"tokens": 500, "limit": 400},
            "--- Shortened state block: 500 tokens, of which 400 may be kept ---",
        ),
        ("wordless", {}, "--- Answered without words: only the state block was written ---"),
        ("adopted", {"turns": 1}, "--- Adopted 1 earlier turn ---"),
        ("adopted", {"turns": 2}, "--- Adopted 2 earlier turns ---"),
        (
            "unseen",
            {"turns": 2, "branch": "main"},
            (
                "--- Began anew: the archive has 2 turns, "
                "restore(agent, config, branch='main') goes on there ---"
            ),
        ),
        ("surfaced", {"efforts": ["t/a", "t/b"]}, "--- From earlier sessions: t/a, t/b ---"),
    ],
)
def test_other_banners_are_made_of_how_long_or_how_much(
    kind: str, fields: dict[str, Any], expected: str
) -> None:
    """Banners of what no event says alone read as the specification has it."""
    assert banner_of(kind, **fields) == expected
