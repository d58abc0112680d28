"""The model with its tools bound, in the form its provider takes."""

from typing import Any

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable

from .collaborators import Collaborators

_NO_CALLS: dict[str, Any] = {"anthropic-chat": {"type": "none"}}
"""How a provider is told not to call tools, by LangChain's model type; "none" for all others."""


def bound(collaborators: Collaborators, *, last: bool) -> Runnable[LanguageModelInput, AIMessage]:
    """Return the model with all tools; for the `last` call of a turn told not to call them.

    The tools stay bound then too: providers refuse a history with calls but without tools.
    """
    model, tools = collaborators.model, list(collaborators.schemas)
    if not last:
        return model.bind_tools(tools)
    return model.bind_tools(tools, tool_choice=no_calls(model))


def no_calls(model: BaseChatModel) -> Any:
    """Return the `tool_choice` that tells a model not to call tools."""
    return _NO_CALLS.get(model._llm_type, "none")  # noqa: SLF001 (LangChain's name for the kind)
