"""Concluding an effort: its raw log is summarised and leaves the context."""

from dataclasses import replace

import pytest

from ebbtide.memory.errors import AnswerError
from tests.memory.conversations import LONG_ENOUGH, Conversation, call


@pytest.fixture
def talk(talk: Conversation) -> Conversation:
    """Return a conversation with two open efforts, `b` active, in a running third turn."""
    talk.turn(LONG_ENOUGH, call("open_effort", name="a", goal="Log in"))
    talk.turn("And the other thing.", call("open_effort", name="b"))
    talk.ask("It is done now, thank you very much for all your help with it.")
    return talk


def test_a_closed_effort_is_concluded_with_its_summary(talk: Conversation) -> None:
    """Answer, banner and manifest say it, the answer also which effort is active still."""
    result = talk.call("close_effort", effort_id="a")
    effort = talk.work.find("a")

    said = {"status": "concluded", "effort_id": "a", "summary": "It works now."}
    assert result == said | {"active": "b"}
    assert (effort.status, effort.summary, effort.keywords) == (
        "concluded",
        "It works now.",
        ("works",),
    )
    assert (effort.goal, effort.importance) == ("Log in", 60)
    assert talk.state.summaries == {"a": 3}
    assert talk.banners[-1] == "--- Concluded effort: a ---\nIt works now."


def test_constraints_that_lapse_are_named(talk: Conversation) -> None:
    """With the effort end the rules that were given for it."""
    talk.call("update_goal", add_constraints=["No downtime.", "Keep v1."])

    result = talk.call("close_effort")

    assert result["lapsed_constraints"] == ["No downtime.", "Keep v1."]


@pytest.mark.parametrize("effort_id", [None, "", " "])
def test_without_a_name_the_active_effort_is_closed(
    talk: Conversation, effort_id: str | None
) -> None:
    """None and the empty name stand for the active effort."""
    result = talk.call("close_effort", effort_id=effort_id)

    assert result["effort_id"] == "b"


@pytest.mark.parametrize(("closed", "left", "active"), [("b", "a", None), ("a", "b", "b")])
def test_no_effort_becomes_active_by_itself(
    talk: Conversation, closed: str, left: str, active: str | None
) -> None:
    """After the active effort none is active; closing another leaves it active."""
    result = talk.call("close_effort", effort_id=closed)

    assert talk.state.active == active
    assert list(talk.state.open) == [left]
    assert result.get("active") == active


def test_a_turn_that_closes_and_opens_belongs_to_both(talk: Conversation) -> None:
    """The active effort at the end comes first, then the one that was concluded."""
    talk.run(call("close_effort", effort_id="b"), call("open_effort", name="c"))
    record = talk.answer()

    assert record.efforts == ("c", "b")


def test_a_failed_summary_changes_nothing(talk: Conversation) -> None:
    """Complaint row 2: the effort stays open, the error says so, and no failure is committed."""
    talk.replies = [AnswerError("TimeoutError: 30 s")]
    before = talk.state
    result = talk.call("close_effort", effort_id="a")

    assert result["error"] == (
        "the summary of 'a' failed (TimeoutError: 30 s), so it stays open and nothing changed; "
        "tell the user, and try close_effort again later"
    )
    assert talk.state == before


def test_an_effort_with_nothing_in_it_asks_no_model(talk: Conversation) -> None:
    """Opened and closed with a word: the summary is canned, of importance 0."""
    talk.messages = talk.messages[:0]
    talk.ask("hm")
    talk.run(call("open_effort", name="c"), call("close_effort"))
    effort = talk.work.find("c")

    assert talk.requests == []
    assert (effort.summary, effort.importance) == (
        "Opened and closed with next to nothing said in it.",
        0,
    )


@pytest.mark.parametrize(
    ("effort_id", "error"),
    [
        ("done", "effort 'done' is concluded; use reopen_effort to go on with it"),
        ("gone", "no effort 'gone'. Did you mean 'done'?"),
        ("../a", "no effort '../a'. In the context"),
    ],
)
def test_only_an_open_effort_is_closed(talk: Conversation, effort_id: str, error: str) -> None:
    """The error quotes the name and says what would work."""
    talk.run(call("open_effort", name="done"), call("close_effort"))
    result = talk.call("close_effort", effort_id=effort_id)

    assert result["error"].startswith(error)


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

    assert talk.state.summaries == {"b": 3}
    assert talk.banners[-1] == "--- Evicted effort: a (kept in the archive) ---"
    assert talk.work.find("a").summary == "It works now."
