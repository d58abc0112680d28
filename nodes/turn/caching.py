"""Breakpoints of the prompt cache, for a provider that caches on request only: Anthropic.

The end of the prompt is cached by an argument, since the next prompt begins with it. One message
gets a breakpoint of its own, so that a rebuild of the context keeps what it leaves as it was.
`AnthropicPromptCachingMiddleware` behind the memory adds two to these; Anthropic takes four.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage

KEY = "cache_control"

BREAKPOINT = {"type": "ephemeral"}


def caches_on_request(model: Any, *given: Any) -> bool:
    """Tell whether a model caches on request, and nothing that it is given has breakpoints.

    `given` are its arguments, tools and messages.
    """
    is_asked = isinstance(model, BaseChatModel) and model._llm_type == "anthropic-chat"  # noqa: SLF001 (LangChain's name for the kind)
    return is_asked and not any(map(_has_breakpoint, (getattr(model, "model_kwargs", {}), *given)))


def with_breakpoint(messages: Sequence[BaseMessage], at: int) -> list[BaseMessage]:
    """Return messages with a breakpoint at the place `at`, or before it where that can have none.

    >>> from langchain_core.messages import AIMessage, HumanMessage
    >>> [one.content for one in with_breakpoint([HumanMessage("Hi"), AIMessage("Hello")], 1)]
    [[{'type': 'text', 'text': 'Hi', 'cache_control': {'type': 'ephemeral'}}], 'Hello']
    """
    for place in range(at, -1, -1):
        message = messages[place]
        content: Any = message.content
        blocks = content
        if content and isinstance(content, str):
            blocks = [{"type": "text", "text": content}]
        # An answer may end in a thought, which can have none.
        if message.type == "ai" or not (blocks and isinstance(blocks[-1], dict)):
            continue
        marked = [*blocks[:-1], {**blocks[-1], KEY: BREAKPOINT}]
        return [
            *messages[:place],
            message.model_copy(update={"content": marked}),
            *messages[place + 1 :],
        ]
    return [*messages]


def _has_breakpoint(given: Any) -> bool:
    if isinstance(given, BaseMessage):
        return isinstance(given.content, list) and any(map(_has_breakpoint, given.content))
    extras = given.get("extras") if isinstance(given, Mapping) else getattr(given, "extras", None)
    return KEY in (extras or ()) or (isinstance(given, Mapping) and KEY in given)
