"""The memory as a middleware of LangChain's `create_agent`.

Its hooks call the functions of the nodes, so that a turn is the same as in the graph of `build`.
The agent's model, tools and prompt are learned from the requests for its model.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from itertools import takewhile
from typing import Annotated, Any, NotRequired, TypeAlias, Unpack, cast

from langchain.agents import AgentState
from langchain.agents.middleware import (
    AgentMiddleware,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    hook_config,
)
from langchain.agents.middleware.types import OmitFromInput, PrivateStateAttr, ToolCallRequest
from langchain.agents.structured_output import OutputToolBinding, ProviderStrategy, ToolStrategy
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context
from langchain_core.tools import BaseTool
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command
from typing_extensions import TypedDict

from ..memory.archive.protocol import Archive
from ..memory.attention.law import Attention
from ..memory.context.budget import check_budget, instructions
from ..memory.embeddings import Embeddings
from ..memory.errors import SessionNotFoundError, SettingsError
from ..memory.messages import unanswered
from ..memory.settings import Settings, resolve
from ..memory.tokens import TokenCounter
from ..memory.tools.toolbox import NAMES, schemas, waiting
from ..nodes.application_tools import cleaned_result
from ..nodes.begin_turn import begin_turn
from ..nodes.call_model import Call
from ..nodes.compress import acompress, compress
from ..nodes.persist import persist
from ..nodes.run_tools import arun_tools, run_tools
from ..nodes.turn.arrivals import split_messages, unarchived
from ..nodes.turn.langchain_messages import to_dicts
from ..nodes.turn.parts import AgentParts, taking_tools
from ..nodes.turn.state import Memory, TurnState, merged, unpacked, updated
from ..nodes.turn.values import owner_of, running, sealed, trusted
from .agent import build_memory_graph, tool_parts

_log = logging.getLogger("ebbtide.calls")
_probing: ContextVar[bool] = ContextVar("ebbtide_probing", default=False)
"""True while `EbbtideMiddleware.parts` runs the model node only to learn its request."""

_ToUpdate: TypeAlias = Callable[[ModelResponse[Any]], ExtendedModelResponse[Any]]


class MemoryAgentState(AgentState[Any]):
    """The state of a thread beside its messages; `memory` is no input."""

    memory: NotRequired[Annotated[Memory, OmitFromInput, merged]]
    raw_answers: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]


class AgentOptions(TypedDict, total=False):
    """Further arguments of `EbbtideMiddleware`, as `build_memory_graph` has them."""

    summary_model: BaseChatModel | str | None
    extraction_model: BaseChatModel | str | None
    compression_model: BaseChatModel | str | None
    embeddings: Embeddings | str | None
    attention: Attention | None
    token_counter: TokenCounter | None


class EbbtideMiddleware(AgentMiddleware[MemoryAgentState, Any, Any]):
    """Give an agent of `create_agent` a working memory that manages itself.

    Put it after middleware that changes the prompt, the tools or the model, so that the changes are
    counted, and before middleware that repeats calls (retries, fallbacks) or checks them
    (approval). Each agent needs an instance of its own.
    """

    state_schema = MemoryAgentState

    def __init__(
        self,
        *,
        archive: Archive | None = None,
        settings: Settings | None = None,
        **options: Unpack[AgentOptions],
    ) -> None:
        """Take the arguments of `build_memory_graph`; models are by default the agent's own."""
        graph = build_memory_graph(_UnknownModel(), archive=archive, settings=settings, **options)
        self._initial = graph.parts
        # The signature of the last request to the model, and the parts made from it.
        self._learned: tuple[tuple[Any, ...], AgentParts] | None = None

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Begin the turn; remove messages of anybody but the thread's user."""
        turn_state = trusted(state, self._initial.archive)
        try:  # a hook cannot both remove messages and raise, so `after_agent` raises
            owner_of(turn_state, runtime, resolve(runtime.context, self._initial.settings))
        except SessionNotFoundError:
            foreign = [RemoveMessage(str(message.id)) for message in split_messages(turn_state).new]
            if foreign:
                return {"messages": foreign, "jump_to": "end"}
        update = begin_turn(turn_state, runtime, parts=self._parts(turn_state))
        return self._sealed(update, turn_state)

    @hook_config(can_jump_to=["end"])
    async def abefore_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Begin the turn as `before_agent` does."""
        return await asyncio.to_thread(self.before_agent, state, runtime)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> AIMessage | ExtendedModelResponse[Any]:
        """Send the working context instead of the messages."""
        if _probing.get():
            self._parts_from(request)
            return AIMessage("")
        config, new_request, to_update = self._prepared(request)
        with set_config_context(config) as context:
            return to_update(context.run(handler, new_request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> AIMessage | ExtendedModelResponse[Any]:
        """Do what `wrap_model_call` does, without holding a thread while the model answers."""
        config, new_request, to_update = await asyncio.to_thread(self._prepared, request)

        async def answer() -> ModelResponse[Any]:
            return await handler(new_request)

        with set_config_context(config) as context:
            response = await asyncio.create_task(answer(), context=context)
        return await asyncio.to_thread(to_update, response)

    @hook_config(can_jump_to=["model"])
    def after_model(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Run the memory tools that were called, one after the other."""
        turn_state, parts = self._memory_calls(state)
        if parts is None:
            return None
        return self._after_tools(state, turn_state, run_tools(turn_state, runtime, parts=parts))

    @hook_config(can_jump_to=["model"])
    async def aafter_model(
        self, state: MemoryAgentState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Do what `after_model` does, without holding a thread while a model summarises."""
        turn_state, parts = await asyncio.to_thread(self._memory_calls, state)
        if parts is None:
            return None
        update = await arun_tools(turn_state, runtime, parts=parts)
        return await asyncio.to_thread(self._after_tools, state, turn_state, update)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[..., Any]) -> Any:
        """Run a tool, and clean its result so that it can be stored."""
        return cleaned_result(handler(request))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[..., Awaitable[Any]]
    ) -> Any:
        """Do what `wrap_tool_call` does."""
        return cleaned_result(await handler(request))

    def after_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """End the turn: references, decay, the archive, and a compression that is due."""
        turn_state, update = self._committed(state, runtime)
        if turn_state.get("due"):
            update |= compress(turn_state, runtime, parts=self._parts(turn_state))
        return self._sealed(update, unpacked(state))

    async def aafter_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Do what `after_agent` does, without holding a thread while a model compresses."""
        turn_state, update = await asyncio.to_thread(self._committed, state, runtime)
        if turn_state.get("due"):
            update |= await acompress(turn_state, runtime, parts=self._parts(turn_state))
        return await asyncio.to_thread(self._sealed, update, unpacked(state))

    def parts(self, agent: CompiledStateGraph[Any, Any, Any, Any]) -> AgentParts:
        """Return an agent's parts; before its first call, run its model node without the model."""
        if self._learned is None:
            graph = StateGraph[Any, Any, Any, Any](agent.builder.state_schema)
            graph.add_node("model", agent.builder.nodes["model"].runnable)
            graph.add_edge(START, "model")
            token = _probing.set(True)
            try:
                graph.compile(checkpointer=False).invoke({"messages": []})
            except Exception as error:  # noqa: BLE001 (another middleware may raise anything)
                _log.warning("the agent's parts are not known before its first call: %s", error)
            finally:
                _probing.reset(token)
        return self._initial if self._learned is None else self._learned[1]

    def _sealed(self, update: dict[str, Any], before: TurnState) -> dict[str, Any]:
        return sealed(update, before, self._initial.archive)

    def _parts(self, turn_state: TurnState) -> AgentParts:
        """Return the parts of the last model call; before the first, with the thread's sizes."""
        if self._learned is not None:
            return self._learned[1]
        tokens = turn_state.get("context_report", {}).get("tokens")
        if not tokens:
            return self._initial
        return replace(self._initial, fixed=(tokens["system"], tokens["tools"]))

    def _memory_calls(self, state: MemoryAgentState) -> tuple[TurnState, AgentParts | None]:
        """Return the state, and the parts if calls of memory tools, or invalid ones, wait."""
        turn_state = trusted(_as_edited(state), self._initial.archive)
        messages = to_dicts(running(turn_state))
        application_calls = {call["name"]: cast("Any", None) for call in waiting(messages, NAMES)}
        if not waiting(messages, application_calls):
            return turn_state, None
        return turn_state, replace(self._parts(turn_state), tools=application_calls)

    def _after_tools(
        self, state: MemoryAgentState, turn_state: TurnState, update: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the update after memory tools; LangChain would end a turn of invalid calls."""
        answer = next((m for m in reversed(state["messages"]) if isinstance(m, AIMessage)), None)
        jump = {} if answer is None or answer.tool_calls else {"jump_to": "model"}
        return {**self._sealed(update, turn_state), **jump}

    def _prepared(
        self, request: ModelRequest[Any]
    ) -> tuple[RunnableConfig, ModelRequest[Any], _ToUpdate]:
        """Return the config, the request with the working context, and what reads the answer."""
        parts, runtime = self._parts_from(request), request.runtime
        state = trusted(cast("Mapping[str, Any]", request.state), self._initial.archive)
        _check_messages(state)
        settings = resolve(runtime.context, parts.settings)
        check_budget(settings, *parts.sizes(settings))
        call = Call.prepared(state, runtime, parts)
        system, *messages = cast("list[Any]", call.messages)
        new_request = request.override(
            system_message=_system_message(request, system.text, settings),
            messages=messages,
            tools=[*schemas(), *request.tools],
            tool_choice=call.tool_choice or request.tool_choice,
        )

        def to_update(response: ModelResponse[Any]) -> ExtendedModelResponse[Any]:
            ended = response.structured_response is not None
            final_call = replace(call, limit=None) if ended else call
            update = final_call.answered(response.result)
            shown = replace(response, result=update.pop("messages"))
            update.pop("context", None)
            return ExtendedModelResponse(shown, Command(update=self._sealed(update, state)))

        return call.config, new_request, to_update

    def _parts_from(self, request: ModelRequest[Any]) -> AgentParts:
        """Return the parts of the agent that sends a request; remember them."""
        signature = (request.model, request.response_format, request.system_prompt, *request.tools)
        learned, initial = self._learned, self._initial
        if learned is None or not _same_objects(signature, learned[0]):
            tools = [*request.tools, *_answer_schemas(request.response_format)]
            parts = tool_parts(tools, initial.count)
            own, old = taking_tools(request.model), initial.models
            models = {what: own if m is initial.model else m for what, m in old.items()}
            parts |= {"model": own, "models": models, "system": request.system_prompt or ""}
            learned = self._learned = signature, replace(initial, **parts)
        return learned[1]

    def _committed(
        self, state: MemoryAgentState, runtime: Runtime[Any]
    ) -> tuple[TurnState, dict[str, Any]]:
        """Commit the turn; return the state after it, and the update that leads to it.

        A middleware before this one may have ended the run before the turn began. A turn that
        another middleware broke off is settled when the user's next message arrives.
        """
        turn_state, update = trusted(state, self._initial.archive), cast("dict[str, Any]", {})
        parts = self._parts(turn_state)
        begun = turn_state.get("turn", 0) > turn_state.get("persisted", 0)
        if not begun and split_messages(turn_state).new:
            update = begin_turn(turn_state, runtime, parts=parts)
            turn_state = updated(turn_state, {**update, "messages": update["messages"].value})
        owner_of(turn_state, runtime, resolve(runtime.context, parts.settings))
        if not unarchived(turn_state) or unanswered(to_dicts(running(turn_state))):
            return turn_state, update
        update |= persist(turn_state, runtime, parts=parts)
        return updated(turn_state, update), update


def _same_objects(signature: tuple[Any, ...], older: tuple[Any, ...]) -> bool:
    """Tell whether two signatures have the same objects; texts may be equal copies."""
    first, second = ([s if isinstance(s, str) else id(s) for s in o] for o in (signature, older))
    return first == second


class _UnknownModel(BaseChatModel):
    """A placeholder for the agent's model until its first request."""

    @property
    def _llm_type(self) -> str:
        return "unknown"

    def _generate(self, *_given: Any, **_more: Any) -> Any:
        raise SettingsError(
            "which model the agent has is not known before its first call in this process: give "
            "EbbtideMiddleware a summary_model, an extraction_model and a compression_model"
        )


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
    if not {*questions[-1:]}.intersection(str(message.id) for message in messages):
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


def _system_message(request: ModelRequest[Any], text: str, settings: Settings) -> SystemMessage:
    """Return the system message; content blocks of the application stay as they are."""
    application_message = request.system_message
    if application_message is None or isinstance(application_message.content, str):
        return SystemMessage(text)
    our_block = {"type": "text", "text": instructions("", settings)}
    return application_message.model_copy(
        update={"content": [our_block, *application_message.content]}
    )


def _answer_schemas(response_format: Any) -> list[BaseTool | dict[str, Any]]:
    """Return the schemas of a structured answer; they are counted like tools."""
    if response_format is None:
        return []
    if isinstance(response_format, ProviderStrategy):
        spec = response_format.schema_spec
        return [{"name": spec.name, "parameters": spec.json_schema}]
    if not isinstance(response_format, ToolStrategy):
        response_format = ToolStrategy(getattr(response_format, "schema", response_format))
    return [OutputToolBinding.from_schema_spec(spec).tool for spec in response_format.schema_specs]
