"""Build the working context of the next model call."""

import logging
from collections.abc import Mapping
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from ..memory.context.assemble import assemble, prefix_tokens, sent, shared
from ..memory.context.budget import below_floor, safety_factor
from ..memory.context.timeline import WorkingContext, packed
from ..memory.settings import Settings, resolve
from .turn.messages import from_dicts
from .turn.parts import STEADY, AgentParts, fixed
from .turn.state import TurnState
from .turn.values import running_turn

_log = logging.getLogger("ebbtide.tokens")


def heeded(
    state: TurnState, report: Mapping[str, Any], answer: AIMessage, model: BaseChatModel
) -> dict[str, Any]:
    """Return the update of the safety factor if the provider counted more than `report`."""
    now = state.get("safety_factor", 1.0)
    counted, usage = report["total"], dict(answer.usage_metadata or {})
    reported = usage.get("input_tokens")
    factor = safety_factor(now, counted, reported)
    if factor == now:
        return {}
    name = answer.response_metadata.get("model_name") or model.get_name()
    _log.warning(
        "%s read %s tokens where %s were counted: the thread's safety factor is %s from now on, "
        "it was %s",
        *(name, reported, counted, factor, now),
    )
    return {"safety_factor": factor, "context_report": {**report, "safety_factor": factor}}


def floored(
    state: TurnState, report: Mapping[str, Any], context_budget: int
) -> dict[str, dict[str, int]]:
    """Return a warning for the report if the safety factor takes the budget below the floor.

    It is logged once, and again when the numbers change.
    """
    factor, tokens = state.get("safety_factor", 1.0), report["tokens"]
    found = below_floor(context_budget, factor, tokens["system"] + tokens["tools"])
    if not found:
        return {}
    if found != state.get("context_report", {}).get("below_floor"):
        _log.warning(
            "context_budget %s divided by the safety factor %s is %s tokens, below the floor of "
            "%s: contexts have the floor, and the provider may read more than context_budget",
            *(context_budget, factor, found["effective"], found["floor"]),
        )
    return {"below_floor": found}


def assemble_context(
    state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts
) -> dict[str, Any]:
    """Return the working context and its report; the same state gives the same bytes."""
    context = working_context(state, runtime, parts)
    now = sent(context.messages)
    cached = prefix_tokens(context, shared(state.get("sent", ""), now), parts.count)
    budget = resolve(runtime.context, parts.settings).context_budget
    told = {"prefix": cached, "safety_factor": state.get("safety_factor", 1.0)}
    report = {**context.report, **told, **floored(state, context.report, budget)}
    return {
        "context": {"messages": from_dicts(context.messages)},
        "context_report": report,
        "view": packed(context.timeline),
        "sent": now,
    }


def working_context(
    state: TurnState, runtime: Runtime[Settings], parts: AgentParts
) -> WorkingContext:
    """Return what the next model call is sent, part by part."""
    here = running_turn(state, runtime, parts)
    with parts.archive.together(STEADY):
        return assemble(here, fixed(parts, here.settings))
