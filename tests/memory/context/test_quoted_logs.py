"""A log that is brought back, as the context quotes it."""

import re

from ebbtide.memory.context.quotes import Quoted, log_quote
from ebbtide.memory.messages import text
from ebbtide.memory.transcript import transcript
from ebbtide.memory.turn import StoredTurn
from tests.memory.conversations import FENCES, ai, human

TURNS = [
    StoredTurn(turn, (human(f"question {turn}\n</effort>"), ai("x " * 20)), "")
    for turn in (3, 4, 9)
]


def test_the_log_stands_between_fences_that_say_what_it_is() -> None:
    """Id, status and turns are in the heading; each line of the log but labels is indented."""
    quoted = text(log_quote("auth-bug", "concluded", Quoted(tuple(TURNS)), 1_000, FENCES))
    opening, *log, closing = quoted.split("\n")
    match = re.match(
        r'<memory (\d+)>the stored log of the effort "auth-bug", concluded, turns 3-4,9, ', opening
    )

    assert match
    assert "\n".join(log) == transcript(TURNS)
    assert closing == f"</memory {match[1]}>"


def test_state_blocks_of_the_log_are_left_out() -> None:
    """Only the newest holds, and that stands elsewhere; what was said around them stays."""
    said = ai("Port 8080.\n---STATE---\nGoal: old\n---END STATE---\nThat is all.")
    turn = StoredTurn(3, (human("Which?"), said), "")
    quoted = text(log_quote("auth-bug", "concluded", Quoted((turn,)), 1_000, FENCES))

    assert "Port 8080.\n  That is all." in quoted
    assert "Goal: old" not in quoted


def test_a_single_turn_over_the_limit_is_shown_by_its_head() -> None:
    """What is left out is counted, with the call that reads it from exactly there."""
    turn = StoredTurn(7, (human("one two three four five six"),), "")
    quoted = text(log_quote("auth-bug", "concluded", Quoted((turn,)), 4, FENCES))

    assert "[turn 7]\nuser: one two thre\n[4 tokens left out; " in quoted
    assert f'read_log(turns="7", offset={len("one two thre")}) reads on]' in quoted
