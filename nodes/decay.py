"""Collapse and evict what nobody mentioned lately, and plan what the next turn shows."""

from typing import Any

from langgraph.runtime import Runtime

from ..memory.context.changes import end_turn
from ..memory.settings import Settings
from .turn.parts import AgentParts
from .turn.state import TurnState
from .turn.tracing import spanned
from .turn.turn import running_turn
from .turn.updates import plan_update, streamed_update


@spanned
def decay(state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts) -> dict[str, Any]:
    """Collapse and evict what nobody mentioned lately, and plan what the next turn shows."""
    work = running_turn(state, runtime, parts)
    ended = end_turn(work)
    return {
        **streamed_update(work.efforts, ended.efforts, runtime),
        **plan_update(ended, work.plan),
    }
