"""What tracers are told of model calls and nodes."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from langchain_core.runnables.config import get_callback_manager_for_config
from langgraph.config import get_config
from langgraph.runtime import Runtime

from ...memory.settings import Settings, resolve
from .parts import AgentParts
from .session import session_of
from .state import TurnState, updated


def trace_metadata(state: TurnState) -> dict[str, Any]:
    """Return the metadata of model calls: the turn, and the active effort if there is one."""
    effort = state.get("active_effort")
    return {"ebbtide_turn": state.get("turn", 0)} | ({"ebbtide_effort": effort} if effort else {})


_Step = Callable[..., dict[str, Any]]


def spanned(step: _Step) -> _Step:
    """Return a node that tells tracers, in a span inside its own, what it did.

    The span's metadata have the session, the turn, the active effort, the turn's events, and which
    efforts it referenced, with kind and words.
    """

    @wraps(step)
    def run(state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts) -> dict[str, Any]:
        update, config = step(state, runtime, parts=parts), get_config()
        if not getattr(config.get("callbacks"), "handlers", True):
            return update
        after = updated(state, update)
        session = session_of(state, runtime, resolve(runtime.context, parts.settings))
        events = [*(after.get("events") or state.get("events", ()))]
        about = {
            "ebbtide_session": session.thread,
            "ebbtide_events": events,
            "ebbtide_references": [*(after.get("references") or ())],
            **trace_metadata(after),
        }
        manager = get_callback_manager_for_config(config).copy()
        manager.add_metadata(about, inherit=False)
        span = manager.on_chain_start(None, {}, name=f"{step.__name__}.events")
        span.on_chain_end({"events": events})
        return update

    return run
