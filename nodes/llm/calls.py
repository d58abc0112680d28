"""Put the questions of rules to models, with retries, and give the rules the answers.

A question asks for structured output if the model has it, else for JSON in text. It is retried
while a provider is busy, overloaded or unreachable. The model's own `timeout` limits one attempt.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from time import monotonic
from typing import Any, TypeAlias, cast

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.exceptions import ContextOverflowError, ModelError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import LLMResult
from langchain_core.runnables import Runnable
from langchain_core.runnables.config import merge_configs
from langchain_core.utils.json import parse_partial_json
from langgraph.constants import TAG_NOSTREAM
from pydantic import TypeAdapter
from tenacity import (
    AsyncRetrying,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    stop_before_delay,
    wait_exponential,
    wait_random,
)

from ...memory.errors import AnswerError
from ...memory.questions import Asks, Question, Result, What
from ...prompts.loader import render

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

_REFUSED = frozenset({400, 404, 422})
"""The HTTP statuses of a provider that does not know structured output, or a limit."""

_LIMITS = ("max_tokens", "max_output_tokens", "num_predict")
"""The fields of LangChain's models that limit the tokens of an answer."""

_CUT_OFF = "LengthFinishReasonError"
"""The error of OpenAI's package for a structured answer that was cut off; it has the answer."""

_LENGTH = frozenset({"length", "max_tokens", "MAX_TOKENS"})
"""The reasons in LangChain's response metadata that say that an answer was cut off."""

_log = logging.getLogger("ebbtide.calls")

Models: TypeAlias = Mapping[What, BaseChatModel]
"""The model for each kind of question."""


@dataclass(frozen=True, slots=True)
class Call:
    """The cost of a question over all attempts; `failed` is the reason if it has no answer.

    `read` and `written` are the tokens that providers reported, None if they reported none.
    """

    what: What
    model: str
    seconds: float
    read: int | None = None
    written: int | None = None
    failed: str = ""

    def as_data(self) -> dict[str, Any]:
        """Return the call for a log, without empty fields."""
        return {name: value for name, value in asdict(self).items() if value not in ("", None)}


_Note: TypeAlias = Callable[[Call], object]


def drive(
    steps: Asks[Result],
    models: Models,
    note: _Note = lambda _: None,
    *,
    about: Mapping[str, Any] | None = None,
) -> Result:
    """Return what a rule returns; a call that fails raises `AnswerError` inside the rule.

    `note` gets each call; `about` is in the metadata of each call.
    """
    attempts = _attempts(steps, models, note, about or {})
    step = _next(attempts, None)
    while isinstance(step, _Attempt):
        try:
            answer: Any = Retrying(**_retry_policy())(
                step.runnable.invoke, step.messages, step.config
            )
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
) -> Result:
    """Do what `drive` does, without blocking a thread while a model answers."""
    attempts = _attempts(steps, models, note, about or {})
    step = await asyncio.to_thread(_next, attempts, None)
    while isinstance(step, _Attempt):
        retrying = AsyncRetrying(**_retry_policy())
        try:
            answer: Any = await retrying(step.runnable.ainvoke, step.messages, step.config)
        except Exception as error:  # noqa: BLE001 (as above)
            answer = error
        step = await asyncio.to_thread(_next, attempts, answer)
    return cast("Result", step)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One way to put a question: the runnable, its messages and its config."""

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
        model, meter = models[step.what], _Meter()
        purpose = {**about, "ebbtide_purpose": step.what}
        # The meter listens beside the callbacks of the run.
        run = merge_configs({}, {"callbacks": [meter], "metadata": purpose})
        config = {key: run.get(key) for key in ("callbacks", "metadata")}
        config |= {"tags": [TAG_NOSTREAM], "run_name": step.what}
        try:
            answer = yield from _answered(model, step, config)
        except Exception as error:  # noqa: BLE001 (as above)
            reason = _reason(error)
            _log.warning("call failed: %s", reason)
            answer = AnswerError(reason)
            answer.__cause__ = error
        note(meter.call(step.what, model, answer))
        step = _next(steps, answer)
    return cast("Result", step)


def _answered(
    model: BaseChatModel, question: Question, config: Any
) -> Generator[_Attempt, Any, Any]:
    """Return the answer in the first form of the question that gives one; else raise the error.

    The question is put again without its limit only if the provider refused the limit, or if the
    answer was cut off before it said anything, as happens with models that think first.
    """
    for bound in (_limited(model, question.limit), model):
        unlimited_may_help = False
        for runnable, messages in _forms(bound, question):
            try:
                return _read((yield _Attempt(runnable, messages, config)), question)
            except Exception as error:  # noqa: BLE001 (any provider's; raised below)
                failed = error
            if type(failed).__name__ == _CUT_OFF:
                with suppress(AttributeError, LookupError, ValueError):
                    partial = cast("Any", failed).completion.choices[0].message.content
                    return _parsed(partial or "", question, cut=True)
            if isinstance(failed, _CutOffError) or type(failed).__name__ == _CUT_OFF:
                unlimited_may_help = True
                break
            unlimited_may_help = unlimited_may_help or is_refused(failed)
            # Another form may succeed if the answer, or the request for it, had a bad form.
            bad = isinstance(failed, ValueError | TypeError | NotImplementedError)
            if not (bad or is_refused(failed)):
                raise failed
        if bound is model or not unlimited_may_help:
            raise failed
    return None


class _Meter(BaseCallbackHandler):
    """Measures the seconds and the tokens of all attempts at one question."""

    def __init__(self) -> None:
        self._begun = monotonic()
        self._read: int | None = None
        self._written: int | None = None

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        """Add the tokens of an answer."""
        for generation in (item for items in response.generations for item in items):
            usage = getattr(getattr(generation, "message", None), "usage_metadata", None)
            if usage and "input_tokens" in usage:
                self._read = (self._read or 0) + usage["input_tokens"]
                self._written = (self._written or 0) + usage["output_tokens"]

    def call(self, what: What, model: BaseChatModel, answer: Any) -> Call:
        """Return the cost of the question until its answer or its error."""
        name = getattr(model, "model_name", None) or getattr(model, "model", None)
        seconds = round(monotonic() - self._begun, 3)
        failed = str(answer) if isinstance(answer, AnswerError) else ""
        name = str(name or type(model).__name__)
        return Call(what, name, seconds, self._read, self._written, failed)


def _retry_policy() -> dict[str, Any]:
    """Return tenacity's arguments: when a call is retried, and after which wait."""
    growing = wait_exponential(FIRST_WAIT) + wait_random(0, FIRST_WAIT)

    def wait(state: Any) -> float:
        return max(growing(state), retry_after(state.outcome.exception(), datetime.now(UTC)))

    def log(state: Any) -> None:
        reason, seconds = _reason(state.outcome.exception()), state.upcoming_sleep
        _log.warning("call %d failed (%s), waiting %.1f s", state.attempt_number, reason, seconds)

    return {
        "retry": retry_if_exception(is_transient),
        "stop": stop_after_attempt(ATTEMPTS) | stop_before_delay(SECONDS),
        "wait": wait,
        "before_sleep": log,
        "reraise": True,
    }


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}"


def is_transient(error: BaseException) -> bool:
    """Tell whether the same request may succeed a little later."""
    status = _status(error)
    if status is not None:
        return status in _TRANSIENT
    if isinstance(error, ModelError) and error.is_retryable:
        return True
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, ConnectionError | TimeoutError) or bool(kinds & _BROKEN)


def is_refused(error: BaseException) -> bool:
    """Tell whether the provider refused the form of the request, and may take another."""
    return not isinstance(error, ContextOverflowError) and _status(error) in _REFUSED


def _status(error: BaseException) -> int | None:
    """Return the HTTP status of an error, None if it has none."""
    response = getattr(error, "response", None)
    places = ((error, "status_code"), (error, "code"), (response, "status_code"))
    codes = (getattr(holder, name, None) for holder, name in places)
    return next((code for code in codes if isinstance(code, int)), None)


def retry_after(error: BaseException, now: datetime) -> float:
    """Return the seconds that a provider asks to wait (RFC 9110, 10.2.3), 0 if it does not say."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    if not isinstance(headers, Mapping):
        return 0.0
    milliseconds: Any = headers.get("retry-after-ms")  # OpenAI's
    wait: Any = headers.get("retry-after")
    for value, a_second in ((milliseconds, 1_000), (wait, 1)):
        with suppress(ValueError, TypeError):
            return max(0.0, float(value) / a_second)
    with suppress(ValueError, TypeError):  # no date, or one without a time zone
        return max(0.0, (parsedate_to_datetime(wait) - now).total_seconds())
    return 0.0


def _forms(
    model: BaseChatModel, question: Question
) -> Iterator[tuple[Runnable[Any, Any], list[BaseMessage]]]:
    """Yield the forms of a question, the best first: a runnable and its messages."""
    messages = [SystemMessage(question.instructions), HumanMessage(question.log)]
    if issubclass(question.answer, str):
        yield model, messages
        return
    schema = question.answer.model_json_schema()  # a dict: ChatOpenAI warns when it streams a class
    try:
        structured = model.with_structured_output(schema)
    except (NotImplementedError, ValueError, TypeError) as error:
        _log.debug("%s has no structured output: %s", type(model).__name__, error)
    else:
        yield structured, messages
    form = f"\n\n{render(question.as_text)}"
    yield model, [SystemMessage(question.instructions + form), HumanMessage(question.log)]


def _limited(model: BaseChatModel, limit: int | None) -> BaseChatModel:
    """Return the model with this limit, or itself if it has no such field or a lower limit."""
    for name in _LIMITS:
        if limit is not None and name in getattr(type(model), "model_fields", ()):
            own = getattr(model, name)
            low_enough = isinstance(own, int) and 0 < own <= limit
            return model if low_enough else model.model_copy(update={name: limit})
    return model


class _CutOffError(ValueError):
    """The answer was cut off at its limit before it said anything."""

    def __init__(self) -> None:
        super().__init__("the answer was cut off")


def _read(answer: Any, question: Question) -> Any:
    """Return the answer as the question's type; raise `ValueError` if it is something else."""
    if not isinstance(answer, BaseMessage):
        return TypeAdapter(question.answer).validate_python(answer)
    reasons = {answer.response_metadata.get(key) for key in ("finish_reason", "stop_reason")}
    return _parsed(str(answer.text), question, cut=bool(reasons & _LENGTH))


def _parsed(text: str, question: Question, *, cut: bool) -> Any:
    """Return the answer in a text; of JSON that was cut off, what its start holds."""
    plain = issubclass(question.answer, str)
    content = text.strip() if plain else text[text.find("{") : text.rfind("}") + 1]
    if not content:
        reason = " is empty" if plain else f", {len(text)} characters, has no JSON object in it"
        raise _CutOffError if cut else ValueError(f"the answer{reason}")
    if plain:
        return text
    try:
        read = parse_partial_json(content) if cut else json.loads(content)
        return TypeAdapter(question.answer).validate_python(read)
    except ValueError as error:
        raise (_CutOffError() if cut else error) from error
