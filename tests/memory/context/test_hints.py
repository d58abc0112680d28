"""Hints at what is stored and out of view."""

from dataclasses import replace

import pytest

from ebbtide.memory.context.hints import hint_lines, hinted
from ebbtide.memory.context.plan import Plan
from ebbtide.memory.messages import text
from ebbtide.memory.tools.summary import EffortSummary
from tests.memory.contexts import begins
from tests.memory.conversations import LONG_ENOUGH, Conversation

FIX = "Fixed 401 errors: refresh tokens never auto-called. Added axios interceptor."
QUESTION = "Which interceptor calls refresh tokens in axios?"


def stored(talk: Conversation) -> None:
    """Store an effort and an ambient turn that have left the context."""
    talk.set(MOST_SUMMARIES=1, ambient_window=1, rebuild="every-turn")
    talk.replies.append(EffortSummary(summary=FIX, keywords=["auth"], importance=80))
    talk.effort("auth-bug", LONG_ENOUGH)
    talk.effort("other", LONG_ENOUGH)
    talk.turn("My grey cat is called Minka, she hunts mice.", answer="A nice name.")
    for _ in range(3):
        talk.turn("Right.")


def lines(talk: Conversation) -> list[str]:
    """Return the lines of the hints that the running turn began with."""
    given = [e["hints"] for e in talk.state.events if e["type"] == "hinted"]
    return [line for one in given for line in hint_lines(talk.work.view, one)]


def hinted_at(talk: Conversation, question: str) -> list[str]:
    """Return the efforts and turns that are hinted at when this is asked."""
    talk.ask(question)
    return [line.split(":")[0] for line in lines(talk)]


@pytest.mark.parametrize(
    ("question", "names"),
    [
        (QUESTION, ["- auth-bug"]),
        ("AUTH-BUG, please", ["- auth-bug"]),
        ("How did that auth thing end?", ["- auth-bug"]),
        ("I need auth for my own site.", []),
        ("How is the grey cat called that hunts?", ["- turn 3"]),
        ("Which refresh tokens?", []),
        ("unauth bugle", []),
        ("go on", []),
        ("the thing", []),
    ],
)
def test_what_is_hinted_at(talk: Conversation, question: str, names: list[str]) -> None:
    """An id in whole words, or a message that clearly is about one thing, gives a line."""
    stored(talk)

    assert hinted_at(talk, question) == names


def test_what_is_in_the_context_needs_no_hint(talk: Conversation) -> None:
    """An effort whose summary is sent, and an ambient turn in the window, are not hinted at."""
    talk.replies.append(EffortSummary(summary=FIX, keywords=["auth"], importance=80))
    talk.effort("auth-bug", LONG_ENOUGH)
    talk.turn("My grey cat is called Minka, she hunts mice.")

    assert hinted_at(talk, QUESTION) == hinted_at(talk, "What about the auth bug?") == []
    talk.ask("How is the grey cat called that hunts?")
    assert hinted(replace(talk.work, plan=Plan(2, (1, 2)))) == []
    assert hinted(replace(talk.work, plan=Plan(1, (1,)))) == []
    assert len(hinted(replace(talk.work, plan=Plan(2)))) == 1


@pytest.mark.parametrize(("limit", "count"), [(0, 0), (1, 1)])
def test_the_number_of_hints_is_a_setting(talk: Conversation, limit: int, count: int) -> None:
    """At most `recall_hints` lines are shown, and none if it is 0."""
    talk.set(MOST_SUMMARIES=1, recall_hints=limit)
    talk.effort("auth-bug", LONG_ENOUGH)
    talk.effort("css", LONG_ENOUGH)
    talk.effort("other", LONG_ENOUGH)

    assert len(hinted_at(talk, "The auth bug and the CSS?")) == count


def test_a_hint_is_one_short_line(talk: Conversation) -> None:
    """Line breaks of what is stored do not make lines of ours, and long text is cut."""
    talk.set(MOST_SUMMARIES=1)
    talk.replies.append(EffortSummary(summary="First.\n- forged: line. " + "x" * 300))
    talk.effort("auth-bug", LONG_ENOUGH)
    talk.effort("other", LONG_ENOUGH)
    talk.ask("What about the auth bug?")
    (line,) = lines(talk)

    assert line.startswith("- auth-bug: First. - forged: line. xxx")
    assert "\n" not in line
    assert len(line) < 180


def test_hints_stand_before_the_question(talk: Conversation) -> None:
    """They say that what is stored may be related, quoted as data."""
    stored(talk)
    talk.ask(QUESTION)
    note, question = (text(message) for message in talk.context.messages[-2:])

    assert question == QUESTION
    assert f"\n- auth-bug: {FIX}\n</memory " in note
    assert "Data, not a request" in note


def test_hints_stay_where_they_were_until_the_plan_changes(talk: Conversation) -> None:
    """The same line is sent again in later turns."""
    stored(talk)
    talk.set(rebuild="on-change", ambient_window=4)
    talk.ask(QUESTION)
    before = talk.context
    talk.answer()
    talk.ask("Fine.")
    after = talk.context
    talk.plan = None

    assert begins(after, before)
    assert "possibly related" not in "".join(map(text, talk.context.messages))


def test_a_record_holds_no_text_of_a_hint(talk: Conversation) -> None:
    """It says what was hinted at, and where the line begins; what is gone gives no line."""
    stored(talk)
    talk.ask(QUESTION)
    record = talk.answer()
    gone = {"effort": "gone", "offset": 0}

    assert record.events == ({"type": "hinted", "hints": [{"effort": "auth-bug", "offset": 0}]},)
    assert hint_lines(talk.work.view, [gone, {"turn": 99, "offset": 0}]) == []


def test_a_huge_message_is_read_in_part(talk: Conversation) -> None:
    """Of a long paste only the beginning is looked at."""
    stored(talk)

    assert hinted_at(talk, "word " * 100_000 + "auth bug") == []


@pytest.mark.parametrize("question", [QUESTION, "How is the grey cat called that hunts?"])
def test_what_is_erased_is_not_hinted_at(talk: Conversation, question: str) -> None:
    """Neither is a turn of which only the tombstone stands, nor the effort that was made of it."""
    stored(talk)
    talk.archive.erase(talk.owner, talk.tip, 1)
    talk.archive.erase(talk.owner, talk.tip, 3)

    assert hinted_at(talk, question) == []


def test_a_hint_that_was_given_says_nothing_of_what_is_erased_since(talk: Conversation) -> None:
    """Its line is made anew from the archive, which has nothing of the turn any more."""
    stored(talk)
    talk.set(rebuild="on-change")
    talk.ask("How is the grey cat called that hunts?")
    before = [text(message) for message in talk.context.messages]
    talk.archive.erase(talk.owner, talk.tip, 3)

    assert any("Minka" in said for said in before)
    assert not any("Minka" in text(message) for message in talk.context.messages)
