"""Collapse what faded, and evict old summaries."""

from typing import Any

from langgraph.runtime import Runtime

from ..memory.decay import decayed
from ..memory.running_turn import banners_since
from ..memory.settings import Settings, resolve
from .turn.parts import AgentParts
from .turn.state import TurnState
from .turn.values import packed, workspace


def decay(state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts) -> dict[str, Any]:
    """Take out of the context what nobody referenced for long enough."""
    before = workspace(state)
    space = decayed(before, resolve(runtime.context, parts.settings))
    for banner in banners_since(before, space):
        runtime.stream_writer({"banner": banner})
    return packed(space)
