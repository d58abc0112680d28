"""Run the memory tools, one after the other, each on the state that the one before left."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langgraph.runtime import Runtime

from ..memory.messages import Message, unanswered
from ..memory.questions import Asks
from ..memory.settings import Settings
from ..memory.tools.toolbox import Done, run
from .llm.drive import adrive, drive
from .turn.attention import related
from .turn.messages import real
from .turn.parts import Collaborators
from .turn.state import TurnState
from .turn.values import desk, packed


def run_tools(
    state: TurnState, runtime: Runtime[Settings], *, collaborators: Collaborators
) -> dict[str, Any]:
    """Answer the calls of memory tools, and those of tools that do not exist."""
    return _packed(drive(_steps(state, runtime, collaborators), collaborators.models))


async def arun_tools(
    state: TurnState, runtime: Runtime[Settings], *, collaborators: Collaborators
) -> dict[str, Any]:
    """Do what `run_tools` does, without holding a thread while a model summarises."""
    steps = await asyncio.to_thread(_steps, state, runtime, collaborators)
    return _packed(await adrive(steps, collaborators.models))


def _steps(
    state: TurnState, runtime: Runtime[Settings], collaborators: Collaborators
) -> Asks[Done]:
    here = desk(state, runtime, collaborators)
    here = replace(here, related=lambda said: related(here.view, said, runtime, collaborators))
    others = frozenset(collaborators.tools)
    calls = waiting(here.view.running.messages, others)
    return run(here, calls, others, lambda line: runtime.stream_writer({"banner": line}))


def waiting(messages: Sequence[Message], others: Collection[str]) -> list[Mapping[str, Any]]:
    """Return the calls without a result that are run here; `others` are the application's tools."""
    left = unanswered(messages)
    return [c for c in left if c["name"] not in others or c.get("type") == "invalid_tool_call"]


def _packed(done: Done) -> dict[str, Any]:
    return {**packed(done.desk.space), "messages": real(done.results)}
