"""Doubles: ordinary implementations that tests put where a user has a model or a tokenizer."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeAlias, cast
from zlib import crc32

from langchain.agents.middleware import AgentMiddleware
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.output_parsers import BaseOutputParser, JsonOutputParser, PydanticOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt
from pydantic import BaseModel, Field, PrivateAttr


@dataclass(frozen=True)
class Broken:
    """An answer that breaks off: streaming gives `text`, then `error`; otherwise only `error`."""

    text: str
    error: Exception


Answer: TypeAlias = AIMessage | str | Exception | Broken
Scripted: TypeAlias = Answer | Callable[[list[BaseMessage]], Answer]
Structured: TypeAlias = Mapping[str, Any] | BaseModel | str | Exception


@dataclass(frozen=True)
class Sent:
    """One request as the model got it; `options` holds all else that was bound or passed."""

    messages: list[BaseMessage]
    tools: list[dict[str, Any]] = field(default_factory=list)
    tool_choice: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tool_names(self) -> list[str]:
        """The names of the tools that were bound, in their order."""
        return [tool["function"]["name"] for tool in self.tools]

    @property
    def text(self) -> str:
        """The texts of all messages, one after the other."""
        return "\n".join(str(message.text) for message in self.messages)


class ScriptedModel(BaseChatModel):
    """A chat model that records what it is sent and answers from a script.

    `answers` is used up one by one; an item may be a message, a text, an error to raise, or a
    function of the messages. A single function instead of a list answers every request.
    `structured` is the script of `with_structured_output`: values, raw text, or errors.
    `methods` are the ways of structured output that it has; others raise NotImplementedError.
    `kind` is the type by which LangChain knows a provider's models.
    """

    answers: list[Any] | Callable[[list[BaseMessage]], Any] = Field(default_factory=list)
    structured: list[Any] | Callable[[list[BaseMessage]], Any] = Field(default_factory=list)
    methods: tuple[str, ...] = ("json_schema", "function_calling", "json_mode")
    kind: str = "scripted"

    _sent: list[Sent] = PrivateAttr(default_factory=list)
    _asked: list[Sent] = PrivateAttr(default_factory=list)
    _lock: Any = PrivateAttr(default_factory=Lock)

    @property
    def sent(self) -> list[Sent]:
        """The requests for an ordinary answer, oldest first."""
        return self._sent

    @property
    def asked(self) -> list[Sent]:
        """The requests for a structured answer, oldest first."""
        return self._asked

    @property
    def _llm_type(self) -> str:
        return self.kind

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: Any = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return the model with these tools bound, which only shows in what it records."""
        formatted = [convert_to_openai_tool(tool) for tool in tools]
        return self.bind(tools=formatted, tool_choice=tool_choice, **kwargs)

    def with_structured_output(
        self,
        schema: dict[str, Any] | type,
        *,
        method: str = "json_schema",
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, dict[str, Any] | BaseModel]:
        """Return the model answering from `structured`, parsed as `schema`."""
        if method not in self.methods:
            raise NotImplementedError(f"no structured output by {method!r}")
        return self.bind(structured_schema=schema, method=method, **kwargs) | _parser(schema)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 (the base class's signature)
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 (as above)
        **kwargs: Any,
    ) -> ChatResult:
        answer = self._next(messages, kwargs)
        if isinstance(answer, Broken):
            raise answer.error
        return ChatResult(generations=[ChatGeneration(message=answer)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 (as above)
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 (as above)
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        answer = self._next(messages, kwargs)
        for chunk in _pieces(answer.text) if isinstance(answer, Broken) else _chunks(answer):
            yield ChatGenerationChunk(message=chunk)
        if isinstance(answer, Broken):
            raise answer.error

    def _next(self, messages: list[BaseMessage], options: Mapping[str, Any]) -> AIMessage | Broken:
        """Record a request and return its answer, a fresh copy; errors are raised."""
        wanted = "structured_schema" in options
        log, script = (self._asked, self.structured) if wanted else (self._sent, self.answers)
        known = {"tools", "tool_choice"}
        rest = {key: value for key, value in options.items() if key not in known}
        sent = Sent([*messages], [*options.get("tools", ())], options.get("tool_choice"), rest)
        with self._lock:
            log.append(sent)
            item = script if callable(script) else _item(script, len(log))
        answer = item(messages) if callable(item) else item
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Broken) else _message(answer)


class Concepts(Embeddings):
    """Embeddings of a table: each group of synonyms is one concept, any other word one of its own.

    It records what it is asked. `error`, if it is set, is raised; `bend` is applied to the vectors
    of documents. `seed` makes another model, `size` is how many numbers a vector has.
    """

    def __init__(self, *synonyms: str, seed: int = 0, size: int = 256) -> None:
        """Take groups of synonyms, their words apart by spaces."""
        self.table = {word: group for group in synonyms for word in group.split()}
        self.seed, self.size = seed, size
        self.model_name = f"concepts-{seed}"
        self.documents: list[str] = []
        self.queries: list[str] = []
        self.error: Exception | None = None
        self.bend: Callable[[list[list[float]]], Any] = list

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector for each text."""
        self.documents += texts
        return cast("list[list[float]]", self.bend([self._vector(text) for text in texts]))

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        self.queries.append(text)
        return self._vector(text)

    def _vector(self, text: str) -> list[float]:
        if self.error is not None:
            raise self.error
        vector = [0.0] * self.size
        for word in re.findall(r"\w+", text.lower()):
            concept = f"{self.seed} {self.table.get(word, word)}"
            vector[crc32(concept.encode()) % self.size] += 1.0
        return vector


def call(tool: str, /, **args: Any) -> AIMessage:
    """Return an assistant message that calls one tool."""
    return AIMessage("", tool_calls=[_call(tool, args, 1)])


def together(*messages: AIMessage, text: str = "") -> AIMessage:
    """Return one assistant message with the calls of all, the invalid ones included."""
    valid = [one for message in messages for one in message.tool_calls]
    invalid = [one for message in messages for one in message.invalid_tool_calls]
    return AIMessage(
        text,
        tool_calls=[_call(one["name"], one["args"], n) for n, one in enumerate(valid, 1)],
        invalid_tool_calls=invalid,
    )


def malformed(tool: str, arguments: str) -> AIMessage:
    """Return an assistant message whose call has arguments that are not a JSON object."""
    bad = {"name": tool, "args": arguments, "id": f"bad_{tool}", "error": "not JSON"}
    return AIMessage("", invalid_tool_calls=[{**bad, "type": "invalid_tool_call"}])


def words(text: str) -> int:
    """Count words: the token counter of unit tests, so that budgets can be checked by eye."""
    return len(text.split())


def _item(script: Sequence[Any], number: int) -> Any:
    if number > len(script):
        raise AssertionError(f"the model was asked {number} times, its script has {len(script)}")
    return script[number - 1]


def _message(answer: Any) -> AIMessage:
    if isinstance(answer, AIMessage):
        return answer.model_copy(deep=True)
    if isinstance(answer, BaseModel):
        return AIMessage(answer.model_dump_json())
    return AIMessage(answer if isinstance(answer, str) else json.dumps(answer))


def _call(tool: str, args: Mapping[str, Any], number: int) -> Any:
    return {"name": tool, "args": dict(args), "id": f"call_{number}_{tool}", "type": "tool_call"}


def _parser(schema: dict[str, Any] | type) -> BaseOutputParser[Any]:
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        return PydanticOutputParser(pydantic_object=schema)
    return JsonOutputParser()


def _pieces(text: str) -> Iterator[AIMessageChunk]:
    for piece in re.findall(r"\s*\S+\s*|\s+", text):
        yield AIMessageChunk(content=piece)


def _chunks(message: AIMessage) -> Iterator[AIMessageChunk]:
    """Yield a message in pieces: text by word, the arguments of calls by five characters."""
    yield from _pieces(str(message.text))
    valid = [(one["name"], json.dumps(one["args"]), one["id"]) for one in message.tool_calls]
    invalid = [(one["name"], one["args"], one["id"]) for one in message.invalid_tool_calls]
    for index, (name, args, call_id) in enumerate([*valid, *invalid]):
        parts = [tool_call_chunk(name=name, args="", id=call_id, index=index)]
        parts += [
            tool_call_chunk(args=piece, index=index)
            for piece in re.findall(r"(?s).{1,5}", args or "")
        ]
        for part in parts:
            yield AIMessageChunk(content="", tool_call_chunks=[part])
    yield AIMessageChunk(
        content="",
        usage_metadata=message.usage_metadata,
        response_metadata=message.response_metadata,
        chunk_position="last",
    )


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def approve(what: str) -> str:
    """Ask a person."""
    return f"{what}: {interrupt(what)}"


class Changing(AgentMiddleware):
    """Changes the messages of each request."""

    def __init__(self, change: Callable[[list[Any]], list[Any]]) -> None:
        """Take the change."""
        super().__init__()
        self.change = change

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Change them."""
        return handler(request.override(messages=self.change(request.messages)))


class Keeping(InMemorySaver):
    """A checkpointer that cannot delete anything."""

    delete_thread = BaseCheckpointSaver.delete_thread
    adelete_thread = BaseCheckpointSaver.adelete_thread
