"""The agents that are compared: Ebbtide and its alternatives."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Required, TypeAlias

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, AgentState, SummarizationMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, SystemMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from talks import look_up
from typing_extensions import TypedDict

from ebbtide import DiskArchive, Settings, SqlArchive, create_memory_agent

Saver: TypeAlias = BaseCheckpointSaver[Any]
Maker: TypeAlias = Callable[[BaseChatModel, Saver, Path], Any]
"""Makes an agent of a model, a checkpointer and a folder for its files."""

PROMPT = "You are a helpful assistant."
DELTA = "DeltaChannel"
"""The peer that sends what `create_agent` sends, and stores it as LangGraph's `DeltaChannel`."""

LANGMEM_TOKENS = 2_000
"""Tokens that LangMem's node may keep of what was said."""

Tools: TypeAlias = Sequence[Callable[..., Any]]


def ours(archive: SqlArchive | None = None, *, tools: Tools = (look_up,), **settings: Any) -> Maker:
    """Return the maker of our agent with these settings, on an archive or a new one."""

    def make(model: BaseChatModel, saver: Saver, folder: Path) -> Any:
        return create_memory_agent(
            model,
            tools=tools,
            archive=archive or DiskArchive(folder, durable=False),
            checkpointer=saver,
            settings=Settings(**settings),
            system_prompt=PROMPT,
        )

    return make


class DeltaState(AgentState[Any]):
    """State whose checkpoints have the new messages, and every hundredth update all of them."""

    messages: Required[Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]]


def langchain(
    *middleware: AgentMiddleware[Any, Any],
    summarise_at: int = 0,
    tools: Tools = (look_up,),
    state: type[AgentState[Any]] | None = None,
) -> Maker:
    """Return the maker of LangChain's agent; it sends all, or summarises from so many tokens on."""

    def make(model: BaseChatModel, saver: Saver, _folder: Path) -> Any:
        layers: list[Any] = [*middleware]
        if summarise_at:
            layers.append(SummarizationMiddleware(model, trigger=("tokens", summarise_at)))
        return create_agent(
            model,
            tools,
            system_prompt=PROMPT,
            checkpointer=saver,
            middleware=layers,
            state_schema=state,
        )

    return make


class _LangMemState(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    summarized_messages: list[AnyMessage]
    context: dict[str, Any]


def langmem(
    model: BaseChatModel,
    saver: Saver,
    _folder: Path,
    *,
    tools: Tools = (look_up,),
    max_tokens: int = LANGMEM_TOKENS,
) -> Any:
    """Return an agent with LangMem's node, wired as in its documentation, and tools."""
    node = import_module("langmem.short_term").SummarizationNode
    bound = model.bind_tools(tools)

    def call_model(state: _LangMemState) -> dict[str, Any]:
        request = [SystemMessage(PROMPT), *state["summarized_messages"]]
        return {"messages": [bound.invoke(request)]}

    graph = StateGraph(_LangMemState)
    graph.add_node("summarize", node(model=model, max_tokens=max_tokens))
    graph.add_node("call_model", call_model)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "summarize")
    graph.add_edge("summarize", "call_model")
    graph.add_conditional_edges("call_model", tools_condition)
    graph.add_edge("tools", "summarize")
    return graph.compile(checkpointer=saver)


def deep(model: BaseChatModel, saver: Saver, _folder: Path, *, tools: Tools = (look_up,)) -> Any:
    """Return a deep agent with its defaults."""
    create = import_module("deepagents").create_deep_agent
    return create(model, tools, system_prompt=PROMPT, checkpointer=saver)


PEERS: Mapping[str, tuple[Maker, int | None]] = {
    "create_agent": (langchain(), None),
    "SummarizationMiddleware, 4,000": (langchain(summarise_at=4_000), 4_000),
    "SummarizationMiddleware, 16,000": (langchain(summarise_at=16_000), 16_000),
    "LangMem SummarizationNode": (langmem, LANGMEM_TOKENS),
    "deepagents": (deep, None),
    DELTA: (langchain(state=DeltaState), None),
}
"""Each peer, and its limit of tokens, None if it has none."""
