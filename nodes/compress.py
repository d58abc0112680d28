"""Shorten an open effort that has outgrown its share; usually there is nothing to do."""

import asyncio
from typing import Any

from langgraph.runtime import Runtime

from ..memory.compressing import Reply
from ..memory.errors import SalienceError
from ..memory.extraction import ExtractionRequest
from ..memory.settings import Settings
from .collaborators import Collaborators
from .extracting import abackground, aextract, background, extract
from .passing import Ask, passing, taken
from .state import AgentState


def compress(
    state: AgentState, runtime: Runtime[Settings], *, collaborators: Collaborators
) -> dict[str, Any]:
    """Compress one open effort at most; whatever fails changes nothing."""
    steps = passing(state, runtime, collaborators)
    step = taken(steps, None)
    while isinstance(step, Ask):
        step = taken(steps, _answer(step))
    return _told(step, runtime)


async def acompress(
    state: AgentState, runtime: Runtime[Settings], *, collaborators: Collaborators
) -> dict[str, Any]:
    """Do what `compress` does, without holding a thread while a model answers."""
    steps = passing(state, runtime, collaborators)
    step = await asyncio.to_thread(taken, steps, None)
    while isinstance(step, Ask):
        reply = await _aanswer(step)
        step = await asyncio.to_thread(taken, steps, reply)
    return _told(step, runtime)


def _answer(asked: Ask) -> Reply | SalienceError:
    if isinstance(asked.request, ExtractionRequest):
        return extract(asked.model, asked.request, asked.settings)
    return background(asked.model, asked.request, asked.settings)


async def _aanswer(asked: Ask) -> Reply | SalienceError:
    if isinstance(asked.request, ExtractionRequest):
        return await aextract(asked.model, asked.request, asked.settings)
    return await abackground(asked.model, asked.request, asked.settings)


def _told(update: dict[str, Any], runtime: Runtime[Settings]) -> dict[str, Any]:
    for banner in update.get("banners", [])[-1:]:
        runtime.stream_writer({"banner": banner})
    return update
