"""The part of the state that the memory tools change."""

from dataclasses import replace
from functools import reduce

import pytest

from ebbtide.memory.efforts import EMPTY, EffortState, applied, happened, within_limit
from tests.constants import constants

BUSY = EffortState(
    turn=9,
    active="c",
    open={
        "a": {"opened_turn": 1, "last_active_turn": 7, "last_referenced_turn": 3},
        "b": {"opened_turn": 2, "last_active_turn": 5, "last_referenced_turn": 4},
        "c": {"opened_turn": 4, "last_active_turn": 9, "last_referenced_turn": 8},
    },
    expanded={"x": {"expanded_turn": 8, "last_referenced_turn": 8, "turns": [1]}},
    summaries={"x": 3, "y": 2, "z": 2},
)


def test_a_new_effort_becomes_active_with_this_turn_in_all_counters() -> None:
    """An effort that was not open is opened, active and referenced in this turn."""
    state = BUSY.activated("d")

    assert state.active == "d"
    assert state.open["d"] == {
        "opened_turn": 9,
        "last_active_turn": 9,
        "last_referenced_turn": 9,
    }


def test_an_open_effort_keeps_when_it_was_opened_and_referenced() -> None:
    """Switching renews only when an effort was active, and its place."""
    state = BUSY.activated("b")

    assert state.open["b"] == {"opened_turn": 2, "last_active_turn": 9, "last_referenced_turn": 4}
    assert list(state.open) == ["a", "c", "b"]


@pytest.mark.parametrize(
    ("closed", "active"), [(["c"], None), (["c", "a"], None), (["a"], "c"), (["a", "b"], "c")]
)
def test_no_effort_takes_over(closed: list[str], active: str | None) -> None:
    """With the active effort closed none is active; closing others leaves it active."""
    state = reduce(EffortState.closed, closed, BUSY)

    assert state.active == active


def test_events_and_banners_are_kept_in_order() -> None:
    """Events without a banner leave the banners as they are."""
    first = happened(EMPTY, {"type": "a"}, "--- A ---")
    state = happened(happened(first, {"type": "b"}), {"type": "c"}, "C")

    assert [event["type"] for event in state.events] == ["a", "b", "c"]
    assert state.banners == ("--- A ---", "C")
    assert state.banners_since(first) == ("C",)
    assert state.banners_since(state) == ()


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


def test_an_evicted_effort_is_no_longer_expanded() -> None:
    """A log whose summary leaves the context leaves it too."""
    state = happened(BUSY, {"type": "evicted", "effort": "x"})

    assert state.expanded == {}


def test_an_expanded_effort_keeps_its_summary_if_another_can_leave() -> None:
    """Over the limit, summaries without an expanded log leave first."""
    with constants(MOST_SUMMARIES=1):
        state = within_limit(replace(BUSY, summaries={"x": 1, "y": 2}))

    assert [*state.summaries] == ["x"]


@pytest.mark.parametrize(
    ("name", "tier"), [("a", "open"), ("x", "expanded"), ("x", "summaries"), ("y", "summaries")]
)
def test_a_reference_renews_the_counters_of_its_effort(name: str, tier: str) -> None:
    """Where an effort stands, its counter shows this turn; all else is as it was."""
    state = applied(BUSY, {"type": "referenced", "effort": name})
    entry = getattr(state, tier)[name]

    assert (entry if tier == "summaries" else entry["last_referenced_turn"]) == 9
    assert {**getattr(state, tier), name: 0} == {**getattr(BUSY, tier), name: 0}
    assert [*getattr(state, tier)] == [*getattr(BUSY, tier)]


def test_a_reference_to_what_is_not_in_the_context_changes_nothing() -> None:
    """An effort that the state does not know gets no counter."""
    state = applied(BUSY, {"type": "referenced", "effort": "gone"})

    assert state == BUSY
