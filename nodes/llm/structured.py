"""One question put to a model: as structured output where it can, else as JSON in text.

It is put again while a provider is busy, overloaded or unreachable. How long one attempt may take
is the model's own `timeout`.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, TypeAlias, TypeVar

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
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    stop_before_delay,
    wait_exponential,
    wait_random,
)

from ...memory.questions import Question
from ...prompts.loader import render

Answer = TypeVar("Answer")

ATTEMPTS = 4
"""Attempts at most: with their waits about ten seconds, which a turn can bear."""

SECONDS = 60.0
"""Seconds after which no further attempt begins, however long a provider asks to wait."""

FIRST_WAIT = 1.0
"""Seconds before the second attempt; they double, and up to as many are added at random."""

_TRANSIENT = frozenset({408, 409, 425, 429, *range(500, 600)})
"""The HTTP answers after which the same request may succeed."""

_BROKEN = frozenset({"APIConnectionError", "TransportError"})
"""What packages of providers call an error of the connection where it is none of Python's."""

_REFUSED = frozenset({400, 404, 422})
"""The HTTP answers of a provider that does not know a form of structured output, or a limit."""


def _called(call: Callable[[], Answer]) -> Answer:
    """Call until it succeeds, fails for good, or was tried enough; raises the last error."""
    return Retrying(**_rules())(call)


async def _acalled(call: Callable[[], Awaitable[Answer]]) -> Answer:
    """Do what `_called` does without holding a thread."""
    return await AsyncRetrying(**_rules())(call)


def is_transient(error: BaseException) -> bool:
    """Tell whether the same request may succeed a little later.

    >>> is_transient(ConnectionError("gone")), is_transient(ValueError("no JSON"))
    (True, False)
    """
    status = _status(error)
    if status is not None:
        return status in _TRANSIENT
    if isinstance(error, ModelError) and error.is_retryable:
        return True
    named = {one.__name__ for one in type(error).__mro__}
    return isinstance(error, ConnectionError | TimeoutError) or bool(named & _BROKEN)


def is_refused(error: BaseException) -> bool:
    """Tell whether the provider did not take the request as it was put, and may otherwise."""
    return not isinstance(error, ContextOverflowError) and _status(error) in _REFUSED


def retry_after(error: BaseException, now: datetime) -> float:
    """Return the seconds that a provider asks to wait, 0 if it does not say.

    Source: RFC 9110, section 10.2.3, seconds or a date; `retry-after-ms` is OpenAI's.
    """
    headers = getattr(getattr(error, "response", None), "headers", None)
    if not isinstance(headers, Mapping):
        return 0.0
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1_000
    said = headers.get("retry-after")
    seconds = _seconds(said)
    return _until(str(said or ""), now) if seconds is None else seconds


def reason(error: BaseException) -> str:
    """Return what the log says of an error.

    >>> reason(ValueError("no JSON"))
    'ValueError: no JSON'
    """
    return f"{type(error).__name__}: {str(error)[:200]}"


def _rules() -> dict[str, Any]:
    return {
        "retry": retry_if_exception(is_transient),
        "stop": stop_after_attempt(ATTEMPTS) | stop_before_delay(SECONDS),
        "wait": _wait,
        "before_sleep": _tell,
        "reraise": True,
    }


def _wait(state: RetryCallState) -> float:
    growing = wait_exponential(FIRST_WAIT) + wait_random(0, FIRST_WAIT)
    return max(growing(state), retry_after(_error(state), datetime.now(UTC)))


def _tell(state: RetryCallState) -> None:
    why, wait = reason(_error(state)), state.upcoming_sleep
    _log.warning("call %d failed (%s), waiting %.1f s", state.attempt_number, why, wait)


def _error(state: RetryCallState) -> BaseException:
    """Return the error of an attempt that failed."""
    failed = state.outcome.exception() if state.outcome else None
    return failed or RuntimeError("the attempt did not fail")


def _status(error: BaseException) -> int | None:
    """Return the HTTP status that an error tells of, None if it tells of none."""
    response = getattr(error, "response", None)
    given = (getattr(error, "status_code", None), getattr(error, "code", None))
    for status in (*given, getattr(response, "status_code", None)):
        if isinstance(status, int):
            return int(status)
    return None


def _seconds(said: object) -> float | None:
    try:
        return max(0.0, float(str(said)))
    except ValueError:
        return None


def _until(said: str, now: datetime) -> float:
    try:
        then = parsedate_to_datetime(said)
    except ValueError:
        return 0.0
    return max(0.0, (then - now).total_seconds()) if then.tzinfo else 0.0


_log = logging.getLogger("ebbtide.calls")

_LIMITS = ("max_tokens", "max_output_tokens", "num_predict")
"""What LangChain's models call the most tokens that they may answer with."""

_CUT_OFF = "LengthFinishReasonError"
"""How OpenAI's package calls a structured answer that was cut off; it holds the answer."""

_LENGTH = frozenset({"length", "max_tokens", "MAX_TOKENS"})
"""How providers say that an answer was cut off, in what LangChain keeps of the response."""

_NOTHING: Mapping[str, Any] = {}

Form: TypeAlias = tuple[Runnable[Any, Any], list[BaseMessage]]
"""A way to put a question: what is invoked, and with what."""


class CutOffError(ValueError):
    """An answer was cut off at its limit before anything could be read from it."""


class Meter(BaseCallbackHandler):
    """Adds up the tokens of all calls for one question, None if the model reports none."""

    def __init__(self) -> None:
        """Begin with none."""
        self.read: int | None = None
        self.written: int | None = None

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        """Take note of what an answer cost."""
        said = [getattr(one, "message", None) for some in response.generations for one in some]
        for usage in (getattr(message, "usage_metadata", None) or {} for message in said):
            if "input_tokens" in usage:
                self.read = (self.read or 0) + usage["input_tokens"]
                self.written = (self.written or 0) + usage["output_tokens"]


def ask(
    model: BaseChatModel,
    question: Question,
    meter: Meter | None = None,
    about: Mapping[str, Any] = _NOTHING,
) -> Any:
    """Return the model's answer, form by form until one gives it; raises the last error.

    `about` is in the metadata of the call.
    """
    forms, config = _forms(model, question), _config(question, meter, about)
    runnable, messages = next(forms)
    while True:
        try:
            return _read(_called(partial(runnable.invoke, messages, config)), question)
        except Exception as error:  # noqa: BLE001 (any provider's; at last it is raised again)
            if (part := _saved(error, question)) is not None:
                return part
            runnable, messages = forms.send(error)


async def aask(
    model: BaseChatModel,
    question: Question,
    meter: Meter | None = None,
    about: Mapping[str, Any] = _NOTHING,
) -> Any:
    """Do what `ask` does, without holding a thread."""
    forms, config = _forms(model, question), _config(question, meter, about)
    runnable, messages = next(forms)
    while True:
        try:
            return _read(await _acalled(partial(runnable.ainvoke, messages, config)), question)
        except Exception as error:  # noqa: BLE001 (as above)
            if (part := _saved(error, question)) is not None:
                return part
            runnable, messages = forms.send(error)


def _config(question: Question, meter: Meter | None, about: Mapping[str, Any]) -> Any:
    """Return how a call is made; the meter listens beside the callbacks of the run."""
    told = {**about, "ebbtide_purpose": question.what}
    ours = merge_configs({}, {"callbacks": [meter] if meter else [], "metadata": told})
    known = {"callbacks": ours["callbacks"], "metadata": ours["metadata"]}
    return {"tags": [TAG_NOSTREAM], "run_name": question.what, **known}


def _forms(model: BaseChatModel, question: Question) -> Generator[Form, Exception, None]:
    """Yield the ways to put a question; each is sent back the error of its attempt.

    Raises an error that no other way can mend.

    Without the limit it is put again only if a provider did not take it with it, or if the answer
    came to nothing because of it, as may be with models that think first.
    """
    limited = _limited(model, question.limit)
    for bound in (limited, model):
        unlimited_may_help = False
        for form in _of_model(bound, question):
            error = yield form
            if _is_cut_off(error):
                unlimited_may_help = True
                break
            unlimited_may_help = unlimited_may_help or is_refused(error)
            if not _is_mendable(error):
                raise error
        if limited is model or bound is model or not unlimited_may_help:
            raise error


def _of_model(model: BaseChatModel, question: Question) -> Iterator[Form]:
    if issubclass(question.answer, str):
        yield model, _messages(question)
        return
    schema = question.answer.model_json_schema()  # a dict: ChatOpenAI warns when it streams a class
    try:
        form = model.with_structured_output(schema)
    except (NotImplementedError, ValueError, TypeError) as error:
        _log.debug("%s has no structured output: %s", type(model).__name__, error)
    else:
        yield form, _messages(question)
    yield model, _messages(question, f"\n\n{render(question.as_text)}")


def _messages(question: Question, form: str = "") -> list[BaseMessage]:
    return [SystemMessage(question.instructions + form), HumanMessage(question.log)]


def _limited(model: BaseChatModel, limit: int | None) -> BaseChatModel:
    """Return the model with this limit, or itself if it knows none or has a lower one."""
    for name in _LIMITS:
        if limit is not None and name in getattr(type(model), "model_fields", ()):
            own = getattr(model, name)
            low_enough = isinstance(own, int) and 0 < own <= limit
            return model if low_enough else model.model_copy(update={name: limit})
    return model


def _is_mendable(error: Exception) -> bool:
    """Tell whether another form may succeed: what came, or how it was asked for, was bad."""
    return is_refused(error) or isinstance(error, ValueError | TypeError | NotImplementedError)


def _is_cut_off(error: Exception) -> bool:
    """Tell whether the limit left nothing of an answer."""
    return isinstance(error, CutOffError) or type(error).__name__ == _CUT_OFF


def _read(answer: Any, question: Question) -> Any:
    """Return what a model or its parser answered as the type that is wanted.

    Raises `ValueError` if it is something else, `CutOffError` if the limit is why.
    """
    if not isinstance(answer, BaseMessage):
        return TypeAdapter(question.answer).validate_python(answer)
    reasons = {answer.response_metadata.get(key) for key in ("finish_reason", "stop_reason")}
    return _written(str(answer.text), question, cut=bool(reasons & _LENGTH))


def _saved(error: Exception, question: Question) -> Any:
    """Return what an answer that was cut off holds, None for any other error."""
    if type(error).__name__ != _CUT_OFF:
        return None
    completion: Any = getattr(error, "completion", None)
    try:
        return _written(completion.choices[0].message.content or "", question, cut=True)
    except (AttributeError, LookupError, ValueError):
        return None


def _written(text: str, question: Question, *, cut: bool) -> Any:
    read = _some if issubclass(question.answer, str) else partial(_json, cut=cut)
    try:
        return TypeAdapter(question.answer).validate_python(read(text))
    except ValueError as error:
        raise (CutOffError("the answer was cut off") if cut else error) from error


def _some(text: str) -> str:
    if not text.strip():
        raise ValueError("the answer is empty")
    return text


def _json(text: str, *, cut: bool) -> Any:
    """Return the JSON in a text; of one that breaks off, all up to its last complete object."""
    written = text[text.find("{") : text.rfind("}") + 1]
    if not written:
        raise ValueError(f"the answer, {len(text)} characters, has no JSON object in it")
    return parse_partial_json(written) if cut else json.loads(written)
