"""What errors say: whether what failed may pass, and how long a provider asks to wait."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.exceptions import (
    ContextOverflowError,
    ModelAuthenticationError,
    ModelRateLimitError,
    ModelRefusalError,
)

from ebbtide.nodes.ask import is_formal, is_transient, retry_after

NOON = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


class FromProviderError(Exception):
    """An error with what providers' packages put on it."""

    def __init__(self, **fields: Any) -> None:
        """Keep the fields as attributes."""
        super().__init__("failed")
        self.__dict__ |= fields


class APIConnectionError(Exception):
    """As OpenAI's and Anthropic's packages call it."""


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        *((FromProviderError(status_code=code), True) for code in (408, 409, 429, 500, 503, 529)),
        *((FromProviderError(status_code=code), False) for code in (400, 401, 403, 404, 422)),
        (FromProviderError(code=503), True),
        (FromProviderError(code="insufficient_quota", status_code=401), False),
        (FromProviderError(response=SimpleNamespace(status_code=502)), True),
        (FromProviderError(code=1_006), False),
        (APIConnectionError(), True),
        (ModelRateLimitError("busy"), True),
        (ModelAuthenticationError("no key"), False),
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (ValueError(), False),
        (RuntimeError(), False),
    ],
)
def test_some_errors_pass(error: Exception, *, passes: bool) -> None:
    """Busy and broken servers and connections pass; a bad request and a bad key do not."""
    assert is_transient(error) == passes


@pytest.mark.parametrize(
    ("error", "formal"),
    [
        *((FromProviderError(status_code=code), True) for code in (400, 404, 422)),
        *((FromProviderError(status_code=code), False) for code in (401, 429, 500)),
        (ValueError("no JSON"), True),
        (ConnectionResetError(), False),
        (RuntimeError(), False),
        (ModelRefusalError(), False),
    ],
)
def test_another_form_helps_some_errors(error: Exception, *, formal: bool) -> None:
    """A form that was refused or badly answered is followed by the next one."""
    assert is_formal(error) == formal


def test_a_context_that_is_too_long_is_too_long_in_any_form() -> None:
    """A request that does not fit the model's window is not put in another form."""

    class TooLongError(FromProviderError, ContextOverflowError):
        """As providers' packages make it."""

    assert not is_formal(TooLongError(status_code=400))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "Thu, 01 Jan 2026 12:01:30 GMT"}, 90.0),
        ({"retry-after": "Thu, 01 Jan 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, 0.0),
        ({"retry-after": "soon"}, 0.0),
        ({}, 0.0),
        (None, 0.0),
    ],
)
def test_a_provider_may_say_how_long_to_wait(headers: Any, seconds: float) -> None:
    """Seconds and dates are read; anything else says nothing."""
    error = FromProviderError(response=SimpleNamespace(headers=headers))

    assert retry_after(error, NOON) == seconds
