"""Note which efforts the turn mentioned."""

from typing import Any

from langgraph.runtime import Runtime

from ..memory.references import referenced
from ..memory.settings import Settings
from .turn.parts import AgentParts
from .turn.state import TurnState
from .turn.tracing import spanned
from .turn.turn import running_turn
from .turn.updates import references_of, streamed_update, with_texts


@spanned
def detect_references(
    state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts
) -> dict[str, Any]:
    """Note which efforts the turn mentioned; a mentioned effort that was evicted returns."""
    work = running_turn(state, runtime, parts)
    efforts = referenced(work, parts.keywords)
    update = streamed_update(work.efforts, with_texts(efforts, work.view), runtime)
    return {**update, "references": references_of(efforts)}
