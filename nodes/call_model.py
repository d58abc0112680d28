"""Send the assembled context to the model, and take its answer; the middleware does so too."""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any
from uuid import UUID, uuid4

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import merge_configs, set_config_context
from langgraph.config import get_config
from langgraph.constants import TAG_NOSTREAM
from langgraph.graph.message import push_message
from langgraph.runtime import Runtime

from ..memory.banners import banner_of
from ..memory.context.budget import LEAST_ROOM
from ..memory.context.plan import keeping_anchor
from ..memory.efforts import Efforts, happened
from ..memory.errors import SettingsError
from ..memory.history import id_digest
from ..memory.messages import calls, speaks
from ..memory.serialised import fingerprint, stored_form
from ..memory.settings import Settings
from ..memory.state_block import (
    ANCHOR_TOKENS,
    CALLS_KEY,
    METADATA_KEY,
    Cutter,
    cut_content,
    limited,
    newest,
    rendered_fields,
)
from ..memory.tokens import TokenCounter
from ..memory.tool_names import MEMORY_TOOLS
from ..prompts.loader import render
from .assemble_context import assembled
from .turn.caching import BREAKPOINT, KEY, caches_on_request, with_breakpoint
from .turn.langchain_messages import accepted, closed, with_call_ids
from .turn.parts import AgentParts, base_of, takes_tools, unwrapped
from .turn.state import TurnState, efforts_of, updated
from .turn.tracing import trace_metadata
from .turn.turn import running_turn
from .turn.updates import efforts_update

CUT = 0.8
"""Share of a context that is sent once more if it was too long.

Providers count up to a fifth more than the tokenizer that the budget is counted with.
"""

_log = logging.getLogger("ebbtide.context")

_NO_CALLS: dict[str, Any] = {"anthropic-chat": {"type": "none"}}
"""The `tool_choice` that forbids calls, by LangChain's model type; "none" for all others."""


def call_model(
    state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts
) -> dict[str, Any]:
    """Send the assembled context to the model; at the limit of tool rounds it may call no tool."""
    call = Call.prepared(state, runtime, parts)
    try:
        model, messages = call.request
        answer = model.invoke(messages, call.config)
    except ContextOverflowError:
        call = call.cut()
        model, messages = call.request
        with call.noting_refusal():
            answer = model.invoke(messages, call.config)
    return call.answered([answer])


async def acall_model(
    state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts
) -> dict[str, Any]:
    """Do what `call_model` does, without blocking a thread while the model answers."""
    call = await asyncio.to_thread(Call.prepared, state, runtime, parts)
    try:
        model, messages = call.request
        answer = await model.ainvoke(messages, call.config)
    except ContextOverflowError:
        call = await asyncio.to_thread(call.cut)
        model, messages = call.request
        with call.noting_refusal():
            answer = await model.ainvoke(messages, call.config)
    return call.answered([answer])


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the model: its prompt and config, and the update of the state.

    `steady` is the place of the last message that a rebuild of the prompt leaves as it is.
    `limit` is the limit of tool rounds if the turn has reached it, so that no tool may be called;
    else None.
    """

    state: TurnState
    runtime: Runtime[Settings]
    parts: AgentParts
    settings: Settings
    messages: list[BaseMessage]
    config: RunnableConfig
    limit: int | None
    update: dict[str, Any]
    steady: int = -1

    @classmethod
    def prepared(cls, state: TurnState, runtime: Runtime[Settings], parts: AgentParts) -> "Call":
        """Return the next call; a run that was resumed here assembles its context again."""
        update: dict[str, Any] = {}
        if (context := state.get("context")) is None:  # it is not checkpointed
            update, work = assembled(state, runtime, parts)
            context = update.pop("context")
            update = {} if update["sent"] == state.get("sent") else update
        else:
            work = running_turn(state, runtime, parts)
        settings = work.run.settings
        if refused := parts.limit_of(runtime, state):
            update["limit"] = refused
        limit, said = settings.max_tool_rounds, work.view.running.messages
        if limit is not None and sum(bool(calls(one)) for one in said) < limit:
            limit = None
        config = get_config()
        purpose = {**trace_metadata(state), "ebbtide_purpose": "answer"}
        added: RunnableConfig = {"metadata": purpose}
        if settings.anchor != "off":  # the stream must not show the blocks of an anchor
            added |= {"tags": [TAG_NOSTREAM], "callbacks": [_BlockFilter(config)]}
        config = merge_configs(config, added)
        return cls(
            *(state, runtime, parts, settings, context["messages"], config, limit, update),
            steady=context.get("steady", -1),
        )

    def cut(self) -> "Call":
        """Return the call with less in its context, after the provider said that it is too long."""
        self.note_refusal()
        state = updated(self.state, self.update)
        state.pop("context", None)
        return Call.prepared(state, self.runtime, self.parts)

    def note_refusal(self) -> None:
        """Remember that this thread's contexts must be smaller; instructions must still fit."""
        total = updated(self.state, self.update)["context_report"]["total"]
        tokens = max(int(CUT * total), sum(self.parts.sizes(self.settings)) + LEAST_ROOM)
        _log.warning("the provider refused a context of %d tokens: cut to %d", total, tokens)
        self.parts.limit(self.runtime, self.state, tokens)

    @contextmanager
    def noting_refusal(self) -> Iterator[None]:
        """Note a refusal for the next run: this one fails with it."""
        try:
            yield
        except ContextOverflowError:
            self.note_refusal()
            raise

    @property
    def tool_choice(self) -> Any:
        """The `tool_choice` that forbids calls if the limit of rounds is reached, else None."""
        if self.limit is None:
            return None
        kind = base_of(self.parts.model)._llm_type  # noqa: SLF001 (LangChain's name for the kind)
        return _NO_CALLS.get(kind, "none")

    @property
    def request(self) -> tuple[Runnable[LanguageModelInput, AIMessage], list[BaseMessage]]:
        """The model with all tools, and the messages.

        Providers refuse a history that has calls without them.
        """
        if not takes_tools(self.parts.model):
            raise SettingsError(
                f"{type(self.parts.model).__name__} does not take tools, which the memory "
                "needs: pass the chat model itself, not the result of with_retry()"
            )
        model, given, config = unwrapped(self.parts.model, self.config)
        messages = self.messages
        if caches_on_request(model, given, *self.parts.schemas, *messages):
            given[KEY], messages = BREAKPOINT, with_breakpoint(messages, self.steady)
        if self.limit is not None:
            given["tool_choice"] = self.tool_choice
        bound: Runnable[LanguageModelInput, AIMessage]
        bound = model.bind_tools(list(self.parts.schemas), **given)
        return (bound.with_config(config) if config else bound), messages

    def answered(self, response: Sequence[BaseMessage]) -> dict[str, Any]:
        """Return the update for the model's response: the answer, and results that came with it."""
        answer, *results = response
        if not isinstance(answer, AIMessage):
            kind = type(self.parts.model).__name__
            raise SettingsError(
                f"{kind} returned a {type(answer).__name__} instead of an AIMessage: pass a chat "
                "model"
            )
        state = self.state
        # Cached models repeat ids, and a repeated one would overwrite the earlier message. That may
        # have been removed: an answer with its id would be taken for it.
        used_ids = {None, *map(attrgetter("id"), state["messages"])}
        known = {own for own, *_ in state.get("known", ())}
        if answer.id in used_ids or id_digest(answer.id) in known:
            answer = answer.model_copy(update={"id": str(uuid4())})
        answer, hidden = self._anchored(with_call_ids(accepted(answer)))
        answer = _noted(answer, **self._report)
        if own := _memory_call_ids(answer.tool_calls):  # a chat UI leaves them out
            metadata = {**answer.response_metadata, CALLS_KEY: own}
            answer = answer.model_copy(update={"response_metadata": metadata})
        messages = [answer, *results]
        if self.limit:
            line = banner_of("rounds", limit=self.limit)
            self.runtime.stream_writer({"banner": line})
            told = updated(self.state, {**self.update, **hidden}).get("banners", ())
            hidden |= {"banners": [*told, line]}
        if self.limit is not None and _is_calling(answer):
            reason = render("too_many_rounds", limit=self.limit)
            errors = closed(messages, state.get("nonce", ""), reason)
            words = AIMessage(render("no_answer", limit=self.limit), id=str(uuid4()))
            messages = [*errors, words]
        return {**self.update, **hidden, "messages": messages}

    @property
    def _report(self) -> dict[str, Any]:
        """What was sent, from which it can be made again, and a digest of it.

        The plan is without the text of a state block, which is read from the turn it was made in,
        and with a digest of the application's to-dos.
        """
        state = updated(self.state, self.update)
        plan = dict(state.get("plan") or {})
        if "todos" in plan:
            plan["todos"] = fingerprint(plan["todos"])
        if "anchor" in plan:
            plan["anchor"] = {}
        return {
            **state.get("context_report", {}),
            "digest": fingerprint([state.get("sent", "")]),
            "thresholds": {
                "decay_threshold": self.settings.decay_threshold,
                "summary_eviction_threshold": self.settings.summary_eviction_threshold,
            },
            "plan": plan,
            "after_events": len(state.get("events", ())),
        }

    def _anchored(self, answer: AIMessage) -> tuple[AIMessage, dict[str, Any]]:
        """Return the answer as users see it, and the update with its state block.

        An answer that is nothing but a block leaves an empty message, which a banner explains.
        """
        state = updated(self.state, self.update)
        raw: Any = answer.content
        if not isinstance(raw, str):
            raw = stored_form([answer])[0].content
        content = cut_content(raw)
        if self.settings.anchor == "off" or content is raw:
            return answer, {}
        before = efforts_of(state)
        efforts = _with_anchor(before, raw, self.parts.count)
        if not (speaks(content) or _is_calling(answer)):
            efforts = replace(efforts, banners=(*efforts.banners, banner_of("wordless")))
        for banner in efforts.banners_since(before):
            self.runtime.stream_writer({"banner": banner})
        update = efforts_update(efforts)
        if (plan := state.get("plan")) and efforts.anchor != before.anchor:
            update["plan"] = keeping_anchor(plan, before.anchor)
        return _noted(answer.model_copy(update={"content": content}), raw=raw), update


def _noted(answer: AIMessage, **own: Any) -> AIMessage:
    metadata = answer.response_metadata
    noted = {**metadata, METADATA_KEY: {**metadata.get(METADATA_KEY, {}), **own}}
    return answer.model_copy(update={"response_metadata": noted})


def _memory_call_ids(called: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the ids of calls of memory tools; of a streamed call one piece has name and id."""
    return [call["id"] for call in called if call["name"] in MEMORY_TOOLS and call["id"]]


def _with_anchor(efforts: Efforts, raw: Any, count: TokenCounter) -> Efforts:
    """Return the state with the anchor of a model's block, the same state if the anchor is old."""
    fields = newest(raw)
    if fields is None:
        return efforts
    anchor = limited(fields, ANCHOR_TOKENS, count)
    if [*anchor.items()] == [*efforts.anchor.items()]:  # the order of its fields is shown too
        return efforts
    banner = None
    if anchor != fields:
        banner = banner_of("anchor_cut", tokens=count(rendered_fields(fields)), limit=ANCHOR_TOKENS)
    return happened(efforts, {"type": "anchored", "anchor": anchor}, banner)


def _is_calling(message: BaseMessage) -> bool:
    return isinstance(message, AIMessage) and bool(message.tool_calls or message.invalid_tool_calls)


class _BlockFilter(BaseCallbackHandler):
    """Pushes the pieces of an answer into the stream, without its state blocks.

    A tag hides the model's own run from the stream, so that the answer and its usage are streamed
    once. A model that does not stream needs no filter: its node gives the whole answer.
    """

    run_inline = True
    """Runs in the thread and context of the node, so that the pieces stay in order."""

    def __init__(self, config: RunnableConfig) -> None:
        self._config = config
        self._runs: dict[UUID, tuple[Cutter, RunnableConfig]] = {}

    def on_chat_model_start(
        self, *_args: Any, run_id: UUID, metadata: Any = None, tags: Any = None, **_: Any
    ) -> None:
        """Begin an answer with the metadata that the stream has for other models' answers."""
        own = [tag for tag in tags or () if tag != TAG_NOSTREAM and not tag.startswith("seq:step")]
        metadata = {**(metadata or {}), **({"tags": own} if own else {})}
        metadata = {**self._config.get("metadata", {}), **metadata}
        self._runs[run_id] = Cutter(), {**self._config, "metadata": metadata}

    def on_llm_new_token(self, *_args: Any, run_id: UUID, chunk: Any = None, **_: Any) -> None:
        """Push a piece without blocks; the last piece brings text that was held back."""
        message = getattr(chunk, "message", None)
        if not isinstance(message, AIMessageChunk):
            return
        cutter, config = self._runs[run_id]
        content = cutter.cut(message.content, last=message.chunk_position == "last")
        update: dict[str, Any] = {"content": content}
        if own := _memory_call_ids(message.tool_call_chunks):
            update["response_metadata"] = {**message.response_metadata, CALLS_KEY: own}
        piece = message.model_copy(update=update)
        with set_config_context(config) as context:
            context.run(push_message, piece, state_key=None)
