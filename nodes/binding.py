"""The model with its tools bound, in the form its provider takes."""

from typing import Any

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable

from ..memory.errors import SettingsError
from .collaborators import Collaborators

_NO_CALLS: dict[str, Any] = {"anthropic-chat": {"type": "none"}}
"""How a provider is told not to call tools, by LangChain's model type; "none" for all others."""


def bound(collaborators: Collaborators, *, last: bool) -> Runnable[LanguageModelInput, AIMessage]:
    """Return the model with all tools; for the `last` call of a turn told not to call them.

    The tools stay bound then too: providers refuse a history with calls but without tools.
    """
    model, tools = taking_tools(collaborators.model), list(collaborators.schemas)
    if not last:
        return model.bind_tools(tools)
    return model.bind_tools(tools, tool_choice=no_calls(model))


def taking_tools(model: BaseChatModel) -> BaseChatModel:
    """Return a model; raises `SettingsError` if it takes no tools, such as LangChain's fakes."""
    known = getattr(type(model), "bind_tools", BaseChatModel.bind_tools)
    if known is BaseChatModel.bind_tools:
        raise SettingsError(
            f"{type(model).__name__} takes no tools, which the memory needs: pass a chat model "
            "with bind_tools, and not what with_retry() or with_fallbacks() make of it"
        )
    return model


def no_calls(model: BaseChatModel) -> Any:
    """Return the `tool_choice` that tells a model not to call tools."""
    return _NO_CALLS.get(model._llm_type, "none")  # noqa: SLF001 (LangChain's name for the kind)
