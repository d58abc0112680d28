"""The hard budget: whatever is said, the working context stays within it, whole and in order."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage

from ebbtide.memory.tokens import TokenCounter
from ebbtide.memory.transcript import log_text
from tests.draws import examples
from tests.memory.contexts import (
    begins,
    everything,
    has_last_turn,
    in_order,
    prompt_of,
    tokens,
    unchanged,
    well_formed,
)
from tests.memory.conversations import Conversation, conversation, words_of
from tests.memory.drawn import ABOVE_THE_FLOOR, COUNTERS, TURNS, Turns, accepted, held


def within_budget(talk: Conversation) -> list[BaseMessage]:
    """Assemble as the node does, and check what holds for every context."""
    context = talk.context

    assert tokens(context, talk) == context.report["total"] <= talk.settings.context_budget
    assert talk.context.messages == context.messages
    return [*context.messages]


@pytest.mark.thorough
@settings(max_examples=examples(2))
@given(TURNS, ABOVE_THE_FLOOR, COUNTERS)
def test_whatever_is_said_every_context_holds(
    turns: Turns, above: int, counter: TokenCounter
) -> None:
    """Invariants 1, 5 and 7: it fits, is in order, and only grows until the plan changes.

    The last turn is in it if that fits.
    """
    with conversation() as talk:
        talk.count = counter
        before = None
        for context in held(talk, turns, above):
            assert tokens(context, talk) == context.report["total"]
            assert context.report["total"] <= talk.settings.context_budget
            assert well_formed(context.messages)
            assert talk.context.messages == context.messages
            assert in_order(context)
            if before and unchanged(before) == unchanged(context):
                assert begins(context, before)
            else:
                assert has_last_turn(context, talk)
            before = context


@pytest.mark.thorough
@settings(max_examples=examples(4))
@example([*[({}, [("say", "Kept.")])] * 4, ({}, [("say", "Kept."), ("read", 9)])], 1, 2_000)
@example([({}, [("say", "Kept.\n---STATE---\nGoal: a\n---END STATE---")])], 1, 5_796)
@given(TURNS, ABOVE_THE_FLOOR, st.integers(2_000, 10_000))
def test_every_message_can_be_read_back(turns: Turns, above: int, free: int) -> None:
    """Invariant 2: the archive has each message as it was accepted, and `read_log` reads all."""
    with conversation() as talk:
        said = accepted(talk, turns, above)
        talk.ask("Read it.")
        stored_turns = talk.work.view.past.turns(range(1, talk.tip.turn + 1))
        kept = [talk.work.view.messages(turn) for turn in stored_turns]
        talk.free = free
        read = [everything(talk, turn.number) for turn in stored_turns[-1:]]

    assert [messages[:-1] for messages in kept[len(kept) - len(said) :]] == said
    assert read == [log_text(messages) for messages in kept[-1:]]


def test_a_larger_budget_brings_them_back(talk: Conversation) -> None:
    """With other settings it is laid out anew."""
    talk.set(context_budget=1_200, ambient_window=0)
    talk.turns(f"ambient {number} " + "word " * 20 for number in range(40))
    before = str(within_budget(talk))
    talk.set(context_budget=9_000)
    talk.ask("And now?")
    context = talk.context

    assert "ambient 0" not in before
    assert "ambient 0" in str(context.messages)
    assert context.report["changed"] == {"after_turn": 40, "why": "settings"}


def test_a_turn_that_took_too_much_keeps_request_and_answer(talk: Conversation) -> None:
    """What it did in between is named, and read where the note says."""
    talk.set(context_budget=4_000)
    talk.turns(["The port is 8443.", "The host is db-1."])
    talk.ask("Look everything up.")
    for _ in range(40):
        talk.look_up("word " * 140)
        within_budget(talk)
    talk.answer("All is there. " + "word " * 2_000 + "Goodbye.")
    talk.ask("And now?")
    within_budget(talk)
    said = prompt_of(talk.context)
    (offset,) = re.findall(
        r"<memory \d+>left out of this turn: 40 tool calls \(look_up\).*?offset=(\d+)\)", said
    )
    read = talk.call("read_log", turns="3", offset=int(offset))["turns"]

    assert talk.context.plan.brief == (3,)
    wanted = ("port is 8443", "Look everything up.", "All is there.", "Goodbye.")
    assert [one for one in wanted if one not in said] == []
    assert words_of(read[0]).startswith("look_up {}")
