"""The hard budget: whatever is said, the working context stays within it, whole and in order."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ebbtide.memory.messages import Message
from ebbtide.memory.tokens import TokenCounter
from ebbtide.memory.transcript import rendered
from tests.draws import examples
from tests.memory.contexts import everything, tokens, well_formed
from tests.memory.desks import Conversation, call, conversation
from tests.memory.drawn import (
    ABOVE_THE_FLOOR,
    COUNTERS,
    TURNS,
    Turns,
    accepted,
    assembled,
    held,
    uncut,
)


def within_budget(talk: Conversation) -> list[Message]:
    """Assemble as the node does, remember the cuts, and check what holds for every context."""
    context = talk.context
    talk.cuts = context.cuts

    assert tokens(context, talk) == context.report["total"] <= talk.settings.context_budget
    assert talk.context.messages == context.messages
    return [*context.messages]


@settings(max_examples=examples(8))
@given(TURNS, ABOVE_THE_FLOOR, COUNTERS)
def test_no_context_exceeds_the_budget(turns: Turns, above: int, counter: TokenCounter) -> None:
    """Invariants 1 and 5: whatever is said and done, every context fits and is well formed."""
    with conversation() as talk:
        talk.count = counter
        for context in held(talk, turns, above):
            assert tokens(context, talk) == context.report["total"]
            assert context.report["total"] <= talk.settings.context_budget
            assert well_formed(context.messages)
            assert assembled(talk).messages == context.messages


@settings(max_examples=examples(8))
@given(TURNS, ABOVE_THE_FLOOR)
def test_nothing_but_a_cut_changes_the_prefix(turns: Turns, above: int) -> None:
    """Invariant 7: between two cuts what stands before the notes is a byte prefix of the next."""
    with conversation() as talk:
        for prefix, next_prefix in uncut(talk, turns, above):
            assert next_prefix.startswith(prefix)


@settings(max_examples=examples(8))
@example([*[({}, [("say", "Kept.")])] * 4, ({}, [("say", "Kept."), ("read", 9)])], 1, 2_000)
@given(TURNS, ABOVE_THE_FLOOR, st.integers(2_000, 10_000))
def test_every_message_can_be_read_back(turns: Turns, above: int, free: int) -> None:
    """Invariant 2: the archive has each message as it was accepted, and `read_log` reads all."""
    with conversation() as talk:
        said = accepted(talk, turns, above)
        talk.ask("Read it.")
        records = talk.desk.view.turns(range(1, talk.tip.turn + 1))
        kept = [talk.desk.view.messages(record) for record in records]
        talk.free = free
        read = [everything(talk, record.turn) for record in records[-1:]]

    assert [messages[:-1] for messages in kept[len(kept) - len(said) :]] == said
    assert read == [rendered(messages) for messages in kept[-1:]]


def test_cuts_are_rare(talk: Conversation) -> None:
    """Complaint row 6: a tier is cut to low water, so that many turns fit before the next cut."""
    talk.set(context_budget=3_000, ambient_window=0)
    cuts = []
    for _ in range(100):
        talk.turn("word " * 30, answer="word " * 30)
        within_budget(talk)
        cuts.append(json.dumps(talk.cuts))

    assert 2 <= len({*cuts}) <= 15


def test_what_no_longer_matters_comes_back(talk: Conversation) -> None:
    """When an effort is concluded, the turns that had to leave for it are shown again."""
    talk.set(context_budget=1_200, ambient_window=0)
    for number in range(20):
        talk.turn(f"ambient {number} " + "word " * 20)
    talk.turn("Begin. " + "word " * 400, call("open_effort", name="a"))
    talk.turn("Go on. " + "word " * 400)
    talk.ask("Is there room?")
    messages = json.dumps(within_budget(talk))
    talk.answer()
    talk.turn("Close it.", call("close_effort"))
    talk.ask("And now?")

    assert "ambient 0" not in messages
    assert "ambient 0" in json.dumps(within_budget(talk))


@pytest.mark.parametrize("shares", [{"expanded_share": 1.0}, {"active_share": 1e-9}])
def test_any_shares_keep_the_budget(talk: Conversation, shares: dict[str, float]) -> None:
    """Shares that add up to more than everything are scaled down, tiny ones are kept."""
    talk.set(context_budget=1_200, **shares)
    talk.effort("a", *["word " * 100] * 5)
    talk.turn("word " * 300, call("open_effort", name="b"))
    talk.turn("word " * 300)
    talk.ask("Show it.")
    talk.call("expand_effort", effort_id="a")

    assert well_formed(within_budget(talk))
