"""The memory as a middleware of LangChain's `create_agent`.

Its hooks call the functions of the nodes, so that a turn is the same as in the graph of `build`.
Model, tools and prompt are those of the turn's own last request for the model. They are kept until
the turn ends, under a key in the state: LangGraph has no name for a run that its nodes know.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from dataclasses import replace
from inspect import getclosurevars
from itertools import takewhile
from threading import Lock
from typing import Annotated, Any, NotRequired, Unpack, cast
from uuid import uuid4

from cachetools import LRUCache
from langchain.agents import AgentState
from langchain.agents.middleware import (
    AgentMiddleware,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    hook_config,
)
from langchain.agents.middleware.types import OmitFromInput, PrivateStateAttr, ToolCallRequest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    ToolMessage,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, Overwrite
from typing_extensions import TypedDict

from ..memory.archive.protocol import Archive
from ..memory.attention.law import Attention
from ..memory.context.budget import check_budget
from ..memory.embeddings import Embeddings
from ..memory.errors import SessionNotFoundError, SettingsError
from ..memory.messages import unanswered
from ..memory.prices import AttachmentPrice, family
from ..memory.record import Owner
from ..memory.settings import Settings, resolve
from ..memory.tokens import PricedCounter, TokenCounter, count_messages
from ..memory.tools.toolbox import NAMES, waiting
from ..nodes.application_tools import cleaned_result
from ..nodes.begin_turn import begin_turn
from ..nodes.call_model import Call
from ..nodes.compress import acompress, compress
from ..nodes.decay import decay
from ..nodes.detect_references import detect_references
from ..nodes.memory_tools import amemory_tools, memory_tools
from ..nodes.persist import persist
from ..nodes.turn.arrivals import split_messages, unarchived
from ..nodes.turn.checkpoints import agone_on_from, awith_unapplied, gone_on_from, with_unapplied
from ..nodes.turn.langchain_messages import closed, to_dicts
from ..nodes.turn.parts import STEADY, AgentParts, name_of
from ..nodes.turn.state import Bookkeeping, Memory, TurnState, merged, repacked, unpacked, updated
from ..nodes.turn.turn import is_anothers, leave, owner_of, running
from .agent import build_memory_graph, tool_parts
from .requests import (
    OverBudgetError,
    as_sent,
    changes,
    check_question,
    digests_of,
    is_summary,
    rejoined,
    with_added,
)
from .sending import (
    answer_schemas,
    at_last,
    check_added,
    config_of,
    gate_of,
    request_of,
    too_large,
    window_after,
    with_budget,
)

_probe: ContextVar[list[ModelRequest[Any]] | None] = ContextVar("ebbtide_probe", default=None)
"""Takes the request while `EbbtideMiddleware.parts` runs the model node without the model."""

_REQUESTS = 1_000
"""Turns whose last request is kept at once. Only turns that broke off are ever too many."""


class MemoryAgentState(AgentState[Any]):
    """The state of a thread beside its messages, which are the input.

    `ebbtide_request` is the key under which the middleware keeps the last request of the turn,
    `ebbtide_replaced` has messages of the running turn as other middleware replaced them,
    `ebbtide_turn` all of its messages if another middleware took some out of the state.
    """

    memory: NotRequired[Annotated[Memory, OmitFromInput, merged]]
    bookkeeping: NotRequired[Annotated[Bookkeeping, OmitFromInput, merged]]
    ebbtide_request: NotRequired[Annotated[str, PrivateStateAttr]]
    ebbtide_replaced: NotRequired[Annotated[dict[str, AnyMessage], PrivateStateAttr]]
    ebbtide_turn: NotRequired[Annotated[list[AnyMessage], PrivateStateAttr]]


class AgentOptions(TypedDict, total=False):
    """Further arguments of `EbbtideMiddleware`, as `build_memory_graph` has them."""

    summary_model: BaseChatModel | str | None
    extraction_model: BaseChatModel | str | None
    compression_model: BaseChatModel | str | None
    embeddings: Embeddings | str | None
    attention: Attention | None
    token_counter: TokenCounter | None
    attachment_price: AttachmentPrice | None


class EbbtideMiddleware(AgentMiddleware[MemoryAgentState, Any, Any]):
    """Give an agent of `create_agent` a prompt within a token budget and a lossless archive.

    Put it after middleware that changes the prompt, the tools or the model, so that the changes are
    counted, and before middleware that repeats calls (retries, fallbacks) or checks them
    (approval). Each agent needs its own instance.

    Examples:
        >>> from langchain.agents import create_agent
        >>> from ebbtide.testing import InMemoryArchive, ScriptedModel
        >>> memory = EbbtideMiddleware(archive=InMemoryArchive())
        >>> agent = create_agent(ScriptedModel(["Hello."]), middleware=[memory])
        >>> agent.invoke({"messages": "Hi"})["messages"][-1].text
        'Hello.'
    """

    state_schema = MemoryAgentState

    def __init__(
        self,
        *,
        archive: Archive | None = None,
        settings: Settings | None = None,
        **options: Unpack[AgentOptions],
    ) -> None:
        """Set up the memory.

        Args:
            archive: Where turns are kept. Default: `DiskArchive("sessions")`.
            settings: Defaults for all runs. A run can override them with its `context`.
            options: `summary_model`, `extraction_model`, `compression_model`, `embeddings`,
                `attention`, `token_counter` and `attachment_price`, as for `build_memory_graph`.
                Models default to the agent's own.
        """
        graph = build_memory_graph(UnknownModel(), archive=archive, settings=settings, **options)
        # The anchor has no model of its own: if the agent's is not known, the given one writes it.
        models = {**graph.parts.models, "anchor": graph.parts.models["summary"]}
        self._initial = replace(graph.parts, models=models)
        self._requests, self._lock = LRUCache[str, AgentParts](_REQUESTS), Lock()
        self._seen = LRUCache[str, list[BaseMessage]](_REQUESTS)

    def __repr__(self) -> str:
        """Return where the data is, and the settings that are no defaults."""
        archive, settings = self._initial.archive, self._initial.settings
        return f"{type(self).__name__}(archive={archive!r}, settings={settings!r})"

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Begin the turn.

        Raises `SessionNotFoundError` if the run goes on with what another user said.
        """
        self._check_user(gone_on_from(state), runtime)
        state = _with_ids(state)
        return self._begun(state, runtime, with_unapplied(_new(state)))

    @hook_config(can_jump_to=["end"])
    async def abefore_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Begin the turn as `before_agent` does."""
        await asyncio.to_thread(self._check_user, await agone_on_from(state), runtime)
        state = _with_ids(state)
        new = await awith_unapplied(_new(state))
        return await asyncio.to_thread(self._begun, state, runtime, new)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> AIMessage | ExtendedModelResponse[Any]:
        """Send the working context instead of the messages."""
        if (probe := _probe.get()) is not None:
            probe.append(request)
            return AIMessage("")

        def sent(call: Call) -> ExtendedModelResponse[Any]:
            given = request_of(request, call)
            gate = gate_of(request, call, given)
            with set_config_context(config_of(request, call, gate)) as context:
                response = context.run(handler, given)
            return self._answered(request, at_last(call, gate), response)

        call = self._call(request)
        try:
            return sent(call)
        except (ContextOverflowError, OverBudgetError) as error:
            less = self._call(request, window=window_after(request, call, error))
        try:
            return sent(less)
        except OverBudgetError as error:
            raise too_large(request, less, error) from None

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> AIMessage | ExtendedModelResponse[Any]:
        """Do what `wrap_model_call` does, without holding a thread while the model answers."""
        if (probe := _probe.get()) is not None:
            probe.append(request)
            return AIMessage("")

        async def sent(call: Call) -> ExtendedModelResponse[Any]:
            given = request_of(request, call)
            gate = gate_of(request, call, given)

            async def answer() -> ModelResponse[Any]:
                return await handler(given)

            with set_config_context(config_of(request, call, gate)) as context:
                response = await asyncio.create_task(answer(), context=context)
            return await asyncio.to_thread(self._answered, request, at_last(call, gate), response)

        call = await asyncio.to_thread(self._call, request)
        try:
            return await sent(call)
        except (ContextOverflowError, OverBudgetError) as error:
            window = window_after(request, call, error)
            less = await asyncio.to_thread(self._call, request, window=window)
        try:
            return await sent(less)
        except OverBudgetError as error:
            raise too_large(request, less, error) from None

    @hook_config(can_jump_to=["model"])
    def after_model(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Run the memory tools that were called, one after the other.

        The rounds that left the prompt leave `messages`. Raises `SessionNotFoundError` if another
        user resumes the turn.
        """
        self._check_user(state, runtime)
        turn_state, parts = self._memory_calls(state)
        update: dict[str, Any] = {}
        if parts is not None:
            update = memory_tools(turn_state, runtime, parts=parts)
        return self._after_model(state, runtime, turn_state, update)

    @hook_config(can_jump_to=["model"])
    async def aafter_model(
        self, state: MemoryAgentState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Do what `after_model` does, without holding a thread while a model summarises."""
        await asyncio.to_thread(self._check_user, state, runtime)
        turn_state, parts = await asyncio.to_thread(self._memory_calls, state)
        update: dict[str, Any] = {}
        if parts is not None:
            update = await amemory_tools(turn_state, runtime, parts=parts)
        return await asyncio.to_thread(self._after_model, state, runtime, turn_state, update)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[..., Any]) -> Any:
        """Run a tool, and clean its result so that it can be stored.

        Raises `SessionNotFoundError` if another user resumes the turn that called it.
        """
        self._check_user(request.state, request.runtime)
        result = cleaned_result(handler(request), request.tool_call["name"])
        if _hands_over(result):
            self._hand_over(request, result)
        return result

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[..., Awaitable[Any]]
    ) -> Any:
        """Do what `wrap_tool_call` does."""
        await asyncio.to_thread(self._check_user, request.state, request.runtime)
        result = cleaned_result(await handler(request), request.tool_call["name"])
        if _hands_over(result):
            await asyncio.to_thread(self._hand_over, request, result)
        return result

    def after_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """End the turn: references, decay, the archive, and a compression that is due."""
        new = with_unapplied(_not_begun(state))
        turn_state, update = self._committed(state, runtime, new)
        if turn_state.get("due"):
            update |= compress(turn_state, runtime, parts=self._parts(state))
        return self._ended(update, state, runtime)

    async def aafter_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Do what `after_agent` does, without holding a thread while a model compresses."""
        new = await awith_unapplied(_not_begun(state))
        turn_state, update = await asyncio.to_thread(self._committed, state, runtime, new)
        if turn_state.get("due"):
            update |= await acompress(turn_state, runtime, parts=self._parts(state))
        return await asyncio.to_thread(self._ended, update, state, runtime)

    def parts(
        self,
        agent: CompiledStateGraph[Any, Any, Any, Any],
        config: RunnableConfig,
        state: Mapping[str, Any],
        runtime: Runtime[Any],
    ) -> AgentParts:
        """Return an agent's parts as its next call has them, in a run with this config and state.

        Of the runtime context and store count. The agent's model node runs without the model, so
        that other middleware makes the request as in a run. A model that another middleware chose
        is left out: a command may have another context than the turns. Raises `SettingsError` if a
        middleware fails, or reads a context that is not given.
        """
        node: Any = agent.builder.nodes["model"].runnable
        graph = StateGraph[Any, Any, Any, Any](agent.builder.state_schema, agent.context_schema)
        graph.add_node("model", node).add_edge(START, "model")
        compiled = graph.compile(checkpointer=False, store=runtime.store)
        context = _NoContext() if runtime.context is None else runtime.context
        requests: list[ModelRequest[Any]] = []
        token = _probe.set(requests)
        try:
            _run(compiled, state, config, context)
            request = requests[-1]
        except Exception as error:  # another middleware may raise anything
            raise SettingsError(
                "what the agent sends to its model depends on the run, and another middleware "
                f"failed without one ({type(error).__name__}: {error}): pass the config and the "
                "context= that runs of the thread have"
            ) from error
        finally:
            _probe.reset(token)
        built_with = getclosurevars(node.func).nonlocals.get("model")
        return self._parts_from(request, known=request.model is built_with)

    def sized(self, state: Mapping[str, Any]) -> AgentParts:
        """Return the parts without a request: with the thread's sizes, and no model of its own.

        The last budget counts too: it may be the window of a model that is not known here.
        """
        report = unpacked(state).get("context_report", {})
        if not (tokens := report.get("tokens")):
            return self._initial
        fixed = tokens["system"], tokens["tools"]
        return replace(self._initial, fixed=fixed, window=report.get("budget"))

    def _parts(self, state: Mapping[str, Any]) -> AgentParts:
        """Return the parts of the turn's last request, without one in this process `sized`."""
        with self._lock:
            parts = self._requests.get(state.get("ebbtide_request", ""))
        return parts or self.sized(state)

    def _begun(
        self, state: MemoryAgentState, runtime: Runtime[Any], new: Sequence[BaseMessage]
    ) -> dict[str, Any]:
        """Begin the turn of the new messages."""
        state = self._whole(state)
        turn_state, own = unpacked(state), _new(state)
        if len(new) > len(own):  # an input that no run applied may be another user's
            new = own if self._owner(state, runtime)[1] else new
        turn_state = _with_new(turn_state, new)
        update = begin_turn(turn_state, runtime, parts=self.sized(state))
        begun = _after(turn_state, update)
        key = uuid4().hex
        with self._lock:
            self._seen[key] = running(begun)
        update = repacked(update, turn_state, self._settings(runtime))
        # A turn that broke off may have left its own.
        return {**update, "ebbtide_request": key, "ebbtide_replaced": {}, "ebbtide_turn": []}

    def _whole(self, state: Any) -> Any:
        """Return the state with the running turn whole, as other middleware replaced messages."""
        messages, replaced = state.get("messages", []), state.get("ebbtide_replaced") or {}
        with self._lock:
            seen = self._seen.get(state.get("ebbtide_request", ""))
        seen = state.get("ebbtide_turn") or seen
        if seen:
            messages = rejoined(messages, seen, unpacked(state).get("archived"))
        return {**state, "messages": [replaced.get(str(one.id), one) for one in messages]}

    def _owner(self, state: Mapping[str, Any], runtime: Any) -> tuple[Owner, bool]:
        """Return the session of a run, and whether the state is another user's."""
        turn_state, archive = unpacked(state), self._initial.archive
        owner = owner_of(turn_state, runtime, self._settings(runtime))
        with archive.together(STEADY):
            return owner, is_anothers(turn_state, archive, owner)

    def _check_user(self, state: Mapping[str, Any] | None, runtime: Any) -> None:
        """Raise `SessionNotFoundError` if the turn in the state is another user's."""
        if state is None:
            return
        owner, is_of_another = self._owner(state, runtime)
        if is_of_another:
            raise SessionNotFoundError(owner.thread)

    def _settings(self, runtime: Runtime[Any]) -> Settings:
        return resolve(runtime.context, self._initial.settings)

    def _ended(
        self, update: dict[str, Any], state: MemoryAgentState, runtime: Runtime[Any]
    ) -> dict[str, Any]:
        """Return the update that ends the turn, and drop its request."""
        self._drop(state)
        update = repacked(update, unpacked(state), self._settings(runtime))
        return {**update, "ebbtide_turn": []} if state.get("ebbtide_turn") else update

    def _drop(self, state: Mapping[str, Any]) -> None:
        with self._lock:
            self._requests.pop(state.get("ebbtide_request", ""), None)
            self._seen.pop(state.get("ebbtide_request", ""), None)

    def _memory_calls(self, state: MemoryAgentState) -> tuple[TurnState, AgentParts | None]:
        """Return the state, and the parts if calls of memory tools, or invalid ones, wait."""
        turn_state = unpacked(_as_edited(self._whole(state)))
        messages = to_dicts(running(turn_state))
        application_calls = {call["name"]: cast("Any", None) for call in waiting(messages, NAMES)}
        if not waiting(messages, application_calls):
            return turn_state, None
        return turn_state, replace(self._parts(state), tools=application_calls)

    def _after_model(
        self,
        state: MemoryAgentState,
        runtime: Runtime[Any],
        turn_state: TurnState,
        update: dict[str, Any],
    ) -> dict[str, Any] | None:
        """Return the update after a model call, with that of memory tools if any were called."""
        results = update.get("messages", [])
        own: dict[str, Any] = {}
        answer = next((m for m in reversed(state["messages"]) if isinstance(m, AIMessage)), None)
        if results and answer is not None and not answer.tool_calls:
            own = {"jump_to": "model"}  # LangChain would end a turn of invalid calls
        left = leave(turn_state, runtime, self._parts(state))
        if left:
            kept = {message.id for message in left["messages"]}
            messages = [message for message in state["messages"] if message.id in kept]
            update |= {"part": left["part"], "messages": Overwrite([*messages, *results])}
            own |= self._without_left(state, kept)
        if not update:
            return None
        return {**repacked(update, turn_state, self._settings(runtime)), **own}

    def _without_left(self, state: Mapping[str, Any], kept: Collection[Any]) -> dict[str, Any]:
        """Forget what left `messages`: no other middleware removed it."""
        key, replaced = state.get("ebbtide_request", ""), state.get("ebbtide_replaced") or {}
        with self._lock:
            if key in self._seen:
                self._seen[key] = [one for one in self._seen[key] if one.id in kept]
        turn = [one for one in state.get("ebbtide_turn") or () if one.id in kept]
        own = {"ebbtide_turn": turn} if state.get("ebbtide_turn") else {}
        return {**own, "ebbtide_replaced": {n: one for n, one in replaced.items() if n in kept}}

    def _call(self, request: ModelRequest[Any], window: int | None = None) -> Call:
        """Return the call of the model with its working context, within a `window` if given.

        What other middleware did to the messages of the request holds in it.
        """
        parts, runtime = self._parts_from(request), request.runtime
        raw = cast("Mapping[str, Any]", request.state)
        state = unpacked(self._whole(raw))
        _check_messages(state)
        settings = parts.settings_of(runtime.context)
        check_budget(settings, *parts.sizes(settings))
        state.pop("context", None)  # the application's own
        turn = {str(message.id): message for message in running(state)}
        done = changes(raw["messages"], request.messages)
        check_question(done.removed, _question(state))
        own = {name: message for name, message in done.replaced.items() if name in turn}
        replaced = {**(raw.get("ebbtide_replaced") or {}), **own}
        state["messages"] = [
            cast("Any", replaced.get(str(message.id), message))
            for message in state["messages"]
            if str(message.id) not in done.removed & turn.keys()
        ]
        added = count_messages(to_dicts([message for _, message in done.added]), parts.count)
        limit = settings.context_budget if window is None else window
        if added:
            check_added(added, settings, parts)
        fitting = replace(parts, window=limit - added) if added or window is not None else parts
        call = replace(Call.prepared(state, runtime, fitting), parts=parts)
        if added:
            made, known = call.messages, updated(call.state, call.update)["sent"]
            messages = with_added(made, done.added, [*turn])
            call = replace(call, messages=messages, update=with_budget(call, settings))
            call = as_sent(call, messages, digests_of(messages, made, known), added)
        if own:
            call = replace(call, update={**call.update, "ebbtide_replaced": replaced})
        return call

    def _answered(
        self, request: ModelRequest[Any], call: Call, response: ModelResponse[Any]
    ) -> ExtendedModelResponse[Any]:
        """Return the response with the update of the state."""
        ended = response.structured_response is not None
        final_call = replace(call, limit=None) if ended else call
        update = final_call.answered(response.result)
        shown = replace(response, result=update.pop("messages"))
        whole = running(unpacked(self._whole(request.state)))
        turn = [*(one for one in whole if not is_summary(one)), *shown.result]
        self._drop(cast("Any", request.state))
        key = uuid4().hex
        with self._lock:
            self._requests[key], self._seen[key] = call.parts, turn
        there = {message.id for message in request.state["messages"]}
        gone = {} if all(one.id in there for one in whole) else {"ebbtide_turn": turn}
        replaced = update.pop("ebbtide_replaced", None)
        update = repacked(update, call.state, call.settings)
        if replaced is not None:
            update["ebbtide_replaced"] = replaced
        update |= {**gone, "ebbtide_request": key}
        return ExtendedModelResponse(shown, Command(update=update))

    def _hand_over(self, request: ToolCallRequest, command: Command[Any]) -> None:
        """Commit the turn of an agent that hands over to another agent: it ends here."""
        raw = self._whole(request.state)
        given = command.update if isinstance(command.update, Mapping) else {}
        results = [
            message
            for message in given.get("messages", ())
            if getattr(message, "tool_call_id", None) == request.tool_call["id"]
        ]
        state = unpacked({**raw, "messages": [*raw["messages"], *results]})
        messages = closed(state["messages"], state.get("nonce", ""))
        state = updated(state, {"messages": messages})
        for node in (detect_references, decay, persist):
            state = _after(state, node(state, request.runtime, parts=self._parts(raw)))

    def _parts_from(self, request: ModelRequest[Any], *, known: bool = True) -> AgentParts:
        """Return the parts of the agent that sends a request; its model may not be `known`."""
        initial = self._initial
        parts = tool_parts(
            [*request.tools, *answer_schemas(request.response_format)], initial.count
        )
        parts["system"] = request.system_prompt or ""
        if known:
            own, given = request.model, initial.models.items()
            models = {what: own if isinstance(m, UnknownModel) else m for what, m in given}
            parts |= {"model": own, "models": {**models, "anchor": own}}
        if isinstance(initial.count, PricedCounter):
            parts["count"] = replace(initial.count, row=family(name_of(request.model)))
        return replace(initial, **parts)

    def _committed(
        self, state: MemoryAgentState, runtime: Runtime[Any], new: Sequence[BaseMessage]
    ) -> tuple[TurnState, dict[str, Any]]:
        """Commit the turn; return the state after it, and the update that leads to it.

        A middleware before this one may have ended the run before the turn began. A turn that
        another middleware broke off is settled when the user's next message arrives.
        """
        there, state = state["messages"], self._whole(state)
        turn_state, update = unpacked(state), cast("dict[str, Any]", {})
        parts = self._parts(state)
        if new:
            turn_state = _with_new(turn_state, new)
            update = begin_turn(turn_state, runtime, parts=parts)
            turn_state = _after(turn_state, update)
        else:
            self._check_user(state, runtime)
        if not unarchived(turn_state) or unanswered(to_dicts(running(turn_state))):
            return turn_state, update
        for node in (detect_references, decay, persist):
            step = node(turn_state, runtime, parts=parts)
            turn_state, update = _after(turn_state, step), {**update, **step}
        if state["messages"] != there:  # the state says what the archive says
            update.setdefault("messages", Overwrite(state["messages"]))
        return turn_state, update


def _after(state: TurnState, update: Mapping[str, Any]) -> TurnState:
    """Return the state after an update that may overwrite the messages."""
    messages = update.get("messages")
    whole = {"messages": messages.value} if isinstance(messages, Overwrite) else {}
    return updated(state, {**update, **whole})


def _hands_over(result: Any) -> bool:
    """Tell whether a tool leaves its agent, as the tools that hand over to another one do."""
    return isinstance(result, Command) and result.graph == Command.PARENT


def _question(state: TurnState) -> BaseMessage | None:
    """Return the running question."""
    return next((m for m in reversed(running(state)) if m.type == "human"), None)


def _not_begun(state: Mapping[str, Any]) -> list[BaseMessage]:
    """Return the new messages at the end of a run, none if it counted a turn."""
    turn_state = unpacked(state)
    is_running = turn_state.get("turn", 0) > turn_state.get("persisted", 0)
    return [] if is_running else _new(state)


def _with_ids(state: Any) -> Any:
    """Return the state with an id for each message: not every reducer gives one."""
    messages = state.get("messages", [])
    if all(message.id for message in messages):
        return state
    named = [m if m.id else m.model_copy(update={"id": str(uuid4())}) for m in messages]
    return {**state, "messages": named}


def _new(state: Mapping[str, Any]) -> list[BaseMessage]:
    return split_messages(unpacked(state)).new


def _with_new(state: TurnState, new: Sequence[BaseMessage]) -> TurnState:
    """Return the state with these messages as its new ones."""
    messages = [*state.get("messages", [])]
    known = len(messages) - len(split_messages(state).new)
    return updated(state, {"messages": [*messages[:known], *new]})


class UnknownModel(BaseChatModel):
    """Stands for the agent's model where no request for it is known."""

    @property
    def _llm_type(self) -> str:
        return "unknown"

    def _generate(self, *_given: Any, **_more: Any) -> Any:
        raise self.error

    @property
    def error(self) -> SettingsError:
        """The error of whoever needs the model."""
        return SettingsError(
            "which model the agent has depends on its request, and none is known here: give "
            "EbbtideMiddleware a summary_model=, an extraction_model= and a compression_model="
        )


class _NoContext:
    """Stands for a context that a command was not given, so that no other is made up for it."""

    def __getattr__(self, name: str) -> Any:
        raise SettingsError(f"the command was given no context with {name!r}")

    __getitem__ = __getattr__


def _run(
    graph: CompiledStateGraph[Any, Any, Any, Any], state: Any, config: RunnableConfig, context: Any
) -> None:
    """Run a graph, in its asynchronous form if another middleware has no other."""
    try:
        graph.invoke(state, config, context=context)
    except NotImplementedError:
        run = graph.ainvoke(state, config, context=context)
        with ThreadPoolExecutor(1) as executor:  # this thread may have an event loop that runs
            executor.submit(copy_context().run, asyncio.run, run).result()


def _as_edited(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the state with calls as a person edited them; the state has the model's."""
    edited = state.get("hitl_edited_tool_calls")  # LangChain's approval stores edits by call id
    if not edited:
        return state
    messages = [*state["messages"]]
    for at, message in enumerate(messages):
        if isinstance(message, AIMessage):
            calls = [{**call, **edited.get(call["id"], {})} for call in message.tool_calls]
            messages[at] = message.model_copy(update={"tool_calls": calls})
    return {**state, "messages": messages}


def _check_messages(state: TurnState) -> None:
    """Raise `SettingsError` if another middleware removed the question or refused a call late."""
    messages = state["messages"]
    questions = [name for name, turn in state.get("asked", {}).items() if turn == state.get("turn")]
    if questions and questions[-1] not in {str(message.id) for message in messages}:
        raise SettingsError(
            "another middleware took away what the user said in this turn: leave out what "
            "summarises or trims messages, as SummarizationMiddleware does"
        )
    results = takewhile(lambda message: isinstance(message, ToolMessage), reversed(messages))
    ours = [m.tool_call_id for m in results if isinstance(m, ToolMessage) and m.name in NAMES]
    if len({*ours}) < len(ours):
        raise SettingsError(
            "a call of a memory tool was refused after it had been run: in middleware=[...] put "
            "EbbtideMiddleware before what decides about its tools"
        )
