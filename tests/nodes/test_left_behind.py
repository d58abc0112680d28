"""Calls in threads of their own: what they return and raise, and when they are given up."""

import asyncio
import threading
from contextvars import ContextVar

import pytest

from ebbtide.nodes.left_behind import bounded, threaded

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


def failing() -> str:
    """Raise an error."""
    raise LookupError("gone")


async def test_a_call_sees_the_context_of_its_caller() -> None:
    """What a call returns comes back, and context variables are those of the caller."""
    WHO.set("ada")

    assert [bounded(WHO.get, 5), await threaded(WHO.get)] == ["ada", "ada"]


async def test_the_error_of_a_call_is_raised() -> None:
    """An error in the thread is raised where the call is waited for."""
    with pytest.raises(LookupError, match="gone"):
        bounded(failing, 5)
    with pytest.raises(LookupError, match="gone"):
        await threaded(failing)


async def test_a_model_that_has_run_out_of_answers_is_not_waited_for() -> None:
    """`StopIteration`, which no future takes, is raised as a `RuntimeError` at once."""
    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(threaded(iter(()).__next__), 5)


def test_a_call_is_not_begun_without_time() -> None:
    """With no seconds left nothing is called."""
    begun = threading.Event()

    with pytest.raises(TimeoutError):
        bounded(begun.set, 0)

    assert not begun.is_set()


async def test_a_call_that_was_cancelled_may_still_end() -> None:
    """A call whose task was cancelled goes on unseen, and its answer or error is dropped."""
    go, ended = threading.Event(), threading.Event()

    def late() -> str:
        go.wait(5)
        ended.set()
        return failing()

    task = asyncio.ensure_future(threaded(late))
    await asyncio.sleep(0)
    task.cancel()
    go.set()
    await asyncio.to_thread(ended.wait, 5)
    await asyncio.sleep(0.05)

    assert task.cancelled()
