"""Send the working context to the model."""

import asyncio
from typing import Any

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.runtime import Runtime

from ..memory.settings import Settings, resolve
from .anchoring import anchored
from .answers import accepted, cut_short, rounds
from .assemble_context import assemble_context
from .binding import bound
from .collaborators import Collaborators
from .session import running
from .showing import showing
from .state import TurnState
from .usage import heeded


def call_model(
    state: TurnState, runtime: Runtime[Settings], *, collaborators: Collaborators
) -> dict[str, Any]:
    """Return the model's answer; without rounds left, an answer in any case."""
    update: dict[str, Any] = {}
    if "context" not in state:
        update = assemble_context(state, runtime, collaborators=collaborators)
    context = update.get("context") or state["context"]
    model, limit, config = _model(state, runtime, collaborators)
    answer = model.invoke(context["messages"], config)
    update |= _heeded(state, update, answer, collaborators)
    answer, kept = _accepted(state, runtime, answer, collaborators)
    return {**update, **kept, "messages": _answers(answer, limit)}


async def acall_model(
    state: TurnState, runtime: Runtime[Settings], *, collaborators: Collaborators
) -> dict[str, Any]:
    """Do what `call_model` does, without holding a thread while the model answers."""
    update: dict[str, Any] = {}
    if "context" not in state:
        update = await asyncio.to_thread(
            assemble_context, state, runtime, collaborators=collaborators
        )
    context = update.get("context") or state["context"]
    model, limit, config = _model(state, runtime, collaborators)
    answer = await model.ainvoke(context["messages"], config)
    update |= _heeded(state, update, answer, collaborators)
    answer, kept = _accepted(state, runtime, answer, collaborators)
    return {**update, **kept, "messages": _answers(answer, limit)}


def _model(
    state: TurnState, runtime: Runtime[Settings], collaborators: Collaborators
) -> tuple[Runnable[LanguageModelInput, AIMessage], int | None, RunnableConfig | None]:
    """Return the model with its tools, the limit of rounds if it is reached, how to call it."""
    settings = resolve(runtime.context, collaborators.settings)
    limit = settings.max_tool_rounds
    last = rounds(running(state)) >= limit
    return bound(collaborators, last=last), limit if last else None, showing(settings)


def _heeded(
    state: TurnState, update: dict[str, Any], answer: AIMessage, collaborators: Collaborators
) -> dict[str, Any]:
    report = update.get("context_report") or state["context_report"]
    return heeded(state, report, answer, collaborators.model)


def _accepted(
    state: TurnState, runtime: Runtime[Settings], answer: AIMessage, collaborators: Collaborators
) -> tuple[AIMessage, dict[str, Any]]:
    """Return the answer as it is kept in `messages`, and the update of what else it says."""
    message = accepted(answer, [message.id for message in state["messages"]])
    return anchored(state, runtime, message, collaborators=collaborators)


def _answers(answer: AIMessage, limit: int | None) -> list[BaseMessage]:
    return [answer] if limit is None else cut_short(answer, limit)
