"""Run the memory tools, one after the other, each on the state that the one before left."""

import asyncio
from dataclasses import replace
from typing import Any

from langgraph.runtime import Runtime

from ..memory.errors import SummaryError
from ..memory.messages import unanswered
from ..memory.settings import Settings
from ..memory.summary import EffortSummary
from ..memory.toolbox import Banner, Done, Running, advance, run
from .attending import related
from .collaborators import Collaborators
from .plain import real
from .session import desk, packed
from .state import TurnState
from .summarising import asummarise, summarise


def run_tools(
    state: TurnState, runtime: Runtime[Settings], *, collaborators: Collaborators
) -> dict[str, Any]:
    """Answer the calls of memory tools, and those of tools that do not exist."""
    steps = _steps(state, runtime, collaborators)
    step = advance(steps, None)
    while not isinstance(step, Done):
        reply: EffortSummary | SummaryError | None = None
        if isinstance(step, Banner):
            runtime.stream_writer({"banner": step.text})
        else:
            reply = summarise(collaborators.summary_model, step)
        step = advance(steps, reply)
    return _packed(step)


async def arun_tools(
    state: TurnState, runtime: Runtime[Settings], *, collaborators: Collaborators
) -> dict[str, Any]:
    """Do what `run_tools` does, without holding a thread while a model summarises."""
    steps = await asyncio.to_thread(_steps, state, runtime, collaborators)
    step = await asyncio.to_thread(advance, steps, None)
    while not isinstance(step, Done):
        reply: EffortSummary | SummaryError | None = None
        if isinstance(step, Banner):
            runtime.stream_writer({"banner": step.text})
        else:
            reply = await asummarise(collaborators.summary_model, step)
        step = await asyncio.to_thread(advance, steps, reply)
    return _packed(step)


def _steps(state: TurnState, runtime: Runtime[Settings], collaborators: Collaborators) -> Running:
    here = desk(state, runtime, collaborators)
    here = replace(here, related=lambda said: related(here.view, said, runtime, collaborators))
    others = frozenset(collaborators.tools)
    calls = [call for call in unanswered(here.view.running.messages) if _ours(call, others)]
    return run(here, calls, others)


def _ours(call: Any, others: frozenset[str]) -> bool:
    return call["name"] not in others or call.get("type") == "invalid_tool_call"


def _packed(done: Done) -> dict[str, Any]:
    return {**packed(done.desk.space), "messages": real(done.results)}
