"""What nobody references leaves the context."""

import pytest

from ebbtide.memory.efforts import EffortState
from ebbtide.memory.settings import Settings

SETTINGS = Settings(decay_threshold=3, summary_eviction_threshold=20)


def at(turn: int, expanded: int | None = None, **summaries: int) -> EffortState:
    """Return a state with one open effort, summaries, and `a` expanded or not."""
    entry = {"expanded_turn": 1, "last_referenced_turn": expanded, "turns": [1]}
    return EffortState(
        turn=turn,
        active="o",
        open={"o": {"opened_turn": 1, "last_active_turn": 1, "last_referenced_turn": 1}},
        expanded={} if expanded is None else {"a": entry},
        summaries=summaries,
    )


@pytest.mark.parametrize(("turn", "left"), [(5, ["a"]), (6, ["a"]), (7, ["a"]), (8, []), (9, [])])
def test_an_expanded_log_collapses_at_the_threshold(turn: int, left: list[str]) -> None:
    """Referenced at turn 5 with threshold 3, it is there after turn 7 and gone after turn 8."""
    assert [*at(turn, expanded=5, a=5).decayed(SETTINGS).expanded] == left


def test_the_banner_says_for_how_long() -> None:
    """Banner and event of an automatic collapse say so; the summary stays."""
    state = at(8, expanded=5, a=5).decayed(SETTINGS)

    assert state.banners == ("--- Auto-collapsed effort: a (inactive for 3 turns) ---",)
    assert state.events == ({"type": "collapsed", "effort": "a", "auto": True},)
    assert state.summaries == {"a": 5}


@pytest.mark.parametrize(("turn", "left"), [(29, {"b": 10}), (30, {})])
def test_a_summary_leaves_at_the_threshold(turn: int, left: dict[str, int]) -> None:
    """Referenced at turn 10, a summary is in state after turn 29 and gone after turn 30."""
    assert at(turn, b=10).decayed(SETTINGS).summaries == left


def test_each_effort_has_a_counter_of_its_own() -> None:
    """Of two summaries only the one that nobody referenced leaves."""
    assert at(30, b=10, c=11).decayed(SETTINGS).summaries == {"c": 11}


def test_an_expanded_effort_keeps_its_summary() -> None:
    """While the log is in the context, the summary is, whatever its counter."""
    settings = SETTINGS.model_copy(update={"decay_threshold": 100})

    assert at(60, expanded=5, a=5).decayed(settings).summaries == {"a": 5}


def test_open_efforts_stay() -> None:
    """An open effort does not fade."""
    before = at(1_000)

    assert before.decayed(SETTINGS) == before


def test_with_the_least_threshold_an_expansion_lasts_for_the_next_turn() -> None:
    """A log that was expanded in this turn is there in the next one."""
    settings = SETTINGS.model_copy(update={"decay_threshold": 1})

    assert [*at(5, expanded=5, a=5).decayed(settings).expanded] == ["a"]
    assert [*at(6, expanded=5, a=5).decayed(settings).expanded] == []
