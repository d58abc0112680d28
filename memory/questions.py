"""What a rule asks of a model: the rule yields questions and is sent the answers."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel

from .messages import Message
from .tokens import REPLY_OVERHEAD, TokenCounter, count_messages

Result = TypeVar("Result")

What: TypeAlias = Literal["summary", "extraction", "background", "anchor"]
"""What is asked for; it chooses the model, and logs and traces call the question by it."""


LOG_TOKENS = 12_000
"""Tokens of a log that one question reads at most; less if the context budget is less."""

_LEAST = 200
"""Tokens of a log that one question reads at least."""

_SEAMS = 16
"""Spare tokens for joining a log and its fences: a text may have more than its parts."""


@dataclass(frozen=True, slots=True)
class Question:
    """One call to a model: its instructions, always the same, and the log that it reads.

    `answer` is plain text or a schema; a model without structured output is told the form by the
    prompt `as_text`. `limit` is the most tokens of the answer, where a model can be told.
    """

    what: What
    instructions: str
    log: str
    answer: type[BaseModel] | type[str] = str
    as_text: str = ""
    limit: int | None = None

    def log_room(self, budget: int, count: TokenCounter) -> int:
        """Return how many tokens of a log, of which it has none yet, a budget leaves it.

        >>> question = Question("summary", "Summarise.", "The log:")
        >>> [question.log_room(budget, len) for budget in (4_000, 16_000)]
        [3955, 12000]
        """
        sent: list[Message] = [
            {"type": "system", "data": {"content": self.instructions}},
            {"type": "human", "data": {"content": self.log}},
        ]
        around = REPLY_OVERHEAD + count_messages(sent, count) + _SEAMS
        return max(_LEAST, min(LOG_TOKENS, budget - around))


Asks: TypeAlias = Generator[Question, Any, Result]
"""Yields questions, is sent the answers or thrown an `AnswerError`, returns its result."""
