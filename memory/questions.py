"""What a rule asks of a model: the rule yields questions and is sent the answers."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel

Result = TypeVar("Result")

What: TypeAlias = Literal["summary", "extraction", "background", "anchor"]
"""What is asked for; it chooses the model, and logs and traces call the question by it."""


LOG_TOKENS = 12_000
"""Tokens of a log that one question reads at most; less if the context budget is less."""


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


Asks: TypeAlias = Generator[Question, Any, Result]
"""Yields questions, is sent the answers or thrown an `AnswerError`, returns its result."""
