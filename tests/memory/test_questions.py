"""The room that a question leaves for its log."""

from dataclasses import replace

import pytest

from ebbtide.memory.messages import Message
from ebbtide.memory.questions import LOG_TOKENS, Question
from ebbtide.memory.tokens import REPLY_OVERHEAD, count_messages
from tests.memory.conversations import count_words

QUESTION = Question("summary", "Summarise.", "The log:")


@pytest.mark.parametrize("budget", [500, 4_000, 12_000])
def test_a_question_with_a_full_log_fits_into_the_budget(budget: int) -> None:
    """Instructions, log and the overhead of a reply have the budget's tokens at most."""
    log = QUESTION.log + " word" * QUESTION.log_room(budget, count_words)
    sent: list[Message] = [
        {"type": "system", "data": {"content": QUESTION.instructions}},
        {"type": "human", "data": {"content": log}},
    ]

    assert budget - 20 <= count_messages(sent, count_words) + REPLY_OVERHEAD <= budget


def test_a_log_has_a_limit_of_its_own() -> None:
    """However large the budget, no more than a good answer can be made of is read at once."""
    assert QUESTION.log_room(1_000_000, count_words) == LOG_TOKENS


def test_any_budget_makes_progress() -> None:
    """Instructions longer than the budget still leave 200 tokens for the log."""
    long = replace(QUESTION, instructions="word " * 5_000)

    assert long.log_room(4_000, count_words) == 200
