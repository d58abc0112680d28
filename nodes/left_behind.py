"""Calls in daemon threads: one that hangs is left behind and keeps no process from its end."""

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

Answer = TypeVar("Answer")
_Report: TypeAlias = Callable[[Any, BaseException | None], object]


def bounded(call: Callable[[], Answer], seconds: float) -> Answer:
    """Return what a call returns within some seconds, else raise `TimeoutError`.

    With no seconds left it is not begun.
    """
    if seconds <= 0:
        raise TimeoutError
    done: queue.SimpleQueue[tuple[Answer, BaseException | None]] = queue.SimpleQueue()
    _begin(call, lambda answer, error: done.put((answer, error)))
    try:
        answer, error = done.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    return answer


async def threaded(call: Callable[[], Answer]) -> Answer:
    """Run a call that knows no asynchronous path; it may be cancelled and then goes on unseen.

    The event loop's own threads would be waited for when the loop is closed. A `StopIteration`, as
    of a fake model without more answers, is raised as a `RuntimeError`: no future takes it.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Answer] = loop.create_future()

    def settle(answer: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(answer)
        elif isinstance(error, StopIteration):
            future.set_exception(RuntimeError(f"the call raised {error!r}"))
        else:
            future.set_exception(error)

    def report(answer: Any, error: BaseException | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, answer, error)

    _begin(call, report)
    return await future


def _begin(call: Callable[[], Any], report: _Report) -> None:
    """Run a call in a daemon thread with the caller's context, and report how it ended."""
    context = contextvars.copy_context()

    def run() -> None:
        try:
            answer = context.run(call)
        except BaseException as error:  # noqa: BLE001 (raised again where it is waited for)
            report(None, error)
        else:
            report(answer, None)

    threading.Thread(target=run, daemon=True, name="ebbtide-call").start()
