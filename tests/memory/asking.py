"""Rules that ask a model, answered from a list."""

from collections.abc import Iterable
from typing import Any, TypeVar

from ebbtide.memory.errors import AnswerError
from ebbtide.memory.questions import Asks, Question

Result = TypeVar("Result")


def step(steps: Asks[Any], answer: Any = None) -> Any:
    """Return the next question after an answer or an error, or what the rule returns at its end."""
    try:
        return steps.throw(answer) if isinstance(answer, AnswerError) else steps.send(answer)
    except StopIteration as end:
        return end.value


def answered(steps: Asks[Result], answers: Iterable[Any]) -> tuple[list[Question], Result | None]:
    """Return what a rule asks, and what it returns if the answers were enough for that."""
    asked: list[Question] = []
    found = step(steps)
    for answer in answers:
        if not isinstance(found, Question):
            break
        asked.append(found)
        found = step(steps, answer)
    if isinstance(found, Question):
        return [*asked, found], None
    return asked, found
