"""Questions of the memory to a model: a generator yields them and is sent the answers."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel

from .tokens import REPLY_OVERHEAD, TokenCounter, count_messages

Result = TypeVar("Result")

What: TypeAlias = Literal["summary", "extraction", "background", "anchor"]
"""The purpose of a question, which chooses the model and names it in logs and traces."""

LOG_TOKENS = 12_000
"""Tokens of a log in one question at most; fewer if the context budget is smaller."""

_LEAST = 200  # tokens of a log in one question at least, so that any budget makes progress
_SEAMS = 16  # spare tokens, since a log joined with its fences may have more tokens than its parts


@dataclass(frozen=True, slots=True)
class Question:
    """One call to a model: constant instructions and the log to read.

    `answer` is plain text or a schema; `as_text` is the prompt that describes the schema to a model
    without structured output. `limit` is the most tokens of the answer, if the model takes one.
    """

    what: What
    instructions: str
    log: str
    answer: type[BaseModel] | type[str] = str
    as_text: str = ""
    limit: int | None = None

    def log_room(self, budget: int, count: TokenCounter) -> int:
        """Return the tokens that a budget leaves for the log of a question without one.

        >>> question = Question("summary", "Summarise.", "The log:")
        >>> [question.log_room(budget, len) for budget in (4_000, 16_000)]
        [3955, 12000]
        """
        sent: list[BaseMessage] = [
            SystemMessage(self.instructions),
            HumanMessage(self.log),
        ]
        around = REPLY_OVERHEAD + count_messages(sent, count) + _SEAMS
        return max(_LEAST, min(LOG_TOKENS, budget - around))


Asks: TypeAlias = Generator[Question, Any, Result]
"""A generator that yields questions, is sent answers or thrown an `AnswerError`, and returns."""
