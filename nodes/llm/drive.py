"""One driver for every rule that asks a model: question after question, until it returns."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any, TypeAlias, TypeVar, cast

from langchain_core.language_models import BaseChatModel

from ...memory.errors import AnswerError
from ...memory.questions import Asks, Question, What
from .structured import Meter, aask, ask, reason

Result = TypeVar("Result")

Models: TypeAlias = Mapping[What, BaseChatModel]
"""Which model is asked what."""

_log = logging.getLogger("ebbtide.calls")


@dataclass(frozen=True, slots=True)
class Call:
    """What a question cost, with all its attempts; `failed` says why there is no answer.

    `read` and `written` are the tokens that the model reports, None if it reports none.
    """

    what: What
    model: str
    seconds: float
    read: int | None = None
    written: int | None = None
    failed: str = ""

    def as_data(self) -> dict[str, Any]:
        """Return what logs say of the call, without what is not known."""
        return {name: value for name, value in asdict(self).items() if value not in ("", None)}


Note: TypeAlias = Callable[[Call], object]
Told: TypeAlias = Mapping[str, Any]

_NOTHING: Told = {}


def drive(
    steps: Asks[Result], models: Models, note: Note = lambda _: None, *, about: Told = _NOTHING
) -> Result:
    """Return what a rule returns; a call that fails is thrown into it as an `AnswerError`.

    `note` is told of each call; `about` is in the metadata of each.
    """
    step = _next(steps, None)
    while isinstance(step, Question):
        cost = _Cost(step.what, models[step.what])
        try:
            answer = ask(models[step.what], step, cost.meter, about)
        except Exception as error:  # noqa: BLE001 (any provider's: the rule says what then holds)
            answer = _failed(error)
        note(cost.call(answer))
        step = _next(steps, answer)
    return cast("Result", step)


async def adrive(
    steps: Asks[Result], models: Models, note: Note = lambda _: None, *, about: Told = _NOTHING
) -> Result:
    """Do what `drive` does, without holding a thread while a model answers."""
    step = await asyncio.to_thread(_next, steps, None)
    while isinstance(step, Question):
        cost = _Cost(step.what, models[step.what])
        try:
            answer = await aask(models[step.what], step, cost.meter, about)
        except Exception as error:  # noqa: BLE001 (as above)
            answer = _failed(error)
        note(cost.call(answer))
        step = await asyncio.to_thread(_next, steps, answer)
    return cast("Result", step)


def _next(steps: Asks[Any], answer: Any) -> Any:
    """Return the next question, or what the rule returns at its end."""
    try:
        return steps.throw(answer) if isinstance(answer, AnswerError) else steps.send(answer)
    except StopIteration as end:
        return end.value


def _failed(error: Exception) -> AnswerError:
    why = reason(error)
    _log.warning("call failed: %s", why)
    return AnswerError(why)


class _Cost:
    """Measures the seconds and tokens of a question."""

    def __init__(self, what: What, model: BaseChatModel) -> None:
        name = getattr(model, "model_name", None) or getattr(model, "model", None)
        self._what, self._model = what, str(name or type(model).__name__)
        self._begun, self.meter = monotonic(), Meter()

    def call(self, answer: Any) -> Call:
        """Return what the question cost until its answer, or its error."""
        return Call(
            what=self._what,
            model=self._model,
            seconds=round(monotonic() - self._begun, 3),
            read=self.meter.read,
            written=self.meter.written,
            failed=str(answer) if isinstance(answer, AnswerError) else "",
        )
