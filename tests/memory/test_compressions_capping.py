"""The set of salient items is bounded: what was superseded leaves first, constraints last."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.compressions import SUPERSEDED, Item, Kind, capped
from tests.doubles import words

GONE = Item(Kind.CONSTRAINT, "old rule", 9, superseded_by="x")
RULE = Item(Kind.CONSTRAINT, "first rule", 1)
OTHER = Item(Kind.CONSTRAINT, "second rule", 8)
DECISION = Item(Kind.DECISION, "our choice", 3)
GOAL = Item(Kind.GOAL, "our goal", 3)
FACT = Item(Kind.FACT, "a fact", 3)
OUTPUT = Item(Kind.OUTPUT, "an output", 3)
LATE = Item(Kind.OUTPUT, "late output", 4)
ALL = [RULE, DECISION, GOAL, FACT, OUTPUT, LATE, OTHER, GONE]
LEAVING = [GONE, OUTPUT, FACT, GOAL, DECISION, LATE, RULE, OTHER]


@pytest.mark.parametrize("left", range(len(ALL) + 1))
def test_the_order_in_which_items_leave(left: int) -> None:
    """Superseded, then the oldest of what is no constraint, then the oldest constraints."""
    kept = capped(ALL, 2 * left, words)

    assert kept == tuple(item for item in ALL if item in LEAVING[len(ALL) - left :])


def test_superseded_items_are_few() -> None:
    """However much room there is, only the newest of what was superseded are kept."""
    old = [Item(Kind.FACT, f"value {turn}", turn, superseded_by="x") for turn in range(150)]
    kept = capped([RULE, *old], 10_000, words)

    assert kept == (RULE, *old[150 - SUPERSEDED :])


@given(
    st.lists(
        st.builds(
            Item,
            st.sampled_from(Kind),
            st.text("ab ", max_size=12),
            st.integers(1, 5),
            st.sampled_from(["", "x"]),
        ),
        max_size=12,
        unique_by=lambda item: item.key,
    ),
    st.integers(0, 20),
)
def test_the_set_stays_in_its_limit(items: Sequence[Item], limit: int) -> None:
    """What is kept fits and keeps its order, and to cap it again changes nothing."""
    kept = capped(items, limit, words)

    assert sum(words(item.quote) for item in kept) <= limit
    assert [item for item in items if item in kept] == list(kept)
    assert capped(kept, limit, words) == kept


def test_what_the_user_said_outlives_what_the_assistant_proposed() -> None:
    """Also where the assistant's words are newer, or were taken for a constraint."""
    asked = Item(Kind.FACT, "the user's", 1, speaker="user")
    proposed = Item(Kind.CONSTRAINT, "the assistant's", 9, speaker="assistant")
    found = Item(Kind.FACT, "a tool's", 9, speaker="tool")

    assert capped([asked, proposed, found], 2, words) == (asked,)


def test_what_the_goal_is_about_outlives_what_is_newer() -> None:
    """Only the user's constraints stay longer: an old count of rows is what the work is about."""
    rows = Item(Kind.FACT, "213 lines, so expect 212 rows.", 1, speaker="assistant")
    newer = Item(Kind.FACT, "It rains in Porto.", 5, speaker="user")
    goal = "Find out whether the 213 lines of the file lost a row."

    assert capped([RULE, rows, newer], 8, words) == (RULE, newer)
    assert capped([RULE, rows, newer], 8, words, goal) == (RULE, rows)
