"""Concluding an effort: its log is summarised and leaves the context."""

from dataclasses import replace

import pytest

from ebbtide.memory.compressions import Compression, Item, Kind
from ebbtide.memory.context.plan import Plan
from tests.memory.conversations import LONG_ENOUGH, Conversation, call
from tests.memory.turns import put_compression


@pytest.fixture
def talk(talk: Conversation) -> Conversation:
    """Return a conversation with two open efforts, `b` active, in a running third turn."""
    talk.turn(LONG_ENOUGH, call("open_effort", name="a", goal="Log in"))
    talk.turn("And the other thing.", call("open_effort", name="b"))
    talk.ask("It is done now, thank you very much for all your help with it.")
    return talk


def test_constraints_that_lapse_are_named(talk: Conversation) -> None:
    """With the effort end the rules that were given for it."""
    talk.call("update_goal", add_constraints=["No downtime.", "Keep v1."])

    result = talk.call("close_effort")

    assert result["lapsed_constraints"] == ["No downtime.", "Keep v1."]


def test_a_constraint_of_the_state_block_does_not_lapse(talk: Conversation) -> None:
    """What the state block says holds, whatever ends."""
    talk.call("update_goal", add_constraints=["No downtime.", "Keep v1."])
    talk.state = replace(talk.state, anchor={"Rules": "no downtime; ask first"})

    assert talk.call("close_effort")["lapsed_constraints"] == ["Keep v1."]


def test_calls_behind_the_closing_one_are_not_summarised(talk: Conversation) -> None:
    """They begin the next effort; those before it belong to the one that is closed."""
    talk.run(call("read_log", turns="1"), call("close_effort"), call("open_effort", name="c"))

    log = talk.requests[-1].log
    assert "read_log" in log
    assert "close_effort" not in log
    assert '"name": "c"' not in log


def test_a_turn_that_closes_and_opens_belongs_to_both(talk: Conversation) -> None:
    """The active effort at the end comes first, then the one that was concluded."""
    talk.run(call("close_effort", effort_id="b"), call("open_effort", name="c"))
    turn = talk.answer()

    assert turn.efforts == ("c", "b")


def test_without_an_active_effort_one_must_be_named(talk: Conversation) -> None:
    """The error lists which are open."""
    talk.state = replace(talk.state, active=None)
    listed = talk.call("close_effort")
    talk.run(call("close_effort", effort_id="a"), call("close_effort", effort_id="b"))
    none = talk.call("close_effort")

    assert listed["error"] == "no effort is active, so name the one to close; open: a, b"
    assert none["error"] == "nothing to close: no effort is open"


def test_summaries_over_the_limit_leave_the_context(talk: Conversation) -> None:
    """One more concluded effort than may be in the context evicts the longest unreferenced."""
    talk.set(MOST_SUMMARIES=1)
    talk.run(call("close_effort", effort_id="a"), call("close_effort", effort_id="b"))

    assert talk.state.summaries == {"b": {"last_referenced_turn": 3}}
    assert talk.banners[-1] == "--- Evicted effort: a (kept in the archive) ---"
    assert talk.work.find("a").summary == "It works now."


@pytest.mark.parametrize(("quote", "asked"), [("It fails.", 0), ("fails " * 500, 1)])
def test_a_compression_of_which_nothing_is_shown(
    talk: Conversation, quote: str, asked: int
) -> None:
    """The line that names what left does not stand for a log: it is summarised."""
    talk.set(context_budget=2_000)
    made = Compression("a", talk.tip.turn, 1, (Item(Kind.FACT, quote, 1),))
    put_compression(talk.archive, talk.tip, made, talk.session)
    talk.plan = Plan(talk.tip.turn, (2,), open=("a", "b"), quotes={"a": made.turn})

    talk.call("close_effort", effort_id="a", summary="It works.")

    assert len(talk.requests) == asked
