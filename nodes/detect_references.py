"""Note which efforts the turn mentioned."""

from typing import Any

from langgraph.runtime import Runtime

from ..memory.references import referenced
from ..memory.settings import Settings
from .turn.parts import STEADY, AgentParts
from .turn.state import TurnState
from .turn.turn import changed, mentioned, running_turn, spanned, texts_of


@spanned
def detect_references(
    state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts
) -> dict[str, Any]:
    """Note which efforts the turn mentioned; a mentioned effort that was evicted returns."""
    work = running_turn(state, runtime, parts)
    with parts.archive.together(STEADY):
        efforts = referenced(work, parts.keywords)
        update = changed(work.state, efforts, runtime)
        texts = texts_of(efforts, work.view, state.get("texts", {}))
    return {**update, "texts": texts, "references": mentioned(efforts)}
