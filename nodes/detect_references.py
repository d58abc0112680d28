"""Mark the efforts that this turn mentioned."""

from typing import Any

from langgraph.runtime import Runtime

from ..memory.desk import banners_since
from ..memory.references import referenced
from ..memory.settings import Settings
from .turn.parts import Collaborators
from .turn.state import TurnState
from .turn.values import desk, packed


def detect_references(
    state: TurnState, runtime: Runtime[Settings], *, collaborators: Collaborators
) -> dict[str, Any]:
    """Renew the counters of the efforts that were mentioned; evicted ones return."""
    here = desk(state, runtime, collaborators)
    with collaborators.archive.together():
        space = referenced(here, collaborators.keywords)
    for banner in banners_since(here.space, space):
        runtime.stream_writer({"banner": banner})
    return packed(space)
