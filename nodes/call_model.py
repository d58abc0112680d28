"""Build the working context from the state and the archive, and send it to the model."""

import asyncio
from typing import Any

from langgraph.runtime import Runtime

from ..memory.settings import Settings
from .turn.model_call import Call
from .turn.parts import AgentParts
from .turn.state import TurnState


def call_model(
    state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts
) -> dict[str, Any]:
    """Return the model's answer; without rounds left, an answer in any case."""
    call = Call.prepared(state, runtime, parts)
    return call.answered([call.model.invoke(call.messages, call.config)])


async def acall_model(
    state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts
) -> dict[str, Any]:
    """Do what `call_model` does, without holding a thread while the model answers."""
    call = await asyncio.to_thread(Call.prepared, state, runtime, parts)
    return call.answered([await call.model.ainvoke(call.messages, call.config)])
