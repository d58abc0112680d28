"""Mark the efforts that this turn mentioned."""

from typing import Any

from langgraph.runtime import Runtime

from ..memory.references import referenced
from ..memory.running_turn import banners_since
from ..memory.settings import Settings
from .turn.parts import AgentParts
from .turn.state import TurnState
from .turn.values import packed, running_turn


def detect_references(
    state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts
) -> dict[str, Any]:
    """Renew the counters of the efforts that were mentioned; evicted ones return."""
    here = running_turn(state, runtime, parts)
    with parts.archive.together():
        space = referenced(here, parts.keywords)
    for banner in banners_since(here.space, space):
        runtime.stream_writer({"banner": banner})
    return packed(space)
