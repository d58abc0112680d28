"""Build the working context of the next model call."""

from typing import Any

from langgraph.runtime import Runtime

from ..memory.context.assemble import assemble, prefix_tokens, sent, shared
from ..memory.context.timeline import WorkingContext, packed
from ..memory.settings import Settings, resolve
from .collaborators import Collaborators, fixed
from .plain import real
from .session import desk
from .state import TurnState
from .usage import floored


def assemble_context(
    state: TurnState, runtime: Runtime[Settings], *, collaborators: Collaborators
) -> dict[str, Any]:
    """Return the working context of this moment, and its report; the same state, the same bytes."""
    context = working_context(state, runtime, collaborators)
    now = sent(context.messages)
    cached = prefix_tokens(context, shared(state.get("sent", ""), now), collaborators.count)
    budget = resolve(runtime.context, collaborators.settings).context_budget
    told = {"prefix": cached, "safety_factor": state.get("safety_factor", 1.0)}
    report = {**context.report, **told, **floored(state, context.report, budget)}
    return {
        "context": {"messages": real(context.messages)},
        "context_report": report,
        "view": packed(context.timeline),
        "sent": now,
    }


def working_context(
    state: TurnState, runtime: Runtime[Settings], collaborators: Collaborators
) -> WorkingContext:
    """Return what the next model call is sent, part by part."""
    here = desk(state, runtime, collaborators)
    with collaborators.archive.together():
        return assemble(here, fixed(collaborators, here.settings))
