"""Build the working context from the state and the archive, and send it to the model."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.config import get_config
from langgraph.runtime import Runtime

from ..memory.context.assemble import assemble, prefix_tokens, sent, shared
from ..memory.context.budget import below_floor, safety_factor
from ..memory.context.timeline import WorkingContext, packed
from ..memory.errors import SettingsError
from ..memory.settings import Settings, resolve
from .turn.hidden_blocks import anchored, showing
from .turn.langchain_messages import accepted, cut_short, from_dicts, rounds
from .turn.parts import STEADY, AgentParts, fixed
from .turn.state import TurnState
from .turn.values import running, running_turn, traced

_log = logging.getLogger("ebbtide.tokens")

_NO_CALLS: dict[str, Any] = {"anthropic-chat": {"type": "none"}}
"""How a provider is told not to call tools, by LangChain's model type; "none" for all others."""


def bound(parts: AgentParts, *, last: bool) -> Runnable[LanguageModelInput, AIMessage]:
    """Return the model with all tools; in the `last` call of a turn it may not call them.

    The tools stay bound then too: providers refuse a history with calls but without tools.
    """
    model, tools = taking_tools(parts.model), list(parts.schemas)
    if not last:
        return model.bind_tools(tools)
    return model.bind_tools(tools, tool_choice=no_calls(model))


def taking_tools(model: BaseChatModel) -> BaseChatModel:
    """Return a model; raises `SettingsError` if it takes no tools, such as LangChain's fakes."""
    known = getattr(type(model), "bind_tools", BaseChatModel.bind_tools)
    if known is BaseChatModel.bind_tools:
        raise SettingsError(
            f"{type(model).__name__} takes no tools, which the memory needs: pass a chat model "
            "with bind_tools, and not what with_retry() or with_fallbacks() make of it"
        )
    return model


def no_calls(model: BaseChatModel) -> Any:
    """Return the `tool_choice` that tells a model not to call tools."""
    return _NO_CALLS.get(model._llm_type, "none")  # noqa: SLF001 (LangChain's name for the kind)


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the model: the prompt, how it is called, and what it changes in the state.

    `limit` is the limit of rounds of tools if it is reached: then no tool may be called.
    """

    messages: list[BaseMessage]
    config: RunnableConfig
    limit: int | None
    update: dict[str, Any]


def call_model(
    state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts
) -> dict[str, Any]:
    """Return the model's answer; without rounds left, an answer in any case."""
    call = prepared(state, runtime, parts)
    model = bound(parts, last=call.limit is not None)
    answer = model.invoke(call.messages, call.config)
    return answer_update(state, runtime, call, [answer], parts=parts)


async def acall_model(
    state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts
) -> dict[str, Any]:
    """Do what `call_model` does, without holding a thread while the model answers."""
    call = await asyncio.to_thread(prepared, state, runtime, parts)
    model = bound(parts, last=call.limit is not None)
    answer = await model.ainvoke(call.messages, call.config)
    return answer_update(state, runtime, call, [answer], parts=parts)


def prepared(state: TurnState, runtime: Runtime[Settings], parts: AgentParts) -> Call:
    """Return the next call with its working context; the same state gives the same bytes."""
    context = working_context(state, runtime, parts)
    now = sent(context.messages)
    cached = prefix_tokens(context, shared(state.get("sent", ""), now), parts.count)
    settings = resolve(runtime.context, parts.settings)
    told = {"prefix": cached, "safety_factor": state.get("safety_factor", 1.0)}
    below = _floored(state, context.report, settings.context_budget)
    messages = from_dicts(context.messages)
    update = {
        "context": {"messages": messages},
        "context_report": {**context.report, **told, **below},
        "view": packed(context.timeline),
        "sent": now,
    }
    limit = settings.max_tool_rounds
    reached = rounds(running(state)) >= limit
    purpose = {**traced(state), "ebbtide_purpose": "answer"}
    config = showing(settings, merge_configs(get_config(), {"metadata": purpose}))
    return Call(messages, config, limit if reached else None, update)


def working_context(
    state: TurnState, runtime: Runtime[Settings], parts: AgentParts
) -> WorkingContext:
    """Return what the next model call is sent, part by part."""
    here = running_turn(state, runtime, parts)
    with parts.archive.together(STEADY):
        return assemble(here, fixed(parts, here.settings))


def answer_update(
    state: TurnState,
    runtime: Runtime[Settings],
    call: Call,
    said: Sequence[BaseMessage],
    *,
    parts: AgentParts,
) -> dict[str, Any]:
    """Return the update for what came back: the answer, and results that came with it."""
    answer, *results = said
    report = call.update["context_report"]
    if not isinstance(answer, AIMessage):
        raise TypeError(f"a model answers with an AIMessage, not {type(answer).__name__}")
    heard = heeded(state, report, answer, parts.model)
    answer = accepted(answer, [message.id for message in state["messages"]])
    answer, beside = anchored(state, runtime, answer, parts=parts)
    messages = [answer, *results]
    kept = messages if call.limit is None else cut_short(messages, call.limit)
    return {**call.update, **heard, **beside, "messages": kept}


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


def _floored(
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
