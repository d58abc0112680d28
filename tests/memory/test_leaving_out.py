"""The note that says what was left out: where it stands, what it says, and that it stays."""

import json
from itertools import pairwise

from ebbtide.memory.messages import text
from tests.memory.contexts import LEFT_OUT, before_the_notes
from tests.memory.desks import Conversation, call
from tests.memory.drawn import assembled


def noted(talk: Conversation) -> list[tuple[str, int, str]]:
    """Return in which tier and at which place such notes stand, and what they say."""
    return [
        (tier.name, place, text(message).removeprefix(LEFT_OUT))
        for tier in assembled(talk).tiers
        for place, message in enumerate(tier.messages)
        if text(message).startswith(LEFT_OUT)
    ]


def test_it_stands_before_what_was_cut(talk: Conversation) -> None:
    """The note is the first message of the last tier that is cut, and names each that is."""
    talk.set(context_budget=1_200)
    for _ in range(8):
        talk.turn("word " * 60)
    talk.turn("Begin.", call("open_effort", name="a"))
    for _ in range(20):
        talk.ask("word " * 60)
        assembled(talk)
        talk.answer()
    talk.ask("Go on.")
    ((tier, place, said),) = noted(talk)

    assert (tier, place) == ("active", 0)
    assert said.startswith("of recent conversation, turns before ")
    assert "; of the active effort 'a', turns 9-" in said


def test_nothing_is_said_when_nothing_is_left_out(talk: Conversation) -> None:
    """While all fits there is no such note."""
    talk.turn("one")
    talk.ask("two")

    assert noted(talk) == []


def test_it_is_a_part_of_the_prefix(talk: Conversation) -> None:
    """Between two cuts it does not change, however many turns were left out before it.

    More ambient turns than are looked at for a context of this size are stored in the end.
    """
    talk.set(context_budget=talk.fixed + 1_000, ambient_window=0)
    seen = []
    for _ in range(160):
        talk.ask("word " * 30)
        context = assembled(talk)
        seen.append((json.dumps(context.cuts), before_the_notes(context)))
        talk.answer()
    uncut = [
        (before[1], after[1]) for before, after in pairwise(seen) if before[0] == after[0] != "{}"
    ]

    assert len(uncut) > 100
    assert all(after.startswith(before) for before, after in uncut)
