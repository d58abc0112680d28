"""The memory as a middleware of LangChain's `create_agent`.

Its hooks call the functions of the nodes, so that a turn is what it is in the graph of `build`.
What the agent is made of, its model, tools and prompt, is known from the requests for its model.
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
from ..memory.context.budget import checked, instructions
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
from ..nodes.turn.arrivals import divided, unarchived
from ..nodes.turn.langchain_messages import to_dicts
from ..nodes.turn.parts import AgentParts, taking_tools
from ..nodes.turn.state import Memory, TurnState, merged, unpacked
from ..nodes.turn.values import owner_of, running, sealed, trusted
from .agent import build_memory_graph, known_tools

_log = logging.getLogger("ebbtide.calls")
_looking: ContextVar[bool] = ContextVar("ebbtide_looking", default=False)
"""Set while a command asks what the model would be sent, and by whom."""

_MODELS = ("model", "summary_model", "extraction_model", "compression_model")
"""The parts that are the agent's own model where none was given."""

_Asked: TypeAlias = tuple[
    RunnableConfig,
    ModelRequest[Any],
    Callable[[ModelResponse[Any]], ExtendedModelResponse[Any]],
]
"""How the model is called, with which request, and what makes of its answer what is kept."""


class MemoryAgentState(AgentState[Any]):
    """What the middleware keeps in a thread, beside its messages; `memory` is no input."""

    memory: NotRequired[Annotated[Memory, OmitFromInput, merged]]
    raw_answers: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]


class Others(TypedDict, total=False):
    """What else `EbbtideMiddleware` takes, as `build_memory_graph` does."""

    summary_model: BaseChatModel | str | None
    extraction_model: BaseChatModel | str | None
    compression_model: BaseChatModel | str | None
    embeddings: Embeddings | str | None
    attention: Attention | None
    token_counter: TokenCounter | None


class EbbtideMiddleware(AgentMiddleware[MemoryAgentState, Any, Any]):
    """Give an agent of `create_agent` a working memory that manages itself.

    Put it behind middleware that changes the prompt, the tools or the model, so that these are
    counted, and before what only calls again (retries, fallbacks) or looks at calls (approval).
    Each agent has one of its own.
    """

    state_schema = MemoryAgentState

    def __init__(
        self,
        *,
        archive: Archive | None = None,
        settings: Settings | None = None,
        **others: Unpack[Others],
    ) -> None:
        """Take what `build_memory_graph` takes; other models are by default the agent's own."""
        graph = build_memory_graph(_Unknown(), archive=archive, settings=settings, **others)
        self._given = graph.parts
        # What the last request to the model showed, and the parts that were made from it.
        self._seen: tuple[tuple[Any, ...], AgentParts] | None = None

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Begin the turn; take away what somebody else than the thread's user said."""
        known = trusted(state, self._given.archive)
        try:  # a hook cannot take away and raise, so `after_agent` raises
            owner_of(known, runtime, resolve(runtime.context, self._given.settings))
        except SessionNotFoundError:
            foreign = [RemoveMessage(str(message.id)) for message in divided(known).new]
            if foreign:
                return {"messages": foreign, "jump_to": "end"}
        return self._sealed(begin_turn(known, runtime, parts=self._parts(known)), known)

    @hook_config(can_jump_to=["end"])
    async def abefore_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Begin the turn."""
        return await asyncio.to_thread(self.before_agent, state, runtime)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> AIMessage | ExtendedModelResponse[Any]:
        """Send the working context instead of the messages."""
        if _looking.get():
            self._learned(request)
            return AIMessage("")
        config, sent, update = self._asked(request)
        with set_config_context(config) as context:
            return update(context.run(handler, sent))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> AIMessage | ExtendedModelResponse[Any]:
        """Do what `wrap_model_call` does, without holding a thread while the model answers."""
        config, sent, update = await asyncio.to_thread(self._asked, request)

        async def answer() -> ModelResponse[Any]:
            return await handler(sent)

        with set_config_context(config) as context:
            response = await asyncio.create_task(answer(), context=context)
        return await asyncio.to_thread(update, response)

    @hook_config(can_jump_to=["model"])
    def after_model(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Answer the calls of memory tools, one after the other."""
        known, parts = self._called(state)
        if parts is None:
            return None
        return self._ran(state, known, run_tools(known, runtime, parts=parts))

    @hook_config(can_jump_to=["model"])
    async def aafter_model(
        self, state: MemoryAgentState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Do what `after_model` does, without holding a thread while a model summarises."""
        known, parts = await asyncio.to_thread(self._called, state)
        if parts is None:
            return None
        update = await arun_tools(known, runtime, parts=parts)
        return await asyncio.to_thread(self._ran, state, known, update)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[..., Any]) -> Any:
        """Make the result of a tool fit to be kept."""
        return cleaned_result(handler(request))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[..., Awaitable[Any]]
    ) -> Any:
        """Do what `wrap_tool_call` does."""
        return cleaned_result(await handler(request))

    def after_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """End the turn: references, decay, the archive, and a compression that is due."""
        known, update = self._ended(state, runtime)
        if known.get("due"):
            update |= compress(known, runtime, parts=self._parts(known))
        return self._sealed(update, unpacked(state))

    async def aafter_agent(self, state: MemoryAgentState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Do what `after_agent` does, without holding a thread while a model compresses."""
        known, update = await asyncio.to_thread(self._ended, state, runtime)
        if known.get("due"):
            update |= await acompress(known, runtime, parts=self._parts(known))
        return await asyncio.to_thread(self._sealed, update, unpacked(state))

    def parts(self, agent: CompiledStateGraph[Any, Any, Any, Any]) -> AgentParts:
        """Return the parts of an agent with this middleware; if none are known, ask the agent."""
        if self._seen is None:
            graph = StateGraph[Any, Any, Any, Any](agent.builder.state_schema)
            graph.add_node("model", agent.builder.nodes["model"].runnable)
            graph.add_edge(START, "model")
            token = _looking.set(True)
            try:
                graph.compile(checkpointer=False).invoke({"messages": []})
            except Exception as error:  # noqa: BLE001 (any middleware's: most commands ask no model)
                _log.warning("the agent's parts are not known before its first call: %s", error)
            finally:
                _looking.reset(token)
        return self._given if self._seen is None else self._seen[1]

    def _sealed(self, update: dict[str, Any], before: TurnState) -> dict[str, Any]:
        return sealed(update, before, self._given.archive)

    def _parts(self, known: TurnState) -> AgentParts:
        """Return the parts as the model was called last; before, sizes as the thread has them."""
        if self._seen is not None:
            return self._seen[1]
        tokens = known.get("context_report", {}).get("tokens")
        if not tokens:
            return self._given
        return replace(self._given, fixed=(tokens["system"], tokens["tools"]))

    def _called(self, state: MemoryAgentState) -> tuple[TurnState, AgentParts | None]:
        """Return the state, and the parts if there are calls of memory tools, or invalid ones."""
        known = trusted(_as_edited(state), self._given.archive)
        messages = to_dicts(running(known))
        others = {call["name"]: cast("Any", None) for call in waiting(messages, NAMES)}
        if not waiting(messages, others):
            return known, None
        return known, replace(self._parts(known), tools=others)

    def _ran(
        self, state: MemoryAgentState, known: TurnState, update: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the update after memory tools; LangChain ends a turn of invalid calls alone."""
        answer = next((m for m in reversed(state["messages"]) if isinstance(m, AIMessage)), None)
        jump = {} if answer is None or answer.tool_calls else {"jump_to": "model"}
        return {**self._sealed(update, known), **jump}

    def _asked(self, request: ModelRequest[Any]) -> _Asked:
        """Return the config and the request with the working context, and what takes its answer."""
        parts, runtime = self._learned(request), request.runtime
        state = trusted(cast("Mapping[str, Any]", request.state), self._given.archive)
        _unspoilt(state)
        settings = resolve(runtime.context, parts.settings)
        checked(settings, *parts.sizes(settings))
        call = Call.prepared(state, runtime, parts)
        system, *messages = cast("list[Any]", call.messages)
        sent = request.override(
            system_message=_opening(request, system.text, settings),
            messages=messages,
            tools=[*schemas(), *request.tools],
            tool_choice=call.tool_choice or request.tool_choice,
        )

        def answered(response: ModelResponse[Any]) -> ExtendedModelResponse[Any]:
            ended = response.structured_response is not None
            asked = replace(call, limit=None) if ended else call
            update = asked.answered(response.result)
            shown = replace(response, result=update.pop("messages"))
            update.pop("context", None)
            return ExtendedModelResponse(shown, Command(update=self._sealed(update, state)))

        return call.config, sent, answered

    def _learned(self, request: ModelRequest[Any]) -> AgentParts:
        """Return the parts, updated and remembered from what a request shows."""
        shown = (request.model, request.response_format, request.system_prompt, *request.tools)
        seen, given = self._seen, self._given
        if seen is None or not _same(shown, seen[0]):
            parts = known_tools([*request.tools, *_formats(request.response_format)], given.count)
            models = (name for name in _MODELS if getattr(given, name) is given.model)
            parts |= dict.fromkeys(models, taking_tools(request.model))
            parts["system"] = request.system_prompt or ""
            seen = self._seen = shown, replace(given, **parts)
        return seen[1]

    def _ended(
        self, state: MemoryAgentState, runtime: Runtime[Any]
    ) -> tuple[TurnState, dict[str, Any]]:
        """Return the state after the turn was committed, and the update that leads to it.

        A middleware before this one may have ended the run before the turn was begun. A turn that
        somebody else broke off waits for the user's next message, which settles it.
        """
        known, update = trusted(state, self._given.archive), cast("dict[str, Any]", {})
        parts = self._parts(known)
        begun = known.get("turn", 0) > known.get("persisted", 0)
        if not begun and divided(known).new:
            update = begin_turn(known, runtime, parts=parts)
            known = cast("TurnState", {**known, **update, "messages": update["messages"].value})
        owner_of(known, runtime, resolve(runtime.context, parts.settings))
        if not unarchived(known) or unanswered(to_dicts(running(known))):
            return known, update
        update |= persist(known, runtime, parts=parts)
        return cast("TurnState", {**known, **update}), update


def _same(shown: tuple[Any, ...], before: tuple[Any, ...]) -> bool:
    """Tell whether two requests show the same objects; prompts may be equal copies."""
    return len(shown) == len(before) and all(
        new is old or (isinstance(new, str) and new == old)
        for new, old in zip(shown, before, strict=True)
    )


class _Unknown(BaseChatModel):
    """Stands in for the agent's model until its first call shows which one it is."""

    @property
    def _llm_type(self) -> str:
        return "unknown"

    def _generate(self, *_given: Any, **_more: Any) -> Any:
        raise SettingsError(
            "which model the agent has is not known before its first call in this process: give "
            "EbbtideMiddleware a summary_model, an extraction_model and a compression_model"
        )


def _as_edited(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the state with the calls that a person changed; kept are those of the model."""
    edited = state.get("hitl_edited_tool_calls")  # what LangChain's approval keeps, by ids
    if not edited:
        return state
    messages = [
        m.model_copy(
            update={"tool_calls": [{**call, **edited.get(call["id"], {})} for call in m.tool_calls]}
        )
        if isinstance(m, AIMessage)
        else m
        for m in state["messages"]
    ]
    return {**state, "messages": messages}


def _unspoilt(state: TurnState) -> None:
    """Raise `SettingsError` if another middleware took the question away or decided too late."""
    messages = state["messages"]
    asked = [name for name, turn in state.get("asked", {}).items() if turn == state.get("turn")]
    if not {*asked[-1:]}.intersection(str(message.id) for message in messages):
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


def _opening(request: ModelRequest[Any], text: str, settings: Settings) -> SystemMessage:
    """Return the system message; blocks of the application's own stay as they are."""
    own = request.system_message
    if own is None or isinstance(own.content, str):
        return SystemMessage(text)
    ours = {"type": "text", "text": instructions("", settings)}
    return own.model_copy(update={"content": [ours, *own.content]})


def _formats(response_format: Any) -> list[BaseTool | dict[str, Any]]:
    """Return the schemas of a structured answer as they are counted: like tools."""
    if response_format is None:
        return []
    if isinstance(response_format, ProviderStrategy):
        spec = response_format.schema_spec
        return [{"name": spec.name, "parameters": spec.json_schema}]
    if not isinstance(response_format, ToolStrategy):
        response_format = ToolStrategy(getattr(response_format, "schema", response_format))
    return [OutputToolBinding.from_schema_spec(spec).tool for spec in response_format.schema_specs]
