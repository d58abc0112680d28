"""Hints at what is stored and out of view."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from ebbtide.memory.archive.query import Pointing
from ebbtide.memory.context.hints import hinted, pointed_at
from ebbtide.memory.context.plan import Plan
from ebbtide.memory.messages import text
from ebbtide.memory.tools.summary import EffortSummary
from tests.memory.contexts import begins
from tests.memory.conversations import LONG_ENOUGH, Conversation

FIX = "Fixed 401 errors: refresh tokens never auto-called. Added axios interceptor."
HINTS = "possibly related"
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


def hinted_at(talk: Conversation, question: str) -> list[str]:
    """Return the lines of the hints that are shown when this is asked."""
    talk.ask(question)
    notes = [text(message) for message in talk.context.messages]
    return [line for note in notes if HINTS in note for line in note.split("\n")[1:-1]]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("question", "names"),
    [
        (QUESTION, ["- auth-bug"]),
        ("AUTH-BUG, please", ["- auth-bug"]),
        ("How did that auth thing end?", ["- auth-bug"]),
        ("I need auth for my own site.", []),
        ("How is the grey cat called that hunts?", []),
        ("Which refresh tokens?", []),
        ("unauth bugle", []),
        ("go on", []),
        ("the thing", []),
    ],
)
def test_what_is_hinted_at(talk: Conversation, question: str, names: list[str]) -> None:
    """An id in whole words, or a message that clearly is about one effort, gives its name."""
    stored(talk)

    assert hinted_at(talk, question) == names


def test_what_is_in_the_context_needs_no_hint(talk: Conversation) -> None:
    """An effort whose summary is sent is not hinted at."""
    talk.replies.append(EffortSummary(summary=FIX, keywords=["auth"], importance=80))
    talk.effort("auth-bug", LONG_ENOUGH)

    assert hinted_at(talk, QUESTION) == hinted_at(talk, "What about the auth bug?") == []
    assert len(hinted(replace(talk.work, plan=Plan(1)))) == 1


@pytest.mark.parametrize(("limit", "count"), [(0, 0), (1, 1)])
def test_the_number_of_hints_is_a_setting(talk: Conversation, limit: int, count: int) -> None:
    """At most `recall_hints` lines are shown, and none if it is 0."""
    talk.set(MOST_SUMMARIES=1, recall_hints=limit)
    talk.effort("auth-bug", LONG_ENOUGH)
    talk.effort("css", LONG_ENOUGH)
    talk.effort("other", LONG_ENOUGH)

    assert len(hinted_at(talk, "The auth bug and the CSS?")) == count


def test_hints_stand_before_the_question(talk: Conversation) -> None:
    """They say that what is stored may be related, quoted as data."""
    stored(talk)
    talk.ask(QUESTION)
    note, question = (text(message) for message in talk.context.messages[-2:])

    assert question == QUESTION
    assert "\n- auth-bug\n</memory " in note
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
    assert HINTS not in "".join(map(text, talk.context.messages))


def test_a_huge_message_is_read_in_part(talk: Conversation) -> None:
    """Of a long paste only the beginning is looked at."""
    stored(talk)

    assert hinted_at(talk, "word " * 100_000 + "auth bug") == []


def test_what_is_erased_is_not_hinted_at(talk: Conversation) -> None:
    """Neither now, nor again where it was hinted at before."""
    stored(talk)
    talk.set(rebuild="on-change")
    before = hinted_at(talk, QUESTION)
    talk.answer()
    talk.archive.erase(talk.session, talk.tip, 1)

    assert before == ["- auth-bug"]
    assert hinted_at(talk, QUESTION) == []


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ({"a": ["klm mno opq"], "b": ["klm", "mno", "opq"]}, "a"),
        ({"a": ["klm mno opq"], "b": ["klm mno opq"]}, None),
        ({"a": ["klm", "mno", "opq"], "b": ["klm"]}, None),
        ({"a": ["klm mno"], "b": ["opq"]}, None),
        ({4: ["klm mno opq"], "b": ["klm", "mno"]}, None),
        ({}, None),
    ],
)
def test_a_message_points_at_what_says_most_of_it(
    said: Mapping[str | int, list[str]], name: str | None
) -> None:
    """It takes three telling words in one turn; of two that say as much neither is pointed at."""
    found = {key: [frozenset(one.split()) for one in each] for key, each in said.items()}

    assert pointed_at(Pointing(dict.fromkeys(["klm", "mno", "opq"], 2.0), found)) == name
