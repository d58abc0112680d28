"""Collapse expanded efforts and evict summaries that nobody mentioned lately."""

from typing import Any

from langgraph.runtime import Runtime

from ..memory.settings import Settings
from .turn.parts import AgentParts
from .turn.state import TurnState
from .turn.values import changed, running_turn


def decay(state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts) -> dict[str, Any]:
    """Collapse expanded efforts and evict summaries that nobody mentioned lately."""
    work = running_turn(state, runtime, parts)
    return changed(work.state, work.state.decayed(work.settings), runtime)
