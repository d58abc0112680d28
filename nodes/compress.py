"""Shorten an open effort that has outgrown its share of the context."""

import asyncio
from typing import Any

from langgraph.runtime import Runtime

from ..memory.settings import Settings
from .collaborators import Collaborators
from .extracting import Ask, aanswered, answered
from .passing import Passed, passing, taken
from .state import TurnState


def compress(
    state: TurnState, runtime: Runtime[Settings], *, collaborators: Collaborators
) -> dict[str, Any]:
    """Compress one open effort at most; whatever fails changes nothing."""
    steps = passing(state, runtime, collaborators)
    step = taken(steps, None)
    while isinstance(step, Ask):
        step = taken(steps, answered(step))
    return _told(step, runtime)


async def acompress(
    state: TurnState, runtime: Runtime[Settings], *, collaborators: Collaborators
) -> dict[str, Any]:
    """Do what `compress` does, without holding a thread while a model answers."""
    steps = passing(state, runtime, collaborators)
    step = await asyncio.to_thread(taken, steps, None)
    while isinstance(step, Ask):
        step = await asyncio.to_thread(taken, steps, await aanswered(step))
    return _told(step, runtime)


def _told(passed: Passed, runtime: Runtime[Settings]) -> dict[str, Any]:
    if passed.banner:
        runtime.stream_writer({"banner": passed.banner})
    return {**passed.update, "due": False}
