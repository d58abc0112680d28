"""The memory as a middleware of LangChain's `create_agent`.

Its hooks call the functions of the nodes, so that a turn is the same as in the graph of `build`.
Model, tools and prompt are those of the turn's own last request for the model.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from cachetools import LRUCache
from langchain.agents.middleware import (
    AgentMiddleware,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    hook_config,
)
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.embeddings import Embeddings
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, RemoveMessage
from langchain_core.runnables.config import set_config_context
from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.types import Command, Overwrite

from ..memory.archive.protocol import Archive
from ..memory.attention.law import Attention
from ..memory.blocks import AttachmentPrice
from ..memory.context.budget import LEAST_ROOM
from ..memory.errors import SessionNotFoundError, SettingsError
from ..memory.locks import CACHES
from ..memory.messages import answered, unanswered
from ..memory.settings import Settings, resolve
from ..memory.tokens import TokenCounter
from ..memory.tool_names import MEMORY_TOOLS
from ..memory.tools.toolbox import waiting
from ..memory.turn import Tip
from ..nodes.application_tools import as_given, hands_over, without_memory_calls
from ..nodes.begin_turn import begin_turn
from ..nodes.call_model import Call
from ..nodes.compress import acompress, compress
from ..nodes.decay import decay
from ..nodes.detect_references import detect_references
from ..nodes.memory_tools import amemory_tools, memory_tools
from ..nodes.persist import persist
from ..nodes.turn.arrivals import new_messages, unarchived
from ..nodes.turn.langchain_messages import messages_in_state
from ..nodes.turn.parts import AgentParts
from ..nodes.turn.session import session_of
from ..nodes.turn.state import TurnState, repacked, state_after, updated
from ..nodes.turn.turn import archive_left_rounds, read_state, running
from ..nodes.turn.updates import is_running
from .agent import build_memory_graph, tool_parts
from .agent_state import (
    MemoryAgentState,
    as_edited,
    behind_answers,
    with_message_ids,
)
from .hand_over import hand_over
from .models import UnknownModel
from .other_middleware import (
    OverBudgetError,
    is_summarised,
    is_summary,
    warn_of_summariser,
    whole_turn,
)
from .request import (
    answer_schemas,
    at_last,
    call_of,
    config_of,
    gate_of,
    request_of,
    too_large,
    window_after,
)

_REQUESTS = 1_000
"""Turns whose last request is kept at once. Only turns that broke off are ever too many."""

_RESUMING = "__pregel_resuming"
"""LangGraph's key in the config of a run that goes on where another was cut short."""


class EbbtideMiddleware(AgentMiddleware[Any, Any, Any]):
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

    def __init__(  # noqa: PLR0913 (all have defaults)
        self,
        *,
        archive: Archive | None = None,
        settings: Settings | None = None,
        summary_model: BaseChatModel | str | None = None,
        extraction_model: BaseChatModel | str | None = None,
        compression_model: BaseChatModel | str | None = None,
        embeddings: Embeddings | str | None = None,
        attention: Attention | None = None,
        token_counter: TokenCounter | None = None,
        attachment_price: AttachmentPrice | None = None,
    ) -> None:
        """Set up the memory with what `build_memory_graph` takes under these names.

        Models default to the agent's own, `archive` to `DiskArchive("sessions")`.
        """
        graph = build_memory_graph(
            UnknownModel(),
            archive=archive,
            settings=settings,
            summary_model=summary_model,
            extraction_model=extraction_model,
            compression_model=compression_model,
            embeddings=embeddings,
            attention=attention,
            token_counter=token_counter,
            attachment_price=attachment_price,
        )
        # The anchor has no model of its own: if the agent's is not known, the given one writes it.
        models = {**graph.parts.models, "anchor": graph.parts.models["summary"]}
        self._initial = replace(graph.parts, models=models)
        self._requests = LRUCache[str, AgentParts](_REQUESTS)

    def __repr__(self) -> str:
        """Return where the data is, and the settings that are no defaults."""
        archive, settings = self._initial.archive, self._initial.settings
        return f"{type(self).__name__}(archive={archive!r}, settings={settings!r})"

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Begin the turn.

        Raises `SessionNotFoundError` if the thread is another user's, and `SettingsError` for a
        user's id with control characters. A message to it, which LangGraph has stored by then, is
        removed first, and `after_agent` raises.
        """
        given = with_message_ids(state)
        turn_state, is_named = self._read(given, runtime), False
        try:
            session_of(turn_state, runtime, self._settings(runtime))
            is_named = True
            update = begin_turn(turn_state, runtime, parts=self.sized(turn_state))
        except (SessionNotFoundError, SettingsError) as error:
            if is_named and isinstance(error, SettingsError):
                raise
            new = (*new_messages(turn_state), *behind_answers(given, turn_state))
            sent = {one.id for one in new}
            ids = [str(message.id) for message in given["messages"] if message.id in sent]
            removed = [RemoveMessage(id=one) for one in ids]
            if get_config()["configurable"].get(_RESUMING) or not removed:
                raise
            return {"messages": removed, "jump_to": "end"}
        turn = running(state_after(turn_state, update))
        update = self._repacked(update, turn_state, runtime)
        return {**update, "ebbtide_replaced": {}, "ebbtide_turn": turn}

    @hook_config(can_jump_to=["end"])
    async def abefore_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Begin the turn as `before_agent` does."""
        return await asyncio.to_thread(self.before_agent, state, runtime)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> AIMessage | ExtendedModelResponse[Any]:
        """Send the working context instead of the messages."""

        def sent(call: Call) -> ExtendedModelResponse[Any]:
            given = request_of(request, call)
            gate = gate_of(request, call, given)
            config = config_of(request, call, gate)
            with call.noting_refusal(), set_config_context(config) as context:
                response = context.run(handler, given)
            return self._answered(state, at_last(call, gate), response)

        asked = state, parts = self._asked(request)
        passed = compress(state, request.runtime, parts=parts) if state.get("due") else {}
        call = self._call(request, asked, passed)
        try:
            return sent(call)
        except (ContextOverflowError, OverBudgetError) as error:
            less = self._less(request, asked, passed, call, error)
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

        async def sent(call: Call) -> ExtendedModelResponse[Any]:
            given = request_of(request, call)
            gate = gate_of(request, call, given)

            async def answer() -> ModelResponse[Any]:
                return await handler(given)

            config = config_of(request, call, gate)
            with call.noting_refusal(), set_config_context(config) as context:
                response = await asyncio.create_task(answer(), context=context)
            return await asyncio.to_thread(self._answered, state, at_last(call, gate), response)

        asked = state, parts = await asyncio.to_thread(self._asked, request)
        passed = await acompress(state, request.runtime, parts=parts) if state.get("due") else {}
        call = await asyncio.to_thread(self._call, request, asked, passed)
        try:
            return await sent(call)
        except (ContextOverflowError, OverBudgetError) as error:
            less = await asyncio.to_thread(self._less, request, asked, passed, call, error)
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
        turn_state, parts = self._memory_calls(state, runtime)
        update: dict[str, Any] = {}
        if parts is not None:
            update = memory_tools(turn_state, runtime, parts=parts)
        return self._after_model(state, runtime, turn_state, update)

    @hook_config(can_jump_to=["model"])
    async def aafter_model(
        self, state: MemoryAgentState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Do what `after_model` does, without holding a thread while a model summarises."""
        turn_state, parts = await asyncio.to_thread(self._memory_calls, state, runtime)
        update: dict[str, Any] = {}
        if parts is not None:
            update = await amemory_tools(turn_state, runtime, parts=parts)
        return await asyncio.to_thread(self._after_model, state, runtime, turn_state, update)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[..., Any]) -> Any:
        """Run a tool, and clean its result so that it can be stored.

        Raises `SessionNotFoundError` if another user resumes the turn that called it.
        """
        self._check_user(request.runtime)
        result = as_given(handler(without_memory_calls(request)), request)
        if hands_over(result):
            self._hand_over(request, result)
        return result

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[..., Awaitable[Any]]
    ) -> Any:
        """Do what `wrap_tool_call` does."""
        await asyncio.to_thread(self._check_user, request.runtime)
        result = as_given(await handler(without_memory_calls(request)), request)
        if hands_over(result):
            await asyncio.to_thread(self._hand_over, request, result)
        return result

    def after_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """End the turn: references, decay, the archive.

        Raises `SessionNotFoundError` if the thread is another user's.
        """
        turn_state = self._read(state, runtime)
        update = self._committed(turn_state, state["messages"], runtime)
        with CACHES:
            self._requests.pop(turn_state.get("nonce", ""), None)
        return {**self._repacked(update, turn_state, runtime), "ebbtide_turn": []}

    async def aafter_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Do what `after_agent` does, without holding up other runs."""
        return await asyncio.to_thread(self.after_agent, state, runtime)

    def sized(self, state: TurnState) -> AgentParts:
        """Return the parts without a request: the thread's last sizes, no model of the agent.

        The last budget is used too: it may be the window of a model that is not known here.
        """
        report = state.get("context_report", {})
        if not (tokens := report.get("tokens")):
            return self._initial
        fixed = tokens["system"] - report.get("application", 0), tokens["tools"]
        budget = report.get("budget", 0)
        if budget < sum(fixed) + LEAST_ROOM:  # somebody edited it
            return self._initial
        return replace(self._initial, fixed=fixed, window=budget)

    def _parts(self, state: TurnState) -> AgentParts:
        """Return the parts of the turn's last request, without one in this process `sized`."""
        with CACHES:
            known = self._requests.get(state.get("nonce", ""))
        return known or self.sized(state)

    def _check_user(self, runtime: Any) -> None:
        """Raise `SessionNotFoundError` if the thread is another user's."""
        session = session_of(cast("TurnState", {}), runtime, self._settings(runtime))
        archive = self._initial.archive
        if archive.load(session, Tip()).owner == "other":
            raise SessionNotFoundError(session.thread)

    def _settings(self, runtime: Runtime[Any]) -> Settings:
        return resolve(runtime.context, self._initial.settings)

    def _read(self, values: Mapping[str, Any], runtime: Any) -> TurnState:
        return whole_turn(read_state(values, runtime, self._initial), values)

    def _repacked(
        self, update: Mapping[str, Any], before: TurnState, runtime: Runtime[Any]
    ) -> dict[str, Any]:
        return repacked(update, self._initial, before, runtime.context)

    def _memory_calls(
        self, state: MemoryAgentState, runtime: Runtime[Any]
    ) -> tuple[TurnState, AgentParts | None]:
        """Return the state, and the parts if calls of memory tools, or invalid ones, wait."""
        # LangChain's approval stores edits by call id.
        edited: Any = state.get("hitl_edited_tool_calls")
        turn_state = as_edited(self._read(state, runtime), edited)
        messages = running(turn_state)
        app_tools = {call["name"]: cast("Any", None) for call in waiting(messages, MEMORY_TOOLS)}
        if not waiting(messages, app_tools):
            return turn_state, None
        return turn_state, replace(self._parts(turn_state), tools=app_tools)

    def _after_model(
        self,
        state: MemoryAgentState,
        runtime: Runtime[Any],
        turn_state: TurnState,
        update: dict[str, Any],
    ) -> dict[str, Any] | None:
        """Return the update after a model call, with that of memory tools if any were called."""
        results, there = update.get("messages", []), messages_in_state(state["messages"])
        turn, own = [*state.get("ebbtide_turn", ())], dict[str, Any]()
        answer = next((m for m in reversed(state["messages"]) if isinstance(m, AIMessage)), None)
        if results and answer is not None and not answer.tool_calls:
            own["jump_to"] = "model"  # LangChain would end a turn of invalid calls
        last: list[BaseMessage] = []
        if isinstance(results, Overwrite):  # the turn has ended
            last, results = results.value[len(turn_state["messages"]) - 1 :], []
            there, turn = (
                [*(m for m in some if m.id != last[-1].id), *last] for some in (there, turn)
            )
            update["messages"], own["ebbtide_turn"] = Overwrite(there), turn
        left = archive_left_rounds(turn_state, runtime, self._parts(turn_state))
        if left:
            kept = {message.id for message in (*left["messages"], *last)}
            replaced = state.get("ebbtide_replaced", {})
            there, turn = ([m for m in some if m.id in kept] for some in (there, turn))
            update |= {"round": left["round"], "messages": Overwrite([*there, *results])}
            own["ebbtide_turn"] = turn
            own["ebbtide_replaced"] = {name: replaced[name] for name in replaced.keys() & kept}
        if not update:
            return None
        return {**self._repacked(update, turn_state, runtime), **own}

    def _asked(self, request: ModelRequest[Any]) -> tuple[TurnState, AgentParts]:
        """Return the state with the running turn whole, and the parts of a request."""
        state = self._read(request.state, request.runtime)
        if is_summarised(request.messages, state):
            warn_of_summariser()
        return state, self._parts_from(request)

    def _call(
        self,
        request: ModelRequest[Any],
        asked: tuple[TurnState, AgentParts],
        known: Mapping[str, Any],
        window: int | None = None,
    ) -> Call:
        """Return the call of the model with its working context, within a `window` if given.

        What is `known` since the request was made is in its update.
        """
        state, parts = asked
        call = call_of(request, updated(state, known), parts, window)
        update = {**known, **call.update}
        if request.response_format is not None:  # a text alone does not end the turn
            report = updated(state, update)["context_report"]
            update["context_report"] = {**report, "structured": True}
        return replace(call, update=update)

    def _less(
        self,
        request: ModelRequest[Any],
        asked: tuple[TurnState, AgentParts],
        known: Mapping[str, Any],
        call: Call,
        error: ContextOverflowError | OverBudgetError,
    ) -> Call:
        """Return the call with less in its context, after it was found too long."""
        if isinstance(error, OverBudgetError):
            return self._call(request, asked, known, window_after(request, call, error))
        return self._call(request, asked, known)

    def _answered(
        self, before: TurnState, call: Call, response: ModelResponse[Any]
    ) -> ExtendedModelResponse[Any]:
        """Return the response with the update of the state before the call."""
        ended = response.structured_response is not None
        final_call = replace(call, limit=None) if ended else call
        update = with_message_ids(final_call.answered(response.result))
        shown = replace(response, result=update.pop("messages"))
        turn = [*(one for one in running(before) if not is_summary(one)), *shown.result]
        with CACHES:
            self._requests[call.state.get("nonce", "")] = call.parts
        replaced = update.pop("ebbtide_replaced", None)
        update = self._repacked(update, before, call.runtime)
        if replaced is not None:
            update["ebbtide_replaced"] = replaced
        return ExtendedModelResponse(shown, Command(update={**update, "ebbtide_turn": turn}))

    def _hand_over(self, request: ToolCallRequest, command: Command[Any]) -> None:
        """Commit the turn of an agent that hands over to another agent."""
        state, runtime = self._read(request.state, request.runtime), request.runtime
        hand_over(state, runtime, request.tool_call, command, parts=self._parts(state))

    def _parts_from(self, request: ModelRequest[Any]) -> AgentParts:
        initial = self._initial
        parts = tool_parts(
            [*request.tools, *answer_schemas(request.response_format)], initial.count
        )
        own, given = request.model, initial.models.items()
        models = {what: own if isinstance(m, UnknownModel) else m for what, m in given}
        parts |= {"model": own, "models": {**models, "anchor": own}}
        return replace(initial, **parts, system=request.system_prompt or "")

    def _committed(
        self, state: TurnState, there: list[AnyMessage], runtime: Runtime[Any]
    ) -> dict[str, Any]:
        """Commit the turn; return the update.

        A middleware before this one may have ended the run before the turn began. A turn that
        another middleware broke off is settled when the user's next message arrives.
        """
        parts, update, whole = self._parts(state), dict[str, Any](), state["messages"]
        if not is_running(state) and new_messages(state):
            update = begin_turn(state, runtime, parts=parts)
            state = state_after(state, update)
        else:
            self._check_user(runtime)
        said = running(state) if unarchived(state) else []
        if not said or (unanswered(said) and not answered(said)):
            return update
        for node in (detect_references, decay, persist):
            step = node(state, runtime, parts=parts)
            state, update = state_after(state, step), {**update, **step}
        if whole != there:  # the state says what the archive says
            update.setdefault("messages", Overwrite(whole))
        return update
