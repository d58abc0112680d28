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


MANY = ("refresh token", "axios", "redis", "cookie", "header")


@pytest.mark.parametrize(
    ("keywords", "subject", "found"),
    [
        (MANY, "axios for redis", [AUTH]),
        (MANY, "axios", []),
        (MANY, "a token", []),
        (("axios", "redis"), "axios", [AUTH]),
        (("axios", "redis"), "the roof", []),
    ],
)
def test_two_or_half_of_the_keywords_make_it_related(
    talk: Conversation, keywords: tuple[str, ...], subject: str, found: list[str]
) -> None:
    """Of many keywords two must be said, of two one, each with all its words."""
    assert [*attended(talk, *keywords).related(subject)] == found
