"""Passes that ask a model, answered from a list."""

from collections.abc import Generator, Iterable
from typing import TypeVar

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
Result = TypeVar("Result")


def answered(
    steps: Generator[Asked, Answer, Result], answers: Iterable[Answer]
) -> tuple[list[Asked], Result | None]:
    """Return what a pass asks, and what it returns if the answers were enough for that."""
    asked: list[Asked] = []
    try:
        asked += [next(steps)]
        for answer in answers:
            asked += [steps.send(answer)]
    except StopIteration as end:
        return asked, end.value
    return asked, None
