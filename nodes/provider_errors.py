"""What the errors of providers' packages say: whether to try again, when, or in another form."""

from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

from langchain_core.exceptions import ContextOverflowError, ModelError

_PASSING = frozenset({408, 409, 425, 429})
"""The HTTP answers below 500 after which the same request may succeed."""

_SERVERS = range(500, 600)

_BROKEN = frozenset({"APIConnectionError", "TransportError"})
"""What packages of providers call an error of the connection where it is none of Python's."""

_REFUSED = frozenset({400, 404, 422})
"""The HTTP answers of a provider that does not know a form of structured output, or a limit."""


def passing(error: BaseException) -> bool:
    """Tell whether the same request may succeed a little later.

    >>> passing(ConnectionError("gone")), passing(ValueError("no JSON"))
    (True, False)
    """
    status = status_of(error)
    if status is not None:
        return status in _PASSING or status in _SERVERS
    if isinstance(error, ModelError) and error.is_retryable:
        return True
    named = {one.__name__ for one in type(error).__mro__}
    return isinstance(error, ConnectionError | TimeoutError) or bool(named & _BROKEN)


def refused(error: BaseException) -> bool:
    """Tell whether the provider did not take the request as it was put, and may otherwise."""
    return not isinstance(error, ContextOverflowError) and status_of(error) in _REFUSED


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status that an error tells of, None if it tells of none."""
    response = getattr(error, "response", None)
    given = (getattr(error, "status_code", None), getattr(error, "code", None))
    for status in (*given, getattr(response, "status_code", None)):
        if isinstance(status, int):
            return int(status)
    return None


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
