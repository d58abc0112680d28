"""Assemble the prompt of the next model call within the budget."""

from dataclasses import replace
from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ..memory.banners import banner_of
from ..memory.context.attached import with_unsent
from ..memory.context.changes import before_first_call
from ..memory.context.fit import WorkingContext, assemble
from ..memory.running_turn import Turn
from ..memory.settings import Settings
from .turn.langchain_messages import completed, copied
from .turn.parts import AgentParts
from .turn.state import TurnState, updated
from .turn.turn import archive_left_rounds, running, running_turn
from .turn.updates import plan_update, streamed_update


def assemble_context(
    state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts
) -> dict[str, Any]:
    """Assemble the prompt of the next model call within the budget.

    The rounds that left it leave `messages` too.
    """
    update, work = assembled(state, runtime, parts)
    left = archive_left_rounds(updated(state, update), runtime, parts, work)
    if left:
        left["messages"] = Overwrite(left["messages"])
    return {**update, **left}


def assembled(
    state: TurnState, runtime: Runtime[Settings], parts: AgentParts
) -> tuple[dict[str, Any], Turn]:
    """Return the update with the prompt of the next model call, and the turn with its plan."""
    work = running_turn(state, runtime, parts)
    lost = _without_lost(work, state, runtime) if state.get("round") else {}
    if lost:
        state = updated(state, lost)
        work = running_turn(state, runtime, parts)
    before = work.plan
    work = before_first_call(work)
    context = assemble(work, parts.opening(work.run.settings))
    efforts = with_unsent(work, context.plan)
    unseen, earlier = work.application.left_out, state.get("context_report", {}).get("left_out", {})
    lines = list[str]()
    if unseen and len(unseen) != earlier.get("application"):
        lines.append(banner_of("application_left_out", turns=len(unseen), efforts=unseen[::-1]))
    for name, left in context.left_out.get("quotes", {}).items():
        if left != earlier.get("quotes", {}).get(name):
            lines.append(banner_of("left_out", effort=name, quotes=left))
    if lines:
        efforts = replace(efforts, banners=(*efforts.banners, *lines))
    shown = copied(context.messages)
    messages = completed(parts.archive, work.view.session, shown, state["messages"])
    told = streamed_update(work.efforts, efforts, runtime) if efforts != work.efforts else {}
    after = replace(work, plan=context.plan)
    update = {
        **lost,
        **({"banners": told["banners"]} if told else {}),
        "context": {"messages": messages, "steady": context.steady(state.get("sent", ""))},
        "context_report": {
            **context.report,
            "prefix": context.prefix(state.get("sent", ""), parts.count),
        },
        **plan_update(after, before),
        "sent": context.sent,
    }
    return update, after


def _without_lost(work: Turn, state: TurnState, runtime: Runtime[Settings]) -> dict[str, Any]:
    """Return the update of a turn whose rounds that left it are not in the archive any more.

    What the plan says of its rounds counted from them.
    """
    if len(work.view.running.messages) > len(running(state)):
        return {}
    told = replace(work.efforts, banners=(*work.efforts.banners, banner_of("lost_rounds")))
    banners = streamed_update(work.efforts, told, runtime)["banners"]
    return {"round": "", "plan": None, "banners": banners}


def working_context(
    state: TurnState, runtime: Runtime[Settings], parts: AgentParts
) -> WorkingContext:
    """Return the prompt part by part; an equal state gives equal bytes."""
    work = running_turn(state, runtime, parts)
    return assemble(before_first_call(work), parts.opening(work.run.settings))
