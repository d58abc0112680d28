"""The parts of an agent that its nodes share: models, archive, settings, tools, attention."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, lru_cache
from operator import attrgetter, itemgetter
from typing import Any

from cachetools import LRUCache, cachedmethod
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.base import RunnableBinding
from langchain_core.runnables.config import merge_configs
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.runnables.fallbacks import RunnableWithFallbacks
from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime
from sqlalchemy.util import memoized_property

from ...memory.archive.protocol import Archive
from ...memory.attention.law import Attention
from ...memory.attention.surfacing import Attended
from ...memory.blocks import refused_by
from ...memory.context.budget import LEAST_ROOM, Part, fixed_parts, instructions, room
from ...memory.errors import AttentionError, SettingsError
from ...memory.fences import Fences
from ...memory.keywords import KeywordCache
from ...memory.locks import CACHES
from ...memory.questions import What
from ...memory.running_turn import LaidOut, Run, laid_out_cache
from ...memory.salience.merge import Similarity
from ...memory.search.embeddings import Embedder
from ...memory.serialised import fingerprint
from ...memory.settings import Settings, resolve
from ...memory.tokens import REPLY_OVERHEAD, TokenCounter
from ...memory.turn import Session
from ...memory.view import ArchiveView
from ..ask import Models

_log = logging.getLogger("ebbtide.attention")
_context_log = logging.getLogger("ebbtide.context")

CACHED_TURNS = 256
"""Turns that have a cache at most: those that run at once, and some that broke off."""

_OPENINGS = 16
"""Cached openings of a context, and their events: the settings seldom differ between runs."""

_NAMED: Mapping[What, str] = {"extraction": "extraction_model", "background": "compression_model"}
"""The settings that name a model, by what the model is asked for."""


@dataclass(frozen=True, eq=False)  # without slots: `cachedmethod` needs a `__dict__`
class AgentParts:
    """The agent's parts; `models` answer the memory's questions, by their purpose.

    `schemas` are all tools as the provider sees them. `schema_tokens` counts the schemas of all
    tools, `app_schema_tokens` those of the application's.
    `window` has the tokens that a call may have if the model takes fewer than its profile says;
    `short` are those of the budget that one call alone may not have.
    `system` is the application's part of the system message. `attention` is a cache in front of
    the archive's. `fixed` has the tokens of system message and tools if only the caller knows them.
    `turns` are those that run, for their next nodes, by session, tip and nonce.
    `limits` has the last limit of each thread: a run that fails leaves none in the state.
    `provider` serves the model.
    `given` are the purposes for which the application gave a model, and `load` makes one by name.
    """

    model: BaseChatModel
    models: Models
    similarity: Similarity
    archive: Archive
    settings: Settings
    count: TokenCounter
    system: str
    tools: Mapping[str, BaseTool]
    schemas: tuple[dict[str, Any], ...]
    schema_tokens: int
    app_schema_tokens: int
    embedder: Embedder | None = None
    attention: Attention | None = None
    fixed: tuple[int, int] | None = None
    window: int | None = None
    short: int = 0
    _openings: LRUCache[Any, Any] = field(default_factory=lambda: LRUCache(_OPENINGS), init=False)
    given: frozenset[What] = frozenset()
    load: Callable[[str], BaseChatModel] = init_chat_model
    keywords: KeywordCache = field(default_factory=KeywordCache)
    laid_out: LaidOut = field(default_factory=laid_out_cache)
    turns: LRUCache[Any, Any] = field(default_factory=lambda: LRUCache(CACHED_TURNS))
    limits: LRUCache[Any, Any] = field(default_factory=lambda: LRUCache(CACHED_TURNS))
    provider: str = field(init=False)

    def __post_init__(self) -> None:
        """Note who serves the model."""
        object.__setattr__(self, "provider", provider_of(self.model))

    @property
    def profile(self) -> Mapping[str, Any]:
        """What the model says that it takes."""
        is_plain = isinstance(self.model, BaseChatModel)  # and not what `bind` made of one
        return getattr(self.model if is_plain else base_of(self.model), "profile", None) or {}

    @memoized_property
    def secret(self) -> bytes:
        """What keys the digests of states; see `digest_of`."""
        return self.archive.keyed_digest("state").encode()

    @memoized_property
    def refused(self) -> frozenset[str]:
        """The kinds of attachments that the model does not take."""
        return refused_by(self.profile)

    @memoized_property
    def alone(self) -> int:
        """The tokens of what an application without a memory would send in each call."""
        if not self.system:  # then it sends no system message
            return REPLY_OVERHEAD + self.app_schema_tokens
        system, tools = fixed_parts(self.system, self.app_schema_tokens, self.count)
        return system.tokens + tools.tokens

    def forget(self) -> None:
        """Empty the caches of what was read of the archive: something was erased in it."""
        self.keywords.clear()
        with CACHES:
            self.laid_out.clear()
            self.turns.clear()

    def run(self, context: object, given: tuple[Any, ...], fences: Fences) -> Run:
        """Return what the nodes of a run have in common; see `settings_of`.

        Of what is `given`, the thread's window and limit come last: a context is no larger than
        what the provider of this model refused earlier in the thread.
        """
        *_, window, limit = given
        settings = self.settings_of(context, window)
        if limit:
            # The instructions may have grown since.
            floor = sum(self.sizes(settings)) + LEAST_ROOM
            fitting = min(settings.context_budget, max(floor, limit["tokens"]))
            settings = settings.model_copy(update={"context_budget": fitting})
        fixed = sum(self.sizes(settings))
        return Run(
            settings,
            self.count,
            fences,
            fixed=fixed,
            room=room(settings.context_budget, fixed),
            short=self.short,
            refused=self.refused,
            provider=self.provider,
            embedder=self.embedder,
            laid_out=self.laid_out,
            given=given,
        )

    def limit_of(self, runtime: Runtime[Settings], state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the `limit` of this model that holds in a thread, empty if there is none."""
        with CACHES:
            limits = state.get("limit"), self.limits.get(_thread(runtime, state))
        own = [limit for limit in limits if limit and limit["model"] == name_of(self.model)]
        return min(own, key=itemgetter("tokens"), default={})

    def limit(self, runtime: Runtime[Settings], state: Mapping[str, Any], tokens: int) -> None:
        """Let contexts of a thread have no more tokens than these, as long as the model stays."""
        with CACHES:
            self.limits[_thread(runtime, state)] = {"model": name_of(self.model), "tokens": tokens}

    def settings_of(self, context: object, ambient_window: int | None = None) -> Settings:
        """Return the settings of a run, with no larger budget than the model's window.

        The `ambient_window` of the thread comes before the agent's, and the run's before that.
        """
        defaults = self.settings
        if ambient_window is not None:
            defaults = defaults.model_copy(update={"ambient_window": ambient_window})
        settings = defaults if context is None else resolve(context, defaults)
        tokens = self.profile.get("max_input_tokens")
        known = tokens if isinstance(tokens, int) and tokens > 0 else None
        if known is not None and known < settings.context_budget:
            _warn_of_window(type(self.model).__name__, known, settings.context_budget)
        budget = min([settings.context_budget, *filter(None, (known, self.window))])
        if budget == settings.context_budget:
            return settings
        return settings.model_copy(update={"context_budget": budget})

    @cachedmethod(
        attrgetter("_openings"),
        key=lambda _, settings: (settings.anchor, settings.context_budget),
        lock=lambda _: CACHES,
    )
    def opening(self, settings: Settings) -> tuple[Part, Part]:
        """Return the parts that every call has: the system message and the tool schemas."""
        system, tools = fixed_parts(
            instructions(self.system, settings), self.schema_tokens, self.count
        )
        if self.fixed is None:
            return system, tools
        return replace(system, tokens=self.fixed[0]), replace(tools, tokens=self.fixed[1])

    @cachedmethod(
        attrgetter("_openings"),
        key=lambda _, settings: ("event", settings.anchor, settings.context_budget),
        lock=lambda _: CACHES,
    )
    def opening_event(self, settings: Settings) -> Mapping[str, Any]:
        """Return the event with which these parts are stored, when they are new to a thread."""
        content = instructions(self.system, settings)
        tools = [*self.schemas]
        digest = fingerprint([content, tools])
        return {"type": "fixed", "digest": digest, "system": content, "tools": tools}

    def sizes(self, settings: Settings) -> tuple[int, int]:
        """Return the tokens of the system message and of the tool schemas."""
        system, tools = self.opening(settings)
        return system.tokens, tools.tokens

    def models_of(self, settings: Settings) -> Models:
        """Return the models that answer: those given, else those that the settings name.

        Raises `SettingsError` for a name of which no model can be made.
        """
        models, load = dict(self.models), cache(self.load)  # one object for one name
        for what, field_name in _NAMED.items():
            name = getattr(settings, field_name)
            if not name or what in self.given:
                continue
            try:
                models[what] = load(name)
            except Exception as error:  # each provider's package raises errors of its own
                problem = f"{field_name} {name!r} cannot be used"
                # Further lines of an error may quote what the model was made with, as keys.
                reason = str(error).partition("\n")[0]
                raise SettingsError(f"{problem}: {type(error).__name__}: {reason}") from error
        return models

    def attention_of(self, session: Session, settings: Settings) -> Attention | None:
        """Return the agent's attention or the archive's, None for a user without a name."""
        if session.anonymous:
            return None
        return self.attention or self.archive.attention(settings.attention_threshold)

    def attended(self, view: ArchiveView, runtime: Runtime[Settings]) -> Attended | None:
        """Return the attention of a session's user now, None for a user without a name."""
        settings = self.settings_of(runtime.context)
        attention = self.attention_of(view.session, settings)
        return None if attention is None else Attended(attention, view, settings, datetime.now(UTC))

    def memories_changed(self, session: Session) -> bool:
        """Invalidate the agent's own attention, a cache; return False if that failed."""
        if self.attention is None or session.anonymous:
            return True
        try:
            return self.attention.changed(session.user)
        except AttentionError as error:
            _log.warning("attention of %r may be a day old: %s", session.user, error)
            return False


def _thread(runtime: Runtime[Settings], state: Mapping[str, Any]) -> Any:
    info = runtime.execution_info
    return (info and info.thread_id) or state.get("nonce")


@lru_cache(maxsize=100)
def _warn_of_window(model: str, window: int, budget: int) -> None:
    """Warn once of a budget that the model does not take."""
    _context_log.warning(
        "%s takes %d tokens, so context_budget is %d and not %d", model, window, window, budget
    )


_INSIDE: Mapping[type[Any], str] = {
    RunnableBinding: "bound",
    DynamicRunnable: "default",
    RunnableWithFallbacks: "runnable",
}


def base_of(model: Any) -> Any:
    """Return the chat model inside what `bind`, `with_config` or `configurable_fields` made.

    >>> from langchain_core.language_models import GenericFakeChatModel
    >>> model = GenericFakeChatModel(messages=iter(["hi"]))
    >>> base_of(model.bind(stop=["x"]).with_config(tags=["y"])) is model
    True
    """
    while isinstance(model, tuple(_INSIDE)):
        model = getattr(
            model, next(name for kind, name in _INSIDE.items() if isinstance(model, kind))
        )
    return model


def unwrapped(model: Any, config: RunnableConfig) -> tuple[Any, dict[str, Any], RunnableConfig]:
    """Return the model that takes tools, and arguments and config that stand around it.

    Tools are bound to what is inside a binding, which would lose its arguments; which model a
    configurable one is, the run's config says.
    """
    kwargs: dict[str, Any] = {}
    own: RunnableConfig = {}
    while isinstance(model, RunnableBinding | DynamicRunnable):
        if isinstance(model, DynamicRunnable):
            model, _ = model.prepare(config)
        else:
            kwargs = {**model.kwargs, **kwargs}
            own = merge_configs(model.config, own)
            model = model.bound
    kwargs.pop("tools", None)
    return model, kwargs, own


def takes_tools(model: Any) -> bool:
    """Tell whether a model takes tools, which LangChain's fakes do not."""
    base = base_of(model)
    bind_tools = getattr(type(base), "bind_tools", BaseChatModel.bind_tools)
    return bind_tools is not BaseChatModel.bind_tools


def name_of(model: Any) -> str:
    """Return the name under which a provider knows a model, empty if it has none."""
    base = base_of(model)
    names = (getattr(base, field, None) for field in ("model_name", "model", "model_id"))
    return next((name for name in names if isinstance(name, str)), "")


_PROVIDERS: Mapping[str, str] = {
    **dict.fromkeys(("openai-chat", "azure-openai-chat"), "openai"),
    "anthropic-chat": "anthropic",
    "chat-google-generative-ai": "google_genai",
}
"""The `model_provider` that adapters note in their answers, by LangChain's names for models."""


def provider_of(model: Any) -> str:
    """Return who serves a model, as its adapter notes in its answers; empty if unknown."""
    return _PROVIDERS.get(getattr(base_of(model), "_llm_type", ""), "")
