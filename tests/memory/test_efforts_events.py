"""What each event changes in the state of the efforts."""

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.memory.efforts import EMPTY, applied
from tests.memory.conversations import Conversation, call


def test_the_active_effort_stays_active_through_later_turns(talk: Conversation) -> None:
    """A turn without events still counts as one in which the effort was active."""
    talk.turn("one", call("open_effort", name="a"))
    talk.turn("two")
    talk.turn("three")

    entry = {"opened_turn": 1, "last_active_turn": 3, "last_referenced_turn": 1}
    assert talk.state.open == {"a": entry}


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
