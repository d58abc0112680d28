"""Chat models as applications configure them: what is inside `bind`, `with_config` and the like."""

from collections.abc import Mapping
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.base import RunnableBinding
from langchain_core.runnables.config import merge_configs
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.runnables.fallbacks import RunnableWithFallbacks

from ...memory.errors import SettingsError

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
    while field := next((name for kind, name in _INSIDE.items() if isinstance(model, kind)), ""):
        model = getattr(model, field)
    return model


def opened(model: Any, config: RunnableConfig) -> tuple[Any, dict[str, Any], RunnableConfig]:
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


def taking_tools(model: Any) -> Any:
    """Return the model; raise `SettingsError` if it takes no tools, like LangChain's fakes."""
    if not takes_tools(model):
        raise SettingsError(
            f"{type(model).__name__} takes no tools, which the memory needs: pass a chat model "
            "with bind_tools, and not what with_retry() makes of it"
        )
    return model


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
