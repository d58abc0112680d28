"""Calls to a model, retried while a provider is busy, overloaded or unreachable.

How long one attempt may take is the model's own `timeout`.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from langchain_core.exceptions import ContextOverflowError, ModelError
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

Answer = TypeVar("Answer")

_log = logging.getLogger("ebbtide.calls")

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


def called(call: Callable[[], Answer]) -> Answer:
    """Call until it succeeds, fails for good, or was tried enough; raises the last error."""
    return Retrying(**_rules())(call)


async def acalled(call: Callable[[], Awaitable[Answer]]) -> Answer:
    """Do what `called` does without holding a thread."""
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
