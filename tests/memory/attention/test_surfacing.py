"""Surfacing: which memories a new session, or a new effort, is told of."""

from datetime import UTC, datetime

import pytest

from ebbtide.memory.attention.surfacing import Attended
from ebbtide.memory.settings import Settings
from ebbtide.memory.tools.summary import EffortSummary
from tests.memory.conversations import Conversation
from tests.memory.earlier import FIX, LOG

AUTH = "t1/auth-bug"
NOW = datetime(2026, 12, 1, tzinfo=UTC)


def attended(talk: Conversation, *keywords: str) -> Attended:
    """Return the attention of a user whose earlier session concluded an effort."""
    there, attention = talk.beside("t1"), talk.archive.attention(40)
    there.replies.append(EffortSummary(summary=FIX, keywords=[*keywords], importance=80))
    there.effort("auth-bug", *LOG)
    return Attended(attention, talk.work.view, Settings(), NOW)


@pytest.mark.parametrize(
    ("subject", "found"),
    [("axios for redis", [AUTH]), ("axios", []), ("a token", [])],
)
def test_two_keywords_make_it_related(talk: Conversation, subject: str, found: list[str]) -> None:
    """Of many keywords two must be said, each with all its words."""
    here = attended(talk, "refresh token", "axios", "redis", "cookie", "header")

    assert [*here.related(subject)] == found


@pytest.mark.parametrize(("subject", "found"), [("axios", [AUTH]), ("the roof", [])])
def test_half_of_the_keywords_make_it_related(
    talk: Conversation, subject: str, found: list[str]
) -> None:
    """Of two keywords one is enough."""
    here = attended(talk, "axios", "redis")

    assert [*here.related(subject)] == found
