"""Calls to a model that wait out what passes: busy, overloaded and unreachable providers."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

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

from .left_behind import bounded
from .provider_errors import passing, retry_after

Answer = TypeVar("Answer")

_log = logging.getLogger("ebbtide.calls")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a call is tried: seconds in all, attempts, seconds before the second attempt.

    The waits double, and up to `first_wait` seconds are added to each at random; if the provider
    says how long to wait, it is that long at least.
    """

    seconds: float = 60.0
    attempts: int = 4
    first_wait: float = 1.0


class Deadline:
    """The end of a patience that begins now."""

    def __init__(self, patience: Patience) -> None:
        """Begin to count."""
        self.patience = patience
        self._end = time.monotonic() + patience.seconds

    @property
    def left(self) -> float:
        """The seconds that are left, never less than 0."""
        return max(0.0, self._end - time.monotonic())

    def late(self, error: TimeoutError) -> TimeoutError:
        """Return the error of a call that did not come back in time, else the error itself."""
        if self.left:
            return error
        return TimeoutError(f"no answer within {self.patience.seconds:g} s")


def called(call: Callable[[], Answer], deadline: Deadline) -> Answer:
    """Call until it succeeds, fails for good, or the time is over; raises the last error.

    A call that hangs is left behind.
    """

    def once() -> Answer:
        try:
            return bounded(call, deadline.left)
        except TimeoutError as error:
            raise deadline.late(error) from error

    return Retrying(**_rules(deadline))(once)


async def acalled(call: Callable[[], Awaitable[Answer]], deadline: Deadline) -> Answer:
    """Do what `called` does without holding a thread; a call that hangs is cancelled."""

    async def once() -> Answer:
        try:
            return await asyncio.wait_for(call(), deadline.left)
        except TimeoutError as error:
            raise deadline.late(error) from error

    return await AsyncRetrying(**_rules(deadline))(once)


def _rules(deadline: Deadline) -> dict[str, Any]:
    patience = deadline.patience
    return {
        "retry": retry_if_exception(passing),
        "stop": stop_after_attempt(patience.attempts) | stop_before_delay(deadline.left),
        "wait": _wait(patience.first_wait),
        "before_sleep": _tell,
        "reraise": True,
    }


def _wait(first: float) -> Callable[[RetryCallState], float]:
    growing = wait_exponential(first) + wait_random(0, first)

    def wait(state: RetryCallState) -> float:
        return max(growing(state), retry_after(_error(state), datetime.now(UTC)))

    return wait


def _tell(state: RetryCallState) -> None:
    error = _error(state)
    why = f"{type(error).__name__}: {str(error)[:200]}"
    _log.warning(
        "call %d failed (%s), waiting %.1f s", state.attempt_number, why, state.upcoming_sleep
    )


def _error(state: RetryCallState) -> BaseException:
    """Return what an attempt failed with; rules are asked about failures only."""
    failed = state.outcome.exception() if state.outcome else None
    return failed or RuntimeError("the attempt did not fail")
