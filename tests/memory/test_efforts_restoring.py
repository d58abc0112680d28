"""The state of a thread as the events of its archived turns left it."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.memory.efforts import EMPTY, EffortState, applied
from ebbtide.memory.messages import Message
from tests.draws import examples
from tests.memory.conversations import OWNER, Conversation, call, conversation

NAMES = st.sampled_from(["a", "b", "c", "d"])
CALLS = st.one_of(
    st.builds(lambda name: call("open_effort", name=name), NAMES),
    st.builds(lambda name: call("close_effort", effort_id=name), NAMES | st.none()),
    st.builds(
        lambda tool_name, name: call(tool_name, effort_id=name),
        st.sampled_from(["switch_effort", "reopen_effort", "expand_effort", "collapse_effort"]),
        NAMES,
    ),
    st.just(call("switch_effort")),
    st.builds(
        lambda turns: call("expand_effort", effort_id="a", turns=turns), NAMES | st.just("1")
    ),
    st.builds(lambda goal: call("update_goal", goal=goal, add_constraints=[goal]), NAMES),
    st.just(call("effort_status")),
)
SCRIPTS = st.lists(st.lists(CALLS, max_size=6), min_size=1, max_size=8)


def ordered(state: EffortState) -> dict[str, Any]:
    """Return a state with its mappings as lists, so that their order counts."""
    return {
        "turn": state.turn,
        "active": state.active,
        "open": list(state.open.items()),
        "expanded": list(state.expanded.items()),
        "summaries": list(state.summaries.items()),
    }


@settings(max_examples=examples(20))
@given(SCRIPTS)
def test_replaying_the_events_gives_what_the_tools_left(script: list[list[Message]]) -> None:
    """Whatever the tools did in whatever order, the archived events tell all of it."""
    with conversation(MOST_SUMMARIES=2, MOST_OPEN=2) as talk:
        talk.follow(script)
        state = EffortState.after(talk.archive.turns(OWNER, talk.tip, range(1, len(script) + 1)))

    assert ordered(state) == ordered(talk.state)
    assert (state.events, state.banners) == ((), ())


def test_no_records_give_an_empty_state() -> None:
    """A thread before its first turn has nothing."""
    assert EffortState.after([]) == EMPTY


def test_the_active_effort_stays_active_through_later_turns(talk: Conversation) -> None:
    """A turn without events still counts as one in which the effort was active."""
    talk.turn("one", call("open_effort", name="a"))
    talk.turn("two")
    talk.turn("three")
    state = EffortState.after(talk.archive.turns(OWNER, talk.tip, [1, 2, 3]))

    assert state.open == {"a": {"opened_turn": 1, "last_active_turn": 3, "last_referenced_turn": 1}}


BEFORE = replace(
    EMPTY,
    turn=7,
    active="a",
    open={"a": {"opened_turn": 1, "last_active_turn": 7, "last_referenced_turn": 5}},
    expanded={"x": {"expanded_turn": 3, "last_referenced_turn": 3, "turns": [1]}},
    summaries={"x": 3, "y": 4},
)
SHOWN = {"expanded_turn": 7, "last_referenced_turn": 7, "turns": [1, 2]}
RENEWED = {"expanded_turn": 3, "last_referenced_turn": 7, "turns": [1]}


@pytest.mark.parametrize(
    ("event", "changed"),
    [
        ({"type": "collapsed", "effort": "x", "auto": True}, {"expanded": {}}),
        ({"type": "evicted", "effort": "x"}, {"expanded": {}, "summaries": {"y": 4}}),
        ({"type": "returned", "effort": "z"}, {"summaries": {"x": 3, "y": 4, "z": 7}}),
        (
            {"type": "expanded", "effort": "x", "turns": [1, 2], "tokens": 9},
            {"expanded": {"x": SHOWN}, "summaries": {"x": 7, "y": 4}},
        ),
        (
            {"type": "expanded", "effort": "x", "turns": [1], "tokens": 9, "again": True},
            {"expanded": {"x": RENEWED}, "summaries": {"x": 7, "y": 4}},
        ),
        (
            {"type": "concluded", "effort": "a"},
            {"active": None, "open": {}, "summaries": {"x": 3, "y": 4, "a": 7}},
        ),
        ({"type": "goal_updated", "effort": "a"}, {}),
        ({"type": "compressed", "effort": "a", "turn": 6}, {"compressed": {"a": 6}}),
        ({"type": "compressed", "effort": "x", "turn": 6}, {}),
    ],
)
def test_one_event(event: dict[str, Any], changed: dict[str, Any]) -> None:
    """Each event changes its part; goals are in the manifest, and unknown events change nothing."""
    assert applied(BEFORE, event) == replace(BEFORE, **changed)
