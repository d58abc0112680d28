"""Collapse and evict what nobody mentioned lately, and plan what the next turn shows."""

from typing import Any

from langgraph.runtime import Runtime

from ..memory.context.changes import end_turn
from ..memory.settings import Settings
from .turn.parts import STEADY, AgentParts
from .turn.state import TurnState
from .turn.turn import changed, planned, running_turn, spanned


@spanned
def decay(state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts) -> dict[str, Any]:
    """Collapse and evict what nobody mentioned lately, and plan what the next turn shows."""
    work = running_turn(state, runtime, parts)
    with parts.archive.together(STEADY):
        ended = end_turn(work)
        return {**changed(work.state, ended.state, runtime), **planned(ended, work.plan)}
