"""Build the working context from the state and the archive, and send it to the model."""

import asyncio
from typing import Any

from langgraph.runtime import Runtime

from ..memory.settings import Settings
from .turn.model_call import answer_update, bound, prepared
from .turn.parts import AgentParts
from .turn.state import TurnState


def call_model(
    state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts
) -> dict[str, Any]:
    """Return the model's answer; without rounds left, an answer in any case."""
    call = prepared(state, runtime, parts)
    model = bound(parts, last=call.limit is not None)
    answer = model.invoke(call.messages, call.config)
    return answer_update(state, runtime, call, [answer], parts=parts)


async def acall_model(
    state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts
) -> dict[str, Any]:
    """Do what `call_model` does, without holding a thread while the model answers."""
    call = await asyncio.to_thread(prepared, state, runtime, parts)
    model = bound(parts, last=call.limit is not None)
    answer = await model.ainvoke(call.messages, call.config)
    return answer_update(state, runtime, call, [answer], parts=parts)
