"""The part of the state that the memory tools change."""

from dataclasses import replace
from functools import reduce

import pytest

from ebbtide.memory.efforts import Efforts, within_limit
from tests.constants import constants

BUSY = Efforts(
    turn=9,
    active="c",
    open={
        "a": {"opened_turn": 1, "last_active_turn": 7, "last_referenced_turn": 3},
        "b": {"opened_turn": 2, "last_active_turn": 5, "last_referenced_turn": 4},
        "c": {"opened_turn": 4, "last_active_turn": 9, "last_referenced_turn": 8},
    },
    expanded={"x": {"expanded_turn": 8, "last_referenced_turn": 8, "turns": [1]}},
    summaries={
        "x": {"last_referenced_turn": 3},
        "y": {"last_referenced_turn": 2},
        "z": {"last_referenced_turn": 2},
    },
)


@pytest.mark.parametrize(("closed", "active"), [(["c", "a"], None), (["a"], "c")])
def test_no_effort_takes_over(closed: list[str], active: str | None) -> None:
    """With the active effort closed none is active; closing others leaves it active."""
    state = reduce(Efforts.closed, closed, BUSY)

    assert state.active == active


@pytest.mark.parametrize(
    ("limit", "left", "evicted"),
    [(3, ["x", "y", "z"], []), (2, ["x", "z"], ["y"]), (1, ["x"], ["y", "z"])],
)
def test_the_longest_unreferenced_summaries_leave(
    limit: int, left: list[str], evicted: list[str]
) -> None:
    """Over the limit the longest unreferenced summary leaves, of equals the one that came first."""
    with constants(MOST_SUMMARIES=limit):
        state = within_limit(BUSY)

    assert list(state.summaries) == left
    assert [event["effort"] for event in state.events] == evicted
    assert len(state.banners) == len(evicted)


def test_an_expanded_effort_keeps_its_summary_if_another_can_leave() -> None:
    """Over the limit, summaries without an expanded log leave first."""
    with constants(MOST_SUMMARIES=1):
        state = within_limit(
            replace(
                BUSY, summaries={"x": {"last_referenced_turn": 1}, "y": {"last_referenced_turn": 2}}
            )
        )

    assert [*state.summaries] == ["x"]
