"""A chat model for tests: it answers from a list, or by rules if it has none."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from threading import Lock
from typing import Any, TypeAlias

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ToolCall,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from ..memory.errors import EbbtideError
from ..memory.tokens import REPLY_OVERHEAD, count, count_message, count_messages, count_tools
from .stand_in import stand_in

Answer: TypeAlias = (
    str
    | AIMessage
    | ToolCall
    | Sequence[ToolCall]
    | Mapping[str, Any]
    | Exception
    | Callable[[list[BaseMessage]], Any]
)
"""A text, a message, one tool call or several, a structured answer, an error to raise, or a
function of the prompt that returns one of these."""


class ScriptError(EbbtideError):
    """The script has no answers left, or has something that is no answer."""


class ScriptedModel(BaseChatModel):
    """A chat model that needs no key and no network, for tests and for trying things out.

    With a list, it returns these answers, one for each call:

    >>> model = ScriptedModel([ToolCall(name="add", args={"a": 1}, id=None), "It is 1."])
    >>> [call["name"] for call in model.invoke("Add 1.").tool_calls], model.invoke("And?").text
    (['add'], 'It is 1.')

    Without a list, it follows rules. "let's work on …", "that's done", "show me the log of …" and
    similar requests call memory tools, and "use NAME with key=value" calls one of your tools. It
    answers anything else with the sentence of the prompt that fits best, so its answers show what
    is in the context.
    """

    answers: list[Any] | None = None

    _prompts: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _lock: Any = PrivateAttr(default_factory=Lock)

    def __init__(self, answers: Iterable[Answer] | None = None, **options: Any) -> None:
        """Take the script; options are those of any chat model of LangChain.

        Raises `ScriptError` for a single answer that is in no list.
        """
        if answers is not None and (
            isinstance(answers, str | bytes | Mapping | AIMessage)
            or not isinstance(answers, Iterable)
        ):
            raise ScriptError(f"answers must be a list of answers, got {answers!r}: pass [...]")
        super().__init__(answers=None if answers is None else [*answers], **options)

    @property
    def prompts(self) -> list[list[BaseMessage]]:
        """The prompts of all calls so far, if it answers from a list."""
        return self._prompts

    @property
    def _llm_type(self) -> str:
        return "ebbtide-scripted"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return the model with these tools. `tool_choice` can force one; "any" forces the last."""
        formatted = [convert_to_openai_tool(tool) for tool in tools]
        return self.bind(tools=formatted, tool_choice=tool_choice, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 (the base class's signature)
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 (as above)
        **kwargs: Any,
    ) -> ChatResult:
        tools, choice = kwargs.get("tools") or [], str(kwargs.get("tool_choice"))
        functions = [t["function"] for t in tools if "function" in t]  # a provider runs others
        schemas = {one["name"]: one.get("parameters", {}) for one in functions}
        last = next(reversed(schemas), "")
        forced = last if choice in {"any", "required"} else choice if choice in schemas else ""
        answer: Any
        if self.answers is None:
            answer = stand_in(messages, {} if choice == "none" else schemas, forced)
        else:
            answer = self._next(messages, self.answers)
        message = _message(answer, messages, forced)
        message.response_metadata = {"model_name": "scripted"} | message.response_metadata
        if message.usage_metadata is None:
            sent = REPLY_OVERHEAD + count_messages(messages, count) + count_tools(tools, count)
            written = count_message(message, count)
            message.usage_metadata = UsageMetadata(
                input_tokens=sent, output_tokens=written, total_tokens=sent + written
            )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _next(self, messages: list[BaseMessage], answers: list[Any]) -> Any:
        with self._lock:
            self._prompts.append([*messages])
            number = len(self._prompts)
        if number > len(answers):
            raise ScriptError(
                f"ScriptedModel was called {number} times, and its script has {len(answers)} "
                "answers: add one"
            )
        return answers[number - 1]

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        answer = self._generate(messages, stop, run_manager, **kwargs).generations[0].message
        for word in re.findall(r"\s*\S+\s*|\s+", answer.text):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))
        rest = answer.model_dump(exclude={"content", "type", "id"})
        last = AIMessageChunk(content="", **rest, chunk_position="last")
        yield ChatGenerationChunk(message=last)


def _message(answer: Any, messages: list[BaseMessage], forced: str) -> AIMessage:
    """Return an answer as a message; a structured one calls the tool that must be called."""
    if callable(answer):
        answer = answer(messages)
    if isinstance(answer, Exception):
        raise answer
    if isinstance(answer, AIMessage):
        return answer.model_copy(deep=True)
    if isinstance(answer, Mapping) and not {"name", "args"} <= {*answer}:
        answer = ToolCall(name=forced, args={**answer}, id=None) if forced else json.dumps(answer)
    if isinstance(answer, str):
        return AIMessage(answer)
    calls = [answer] if isinstance(answer, Mapping) else answer
    if not isinstance(calls, list | tuple) or not all(isinstance(c, Mapping) for c in calls):
        raise ScriptError(
            f"{answer!r} is no answer: pass a text, an AIMessage, a ToolCall or a list of them, "
            "a dictionary for structured output, an error, or a function that returns one of these"
        )
    # Derived from the prompt, so that the same prompt gives the same answer.
    seed = repr([(message.type, message.content) for message in messages])
    made: list[Any] = []
    for number, call in enumerate(calls):
        own_id = blake2b(f"{number} {seed}".encode(), digest_size=8).hexdigest()
        made.append({**call, "id": call.get("id") or f"call_{own_id}"})
    return AIMessage("", tool_calls=made)
