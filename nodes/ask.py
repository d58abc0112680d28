"""Put the questions of rules to models, with retries, and give the rules the answers.

A question asks for structured output by a JSON schema, else by a tool call, else for JSON in text.
It is retried while a provider is busy or unreachable. The model's own `timeout` limits an attempt.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from contextvars import copy_context
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from threading import Thread
from time import monotonic
from typing import Any, TypeAlias, cast

from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.exceptions import ContextOverflowError, ModelError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.runnables import Runnable
from langchain_core.runnables.config import merge_configs
from langgraph.constants import TAG_NOSTREAM
from pydantic import TypeAdapter
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    stop_before_delay,
    wait_exponential_jitter,
)

from ..memory.errors import AnswerError, EbbtideError
from ..memory.metrics import cached_of
from ..memory.questions import Asks, Question, Result, What
from ..prompts.loader import render

ATTEMPTS = 4
"""Most attempts at a call; their waits take about ten seconds, which a turn can bear."""

SECONDS = 60.0
"""Seconds after which no further attempt begins, however long a provider asks to wait."""

FIRST_WAIT = 1.0
"""Seconds before the second attempt; they double, and up to as many are added at random."""

_TRANSIENT = frozenset({408, 409, 425, 429, *range(500, 600)})
"""The HTTP statuses after which the same request may succeed."""

_BROKEN = frozenset({"APIConnectionError", "TransportError"})
"""Names of connection errors of providers' packages that are none of Python's."""

_REFUSED = frozenset({200, 400, 404, 422})
"""The HTTP statuses of an answer that was cut off, and of forms or limits that are not known."""

_LIMITS = ("max_tokens", "max_output_tokens", "num_predict")
"""The fields of LangChain's models that limit the tokens of an answer."""

_log = logging.getLogger("ebbtide.calls")

Models: TypeAlias = Mapping[What, BaseChatModel]
"""The model for each kind of question."""


@dataclass(frozen=True, slots=True)
class QuestionCost:
    """The cost of a question over all attempts; `failed` is the reason if it has no answer.

    `read` and `written` are the tokens that providers reported, None if they reported none;
    `cached` are those read that were cheaper, because the provider had them.
    """

    what: What
    model: str
    seconds: float
    read: int | None = None
    written: int | None = None
    cached: int | None = None
    failed: str = ""

    def as_event(self) -> dict[str, Any]:
        """Return the event with which a turn keeps what the call cost."""
        event = {"type": "asked", "purpose": self.what, "model": self.model}
        if self.read is None or self.written is None:
            return event
        cached = {"input_token_details": {"cache_read": self.cached}} if self.cached else {}
        return event | {
            "usage": {"input_tokens": self.read, "output_tokens": self.written, **cached}
        }

    def as_data(self) -> dict[str, Any]:
        """Return the call for a log, without empty fields."""
        return {name: value for name, value in asdict(self).items() if value not in ("", None)}


class LateError(TimeoutError):
    """The questions of a rule took longer than they may."""


_LATE = "the models took too long"
_Note: TypeAlias = Callable[[QuestionCost], object]


def drive(
    steps: Asks[Result],
    models: Models,
    note: _Note = lambda _: None,
    *,
    about: Mapping[str, Any] | None = None,
    seconds: float | None = None,
) -> Result:
    """Return what a rule returns; a call that fails raises `AnswerError` inside the rule.

    `note` gets each call; `about` is in the metadata of each call. A call that has no answer
    after so many `seconds` of the rule raises `LateError` inside it, and is not waited for.
    """
    attempts = _attempts(steps, models, note, about or {})
    until = None if seconds is None else monotonic() + seconds
    step = _next(attempts, None)
    while isinstance(step, _Attempt):
        invoke = step.runnable.invoke
        ask: Any = partial(Retrying(**_RETRYING), invoke, step.messages, step.config)
        try:
            answer: Any = ask() if until is None else _in_time(ask, until)
        except Exception as error:  # noqa: BLE001 (any provider's: the rule handles it)
            answer = error
        step = _next(attempts, answer)
    return cast("Result", step)


async def adrive(
    steps: Asks[Result],
    models: Models,
    note: _Note = lambda _: None,
    *,
    about: Mapping[str, Any] | None = None,
    seconds: float | None = None,
) -> Result:
    """Do what `drive` does, without blocking a thread while a model answers."""
    attempts = _attempts(steps, models, note, about or {})
    until = None if seconds is None else monotonic() + seconds
    step = await asyncio.to_thread(_next, attempts, None)
    while isinstance(step, _Attempt):
        invoke = step.runnable.ainvoke
        try:
            ask: Any = AsyncRetrying(**_RETRYING)(invoke, step.messages, step.config)
            answer: Any = await (ask if until is None else _ain_time(ask, until))
        except Exception as error:  # noqa: BLE001 (as above)
            answer = error
        step = await asyncio.to_thread(_next, attempts, answer)
    return cast("Result", step)


def _in_time(ask: Callable[[], Any], until: float) -> Any:
    """Return what a call in a thread of its own returns, or raise `LateError`."""
    if monotonic() >= until:
        raise LateError(_LATE)
    answer: Future[Any] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:  # noqa: BLE001 (raised by the thread that waits)
            answer.set_exception(error)

    Thread(target=copy_context().run, args=(run,), daemon=True).start()
    if wait([answer], max(0.0, until - monotonic())).not_done:
        raise LateError(_LATE)
    return answer.result()


async def _ain_time(ask: Coroutine[Any, Any, Any], until: float) -> Any:
    """Return what a call returns, or cancel it and raise `LateError`."""
    if monotonic() >= until:
        ask.close()
        raise LateError(_LATE)
    call = asyncio.ensure_future(ask)
    call.add_done_callback(lambda call: call.cancelled() or call.exception())
    try:
        _, late = await asyncio.wait([call], timeout=max(0.0, until - monotonic()))
    finally:
        call.cancel()
    if late:
        raise LateError(_LATE)
    return call.result()


@dataclass(frozen=True, slots=True)
class _Attempt:
    runnable: Runnable[Any, Any]
    messages: list[BaseMessage]
    config: Any


def _next(steps: Generator[Any, Any, Any], answer: Any) -> Any:
    """Send or throw an answer into a generator; return what it yields, or returns at its end."""
    try:
        return steps.throw(answer) if isinstance(answer, Exception) else steps.send(answer)
    except StopIteration as end:
        return end.value


def _attempts(
    steps: Asks[Result], models: Models, note: _Note, about: Mapping[str, Any]
) -> Generator[_Attempt, Any, Result]:
    """Yield attempts at the questions of a rule; take back the answer or the error of each."""
    step = _next(steps, None)
    while isinstance(step, Question):
        model, usage, begun = models[step.what], UsageMetadataCallbackHandler(), monotonic()
        purpose = {**about, "ebbtide_purpose": step.what}
        # The usage is counted beside the callbacks of the run.
        run = merge_configs({}, {"callbacks": [usage], "metadata": purpose})
        config = {key: run.get(key) for key in ("callbacks", "metadata")}
        config |= {"tags": [TAG_NOSTREAM], "run_name": step.what}
        failed = ""
        try:
            answer = yield from _answered(model, step, config)
        except Exception as error:  # noqa: BLE001 (as above)
            is_own = isinstance(error, EbbtideError)
            failed = str(error) if is_own else type(error).__name__
            _log.warning("no answer to %s: %s", step.what, failed)
            _log.debug("%s: %s", type(error).__name__, error)  # it may quote users and keys
            answer = error if isinstance(error, LateError) else AnswerError(failed)
            answer.__cause__ = error.__cause__ if answer is error else error
        name = getattr(model, "model_name", None) or getattr(model, "model", None)
        seconds = round(monotonic() - begun, 3)
        tokens = _tokens([*usage.usage_metadata.values()])
        note(
            QuestionCost(
                step.what, str(name or type(model).__name__), seconds, *tokens, failed=failed
            )
        )
        step = _next(steps, answer)
    return cast("Result", step)


def _tokens(used: Sequence[UsageMetadata]) -> tuple[int | None, int | None, int | None]:
    if not used:
        return None, None, None
    read, written = (sum(one[side] for one in used) for side in ("input_tokens", "output_tokens"))
    return read, written, sum(cached_of(one) for one in used) or None


def _answered(
    model: BaseChatModel, question: Question, config: Any
) -> Generator[_Attempt, Any, Any]:
    """Return the answer in the first form of the question that gives one; else raise the error."""
    failed: Exception | None = None
    for runnable, messages in _forms(model, question):
        try:
            return _read((yield _Attempt(runnable, messages, config)), question)
        except Exception as error:  # noqa: BLE001 (any provider's; raised below)
            failed = error
        if not is_formal(failed):
            break
    raise failed or AnswerError("the model was not asked")


def _forms(
    model: BaseChatModel, question: Question
) -> Iterator[tuple[Runnable[Any, Any], list[BaseMessage]]]:
    """Yield the forms of a question, the best first.

    The last one has no limit: some providers refuse it, and a model that thinks first may reach it
    before it says anything.
    """
    limited = _limited(model, question.limit)
    messages = [SystemMessage(question.instructions), HumanMessage(question.log)]
    if issubclass(question.answer, str):
        if limited is not model:
            yield limited, messages
    else:
        schema = question.answer.model_json_schema()  # ChatOpenAI warns when it streams a class
        for method in ("json_schema", "function_calling"):
            with suppress(NotImplementedError, ValueError, TypeError):
                yield limited.with_structured_output(schema, method=method), messages
        form = f"\n\n{render(question.as_text)}"
        messages = [SystemMessage(question.instructions + form), HumanMessage(question.log)]
    yield model, messages


def _limited(model: BaseChatModel, limit: int | None) -> BaseChatModel:
    """Return the model with this limit, or itself if it has no such field or a lower limit."""
    for name in _LIMITS:
        if limit is not None and name in getattr(type(model), "model_fields", ()):
            own = getattr(model, name)
            low_enough = isinstance(own, int) and 0 < own <= limit
            return model if low_enough else model.model_copy(update={name: limit})
    return model


def _read(answer: Any, question: Question) -> Any:
    """Return the answer as the question's type; raise `ValueError` if it is something else."""
    if not isinstance(answer, BaseMessage):
        return TypeAdapter(question.answer).validate_python(answer)
    text = str(answer.text)
    if issubclass(question.answer, str) and text.strip():
        return text
    if "{" not in text:
        raise ValueError(f"no answer in a text of {len(text)} characters")
    return TypeAdapter(question.answer).validate_json(text[text.find("{") : text.rfind("}") + 1])


def is_formal(error: Exception) -> bool:
    """Tell whether another form may help: the provider refused this one, or the answer was bad."""
    if isinstance(error, ContextOverflowError):
        return False
    bad = isinstance(error, ValueError | TypeError | NotImplementedError)
    return bad or _status(error) in _REFUSED


def is_transient(error: BaseException) -> bool:
    """Tell whether the same request may succeed a little later."""
    status = _status(error)
    if status is not None:
        return status in _TRANSIENT
    if isinstance(error, ModelError):
        return error.is_retryable
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, ConnectionError | TimeoutError) or bool(kinds & _BROKEN)


def _status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    places = ((error, "status_code"), (error, "code"), (response, "status_code"))
    codes = (getattr(holder, name, None) for holder, name in places)
    return next((code for code in codes if isinstance(code, int)), None)


def _wait(state: RetryCallState) -> float:
    """Return the seconds before the next attempt: more and more, and what a provider asks for."""
    growing = wait_exponential_jitter(FIRST_WAIT, jitter=FIRST_WAIT)(state)
    error = state.outcome.exception() if state.outcome else None
    return max(growing, retry_after(error, datetime.now(UTC)))


def _is_over(state: RetryCallState) -> bool:
    return (stop_after_attempt(ATTEMPTS) | stop_before_delay(SECONDS))(state)


def retry_after(error: BaseException | None, now: datetime) -> float:
    """Return the seconds that a provider asks to wait (RFC 9110, 10.2.3), 0 if it does not say."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    wait = headers.get("retry-after", "") if isinstance(headers, Mapping) else ""
    with suppress(ValueError):
        return max(0.0, float(wait))
    with suppress(ValueError, TypeError):  # no date, or one without a time zone
        return max(0.0, (parsedate_to_datetime(wait) - now).total_seconds())
    return 0.0


def _before_sleep(state: RetryCallState) -> None:
    """Log the attempt that failed and the wait; a provider's own text may quote users and keys."""
    error, wait = state.outcome and state.outcome.exception(), state.upcoming_sleep
    _log.warning("the model failed (%s): next attempt in %.1f s", type(error).__name__, wait)
    _log.debug("%s: %s", type(error).__name__, error)


_RETRYING: Any = {
    "retry": retry_if_exception(is_transient),
    "stop": _is_over,
    "wait": _wait,
    "before_sleep": _before_sleep,
    "reraise": True,
}
"""Tenacity's arguments: LangChain's `with_retry` knows no `Retry-After`, and logs no wait."""
