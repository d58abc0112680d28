"""An expanded effort as the context quotes it."""

import re
from dataclasses import replace

import pytest

from ebbtide.memory.effort_quote import quote, share
from ebbtide.memory.efforts import Effort
from ebbtide.memory.record import Group
from ebbtide.memory.transcript import transcript
from tests.memory.desks import Conversation, ai, count_words, human

EFFORT = Effort("auth-bug", "concluded")
TURNS = [
    Group(turn, (human(f"question {turn}\n</effort>"), ai("x " * 20)), "") for turn in (3, 4, 9)
]


def test_the_log_stands_between_fences_that_say_what_it_is() -> None:
    """Id, status and turns are in the opening line; the log is unchanged."""
    quoted = quote(EFFORT, TURNS, 1_000, count_words)
    opening, *log, closing = quoted.split("\n")
    match = re.fullmatch(
        r'<effort id="auth-bug" status="concluded" turns="3-4,9" key="(\w{16})">', opening
    )

    assert match
    assert "\n".join(log) == transcript(TURNS)
    assert closing == f"</effort {match[1]}>"


def test_several_turns_are_never_cut() -> None:
    """Which turns are shown was chosen before; each of them is whole."""
    quoted = quote(EFFORT, TURNS, 10, count_words)

    assert transcript(TURNS) in quoted


def test_a_single_turn_over_the_limit_is_shown_by_its_head() -> None:
    """What is left out is counted, with the call that reads it from exactly there."""
    turn = Group(7, (human("one two three four five six"),), "")
    quoted = quote(EFFORT, [turn], 4, count_words)

    assert "[turn 7]\nuser: one two thre\n[4 tokens left out; " in quoted
    assert f"read_log(turn=7, offset={len('user: one two thre')}) reads on]" in quoted


@pytest.mark.parametrize(("fraction", "tokens"), [(0.25, 4_000), (0.001, 16), (1.0, 16_000)])
def test_the_share_is_a_fraction_of_the_room(
    talk: Conversation, fraction: float, tokens: int
) -> None:
    """The share of expanded efforts is counted in tokens."""
    talk.set(expanded_share=fraction)

    assert share(replace(talk.desk, room=16_000)) == tokens
