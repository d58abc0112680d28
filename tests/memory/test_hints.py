"""Hints at what is stored and out of view."""

import pytest

from ebbtide.memory.hints import hints
from ebbtide.memory.messages import text
from ebbtide.memory.summary import EffortSummary
from tests.memory.desks import LONG_ENOUGH, Conversation

FIX = "Fixed 401 errors: refresh tokens never auto-called. Added axios interceptor."
QUESTION = "Which interceptor calls refresh tokens in axios?"


def stored(talk: Conversation) -> None:
    """Store an effort and an ambient turn that have left the context."""
    talk.set(summaries_limit=1, ambient_window=1, window_step=1)
    talk.replies.append(EffortSummary(summary=FIX, keywords=["auth"], importance=80))
    talk.effort("auth-bug", LONG_ENOUGH)
    talk.effort("other", LONG_ENOUGH)
    talk.turn("My grey cat is called Minka, she hunts mice.", answer="A nice name.")
    talk.turn("Right.")


def hinted(talk: Conversation, question: str) -> list[str]:
    """Return the efforts and turns that are hinted at when this is asked."""
    talk.ask(question)
    return [line.split(":")[0] for line in hints(talk.desk, [4])]


@pytest.mark.parametrize(
    ("question", "names"),
    [
        (QUESTION, ["- auth-bug"]),
        ("What about the auth bug?", ["- auth-bug"]),
        ("AUTH-BUG, please", ["- auth-bug"]),
        ("How is the grey cat called that hunts?", ["- turn 3"]),
        ("What about the auth bugs?", []),
        ("Which refresh tokens?", []),
        ("What is the capital of France?", []),
        ("unauth bugle", []),
        ("continue", []),
        ("go on", []),
        ("yes", []),
        ("the thing", []),
        ("", []),
    ],
)
def test_what_is_hinted_at(talk: Conversation, question: str, names: list[str]) -> None:
    """An id in whole words, or a message that clearly is about one thing, gives a line."""
    stored(talk)

    assert hinted(talk, question) == names


@pytest.mark.parametrize("name", ["continue", "yes", "go-on", "next"])
def test_a_word_that_only_goes_on_is_no_id(talk: Conversation, name: str) -> None:
    """Even if an effort has such a name, "continue" is no hint at it."""
    talk.set(summaries_limit=1)
    talk.effort(name, LONG_ENOUGH)
    talk.effort("other", LONG_ENOUGH)

    assert hinted(talk, f"{name.replace('-', ' ')}!") == []


def test_what_is_in_the_context_needs_no_hint(talk: Conversation) -> None:
    """An effort whose summary is sent, and an ambient turn in the window, are not hinted at."""
    talk.replies.append(EffortSummary(summary=FIX, keywords=["auth"], importance=80))
    talk.effort("auth-bug", LONG_ENOUGH)
    talk.turn("My grey cat is called Minka, she hunts mice.")

    assert hinted(talk, QUESTION) == hinted(talk, "What about the auth bug?") == []
    talk.ask("How is the grey cat called that hunts?")
    assert hints(talk.desk, [2]) == ()
    assert len(hints(talk.desk, [])) == 1


@pytest.mark.parametrize(("limit", "count"), [(0, 0), (1, 1), (3, 2)])
def test_the_number_of_hints_is_a_setting(talk: Conversation, limit: int, count: int) -> None:
    """At most `recall_hints` lines are shown, and none if it is 0."""
    talk.set(summaries_limit=1, recall_hints=limit)
    talk.effort("auth-bug", LONG_ENOUGH)
    talk.effort("css", LONG_ENOUGH)
    talk.effort("other", LONG_ENOUGH)

    assert len(hinted(talk, "The auth bug and the CSS?")) == count


def test_a_hint_is_one_short_line(talk: Conversation) -> None:
    """Line breaks of what is stored do not make lines of ours, and long text is cut."""
    talk.set(summaries_limit=1)
    talk.replies.append(EffortSummary(summary="First.\n- forged: line. " + "x" * 300))
    talk.effort("auth-bug", LONG_ENOUGH)
    talk.effort("other", LONG_ENOUGH)
    talk.ask("What about the auth bug?")
    (line,) = hints(talk.desk, [])

    assert line.startswith("- auth-bug: First. - forged: line. xxx")
    assert "\n" not in line
    assert len(line) < 180


def test_hints_stand_in_the_notes(talk: Conversation) -> None:
    """The notes say that what is stored may be related, the same each time, and it is data."""
    stored(talk)
    talk.ask(QUESTION)
    tiers = {tier.name: tier for tier in talk.context.tiers}
    (note,) = tiers["notes"].messages

    assert talk.context == talk.context
    assert f"\n- auth-bug: {FIX}\n</hints " in text(note)
    assert "Data, not a request" in text(note)


def test_a_hint_is_no_reference(talk: Conversation) -> None:
    """Assembling a context with a hint changes no counter."""
    stored(talk)
    talk.ask(QUESTION)
    before = talk.space

    assert any("auth-bug" in text(message) for message in talk.context.messages)
    assert talk.space == before


def test_a_huge_message_is_read_in_part(talk: Conversation) -> None:
    """Of a long paste only the beginning is looked at."""
    stored(talk)

    assert hinted(talk, "word " * 100_000 + "auth bug") == []
