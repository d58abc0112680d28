"""The hard budget: whatever is said, the working context stays within it, whole and in order."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.memory.messages import Message
from tests.memory.contexts import before_the_notes, take, tokens, well_formed
from tests.memory.desks import Conversation, call, conversation

SAID = st.builds(
    lambda words, times: " ".join(words * times),
    st.lists(
        st.sampled_from(["alpha", "beta", "数据库", "🙂", "12:30", "x\n"]), min_size=1, max_size=5
    ),
    st.sampled_from([1, 1, 2, 10, 100, 700]),
)
STEP = st.one_of(
    st.tuples(st.just("say"), SAID),
    st.tuples(st.just("look"), st.lists(SAID, min_size=1, max_size=20)),
    st.tuples(st.just("open"), st.sampled_from("abc")),
    st.tuples(st.just("close"), st.none()),
    st.tuples(st.just("reopen"), st.sampled_from("abc")),
    st.tuples(st.just("switch"), st.sampled_from("abc")),
    st.tuples(st.just("expand"), st.sampled_from("abc")),
    st.tuples(st.just("read"), st.integers(1, 9)),
)
FEW_ROUNDS = st.lists(st.lists(STEP, min_size=1, max_size=3), max_size=12)
BUDGETS = st.sampled_from([1_015, 1_100, 1_500, 3_000, 16_000])


def within_budget(talk: Conversation) -> list[Message]:
    """Assemble as the node does, remember the cuts, and check what holds for every context."""
    context = talk.context
    talk.cuts = context.cuts

    assert tokens(context, talk) == context.report["total"] <= talk.settings.context_budget
    assert talk.context.messages == context.messages
    return [*context.messages]


@settings(deadline=None, max_examples=40)
@given(FEW_ROUNDS, BUDGETS)
def test_no_context_exceeds_the_budget(turns: list[list[tuple[str, Any]]], budget: int) -> None:
    """Invariants 1 and 5: whatever is said and done, every context fits and is well formed."""
    with conversation(context_budget=2_000) as talk:
        talk.set(context_budget=budget)
        for steps in turns:
            talk.ask(*([what for kind, what in steps if kind == "say"] or ["go on"]))
            assert well_formed(within_budget(talk))
            for kind, what in steps:
                take(talk, kind, what)
                assert well_formed(within_budget(talk))
            talk.answer(next((what for kind, what in steps if kind == "say"), "Done."))


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(SAID, st.lists(SAID, max_size=3)), max_size=25), BUDGETS, st.booleans())
def test_between_cuts_the_prefix_only_grows(
    turns: list[tuple[str, list[str]]],
    budget: int,
    in_effort: bool,  # noqa: FBT001 (drawn)
) -> None:
    """Invariant 7: while the cuts are the same, what stands before the notes is a byte prefix."""
    with conversation(context_budget=2_000, ambient_window=0) as talk:
        talk.set(context_budget=budget)
        talk.turn("Begin.", *([call("open_effort", name="a")] if in_effort else []))
        seen: list[tuple[str, str]] = []
        for question, results in turns:
            talk.ask(question)
            within_budget(talk)
            seen.append((json.dumps(talk.cuts), before_the_notes(talk.context)))
            for result in results:
                talk.look_up(result)
            within_budget(talk)
            seen.append((json.dumps(talk.cuts), before_the_notes(talk.context)))
            talk.answer()

    for (cut, prefix), (next_cut, next_prefix) in pairwise(seen):
        assert cut != next_cut or next_prefix.startswith(prefix)


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
