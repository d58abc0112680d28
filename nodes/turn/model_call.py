"""A call of the model, for the node and for the middleware: what is sent, and what came back."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import merge_configs, set_config_context
from langgraph.config import get_config
from langgraph.constants import TAG_NOSTREAM
from langgraph.graph.message import push_message
from langgraph.runtime import Runtime

from ...memory import banners
from ...memory.anchor import ANCHOR_TOKENS, limited, newest, rendered
from ...memory.context.budget import LEAST_ROOM, effective_budget, safety_factor
from ...memory.context.rebuild import assemble
from ...memory.context.timeline import Timeline, WorkingContext
from ...memory.efforts import EffortState, happened
from ...memory.errors import SettingsError
from ...memory.messages import speaks
from ...memory.running_turn import banners_since
from ...memory.settings import Settings, resolve
from ...memory.state_blocks import Cutter, appended, cut_content, passed
from .langchain_messages import accepted, cut_short, from_dicts, jsonable, rounds
from .parts import STEADY, AgentParts, fixed
from .state import TurnState
from .values import effort_state, packed, running, running_turn, traced

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


def prepared(state: TurnState, runtime: Runtime[Settings], parts: AgentParts) -> Call:
    """Return the next call with its working context; the same state gives the same bytes."""
    context = working_context(state, runtime, parts)
    settings = resolve(runtime.context, parts.settings)
    messages = from_dicts(context.messages)
    report = {
        **context.report,
        "prefix": context.prefix(state.get("sent", ""), parts.count),
        "safety_factor": state.get("safety_factor", 1.0),
        **_floored(state, context.report, settings.context_budget),
    }
    update = {
        "context": {"messages": messages},
        "context_report": report,
        "view": context.timeline.packed(),
        "sent": context.sent,
    }
    limit = settings.max_tool_rounds
    reached = rounds(running(state)) >= limit
    purpose = {**traced(state), "ebbtide_purpose": "answer"}
    config = _showing(settings, merge_configs(get_config(), {"metadata": purpose}))
    return Call(messages, config, limit if reached else None, update)


def working_context(
    state: TurnState, runtime: Runtime[Settings], parts: AgentParts
) -> WorkingContext:
    """Return what the next model call is sent, part by part."""
    work = running_turn(state, runtime, parts)
    with parts.archive.together(STEADY):
        return assemble(work, fixed(parts, work.settings))


def answer_update(
    state: TurnState,
    runtime: Runtime[Settings],
    call: Call,
    response: Sequence[BaseMessage],
    *,
    parts: AgentParts,
) -> dict[str, Any]:
    """Return the update for what came back: the answer, and results that came with it."""
    answer, *results = response
    if not isinstance(answer, AIMessage):
        raise TypeError(f"a model answers with an AIMessage, not {type(answer).__name__}")
    heard = heeded(state, call.update["context_report"], answer, parts.model)
    # The last archived message may have been removed: a model that repeats its id must not be it.
    taken = [state.get("archived"), *(message.id for message in state["messages"])]
    answer = accepted(answer, taken)
    shown = cast("TurnState", {**state, **call.update})
    answer, hidden = _anchored(shown, runtime, answer, parts)
    messages = [answer, *results]
    if call.limit is not None:
        messages = cut_short(messages, call.limit)
    return {**call.update, **heard, **hidden, "messages": messages}


def _anchored(
    state: TurnState, runtime: Runtime[Settings], answer: AIMessage, parts: AgentParts
) -> tuple[AIMessage, dict[str, Any]]:
    """Return the answer as users see it, and the update that keeps the rest.

    The last complete block becomes the anchor; what the model said goes on to `persist`. That an
    answer is nothing but a block is told in a banner: its message is empty.
    """
    settings = resolve(runtime.context, parts.settings)
    raw = jsonable(answer.content)
    shown = cut_content(raw)
    if settings.anchor == "off" or shown is raw:
        return answer, {}
    before = effort_state(state)
    efforts = _with_anchor(before, raw, parts)
    if not (speaks(shown) or answer.tool_calls or answer.invalid_tool_calls):
        efforts = replace(efforts, banners=(*efforts.banners, banners.WORDLESS))
    for banner in banners_since(before, efforts):
        runtime.stream_writer({"banner": banner})
    answers = {**state.get("raw_answers", {}), str(answer.id): raw}
    update = {"raw_answers": answers, **packed(efforts)}
    line = Timeline.unpacked(state.get("view"))
    if line is not None and efforts.anchor != before.anchor:
        update["view"] = line.with_anchor(before.anchor).packed()
    return answer.model_copy(update={"content": shown}), update


def _with_anchor(efforts: EffortState, raw: Any, parts: AgentParts) -> EffortState:
    """Return the state after the block that a model wrote, the same one if it says nothing."""
    fields = newest(raw)
    if fields is None:
        return efforts
    anchor = limited(fields, ANCHOR_TOKENS, parts.count)
    if list(anchor.items()) == list(efforts.anchor.items()):
        return efforts
    banner = None
    if anchor != fields:
        banner = banners.anchor_cut(parts.count(rendered(fields)), ANCHOR_TOKENS)
    return happened(efforts, {"type": "anchored", "anchor": anchor}, banner)


def _showing(settings: Settings, config: RunnableConfig) -> RunnableConfig:
    """Return the configuration of a model call whose stream shows no block.

    The one given if the model keeps no block: then it is called as any other.
    """
    if settings.anchor == "off":
        return config
    return merge_configs(config, {"tags": [TAG_NOSTREAM], "callbacks": [_Shower(config)]})


class _Shower(BaseCallbackHandler):
    """Pushes the pieces of an answer into the stream, in which it holds back the blocks.

    The run of the model is hidden from that stream by its tag. So there is one run only: usage is
    counted once, and a model that does not stream needs nothing, since its node gives the whole
    answer.
    """

    run_inline = True
    """In the thread and context of the node, so that the pieces stay in order."""

    def __init__(self, config: RunnableConfig) -> None:
        self._config = config
        self._runs: dict[UUID, tuple[Cutter, RunnableConfig]] = {}

    def on_chat_model_start(
        self, *_given: Any, run_id: UUID, metadata: Any = None, tags: Any = None, **_more: Any
    ) -> None:
        """Begin an answer, which the stream describes as it does those of other models."""
        own = [tag for tag in tags or () if tag != TAG_NOSTREAM and not tag.startswith("seq:step")]
        known = {**(metadata or {}), **({"tags": own} if own else {})}
        self._runs[run_id] = Cutter(), merge_configs(self._config, {"metadata": known})

    def on_llm_new_token(self, *_given: Any, run_id: UUID, chunk: Any = None, **_more: Any) -> None:
        """Push what can be shown of a piece; the last one brings what was held back."""
        message = getattr(chunk, "message", None)
        if not isinstance(message, AIMessageChunk):
            return
        cutter, config = self._runs[run_id]
        content = passed(cutter, message.content)
        if message.chunk_position == "last":
            content = appended(content, cutter.end())
        piece = message.model_copy(update={"content": content})
        with set_config_context(config) as context:
            context.run(push_message, piece, state_key=None)


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
    warning = {
        "effective": effective_budget(context_budget, factor),
        "floor": tokens["system"] + tokens["tools"] + LEAST_ROOM,
    }
    if warning["effective"] >= warning["floor"]:
        return {}
    if warning != state.get("context_report", {}).get("below_floor"):
        _log.warning(
            "context_budget %s divided by the safety factor %s is %s tokens, below the floor of "
            "%s: contexts have the floor, and the provider may read more than context_budget",
            *(context_budget, factor, warning["effective"], warning["floor"]),
        )
    return {"below_floor": warning}
