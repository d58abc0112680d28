"""A chat model without a model: every command and example runs with no key and no network.

It reads only the messages it is given. It calls the memory tools on plain requests ("let's work
on …", "I need to fix …", "that's all"), an application's tools on "use tool NAME with key=value",
and otherwise quotes the best matching sentence of its prompt. A question that nothing there answers
is searched for, once a turn, small talk aside. So what it can answer shows what the context holds
and what the search finds. It keeps ports, versions and addresses in a state block if it is told
of one. It understands nothing and invents nothing.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, message_to_dict
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.output_parsers import BaseOutputParser, JsonOutputParser, PydanticOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from pydantic import BaseModel, Field

from ..memory.messages import fingerprint
from ..memory.tokens import REPLY_OVERHEAD, TokenCounter, count, count_message, count_tools
from .offline.reply import Reply, reply, with_block
from .offline.writing import as_json, asks_background, background, extracted, filled, summarised

_WORDS = re.compile(r"\s*\S+\s*|\s+")


class OfflineModel(BaseChatModel):
    """A rule-based chat model: deterministic, instant, with tools, streaming and structure."""

    counter: TokenCounter = Field(default=count, exclude=True)
    """Counts the tokens that usage reports."""

    @property
    def _llm_type(self) -> str:
        return "ebbtide-offline"

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        return {"model_name": "offline"}

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | dict[str, Any] | bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return the model with these tools; `tool_choice` as for OpenAI."""
        formatted = [convert_to_openai_tool(tool) for tool in tools]
        return self.bind(tools=formatted, tool_choice=tool_choice, **kwargs)

    def with_structured_output(
        self, schema: dict[str, Any] | type, **_kwargs: Any
    ) -> Runnable[LanguageModelInput, dict[str, Any] | BaseModel]:
        """Return the model answering with an instance of `schema`, whatever the method.

        `summary`, `keywords`, `importance`, `new` and `done` are taken from the prompt; other
        fields get the least value of their type.
        """
        described = convert_to_json_schema(schema)
        return self.bind(response_format={"json_schema": {"schema": described}}) | _parser(schema)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 (the base class's signature)
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        message = self._answer(messages, kwargs)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in _chunks(self._answer(messages, kwargs)):
            yield ChatGenerationChunk(message=chunk)

    def _answer(self, messages: Sequence[BaseMessage], options: Mapping[str, Any]) -> AIMessage:
        tools = [tool for tool in options.get("tools") or () if "function" in tool]
        functions = [tool["function"] for tool in tools]
        known = {one["name"]: one.get("parameters") or {} for one in functions}
        schema = (options.get("response_format") or {}).get("json_schema", {}).get("schema")
        choice = _choice(options.get("tool_choice"))
        answer = Reply() if schema and not known else reply(messages, known, choice)
        if schema and not answer.calls:
            told = {**summarised(messages), **extracted(messages)}
            answer = Reply(as_json(filled(schema, told)))
        elif not known and asks_background(messages):
            answer = Reply(background(messages))
        elif not answer.calls:
            answer = Reply(with_block(answer.text, messages))
        message = _message(answer, messages)
        message.usage_metadata = self._usage(messages, tools, message)
        return message

    def _usage(
        self,
        messages: Sequence[BaseMessage],
        tools: Sequence[Mapping[str, Any]],
        answer: AIMessage,
    ) -> UsageMetadata:
        read = sum(count_message(message_to_dict(one), self.counter) for one in messages)
        read += REPLY_OVERHEAD + count_tools(tools, self.counter)
        written = count_message(message_to_dict(answer), self.counter)
        return UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)


def _choice(given: object) -> str:
    if isinstance(given, Mapping):
        return str(given.get("function", given).get("name") or given.get("type"))
    if isinstance(given, bool):
        return "any" if given else "auto"
    return str(given or "auto")


def _parser(schema: dict[str, Any] | type) -> BaseOutputParser[Any]:
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        return PydanticOutputParser(pydantic_object=schema)
    return JsonOutputParser()


def _message(answer: Reply, messages: Sequence[BaseMessage]) -> AIMessage:
    read = [[one.type, one.content, getattr(one, "tool_calls", None)] for one in messages]
    calls = [
        {
            "name": call.tool,
            "args": dict(call.args),
            "id": f"call_{fingerprint([read, number, call.tool])}",
            "type": "tool_call",
        }
        for number, call in enumerate(answer.calls)
    ]
    return AIMessage(answer.text, tool_calls=calls, response_metadata={"model_name": "offline"})


def _chunks(message: AIMessage) -> Iterator[AIMessageChunk]:
    """Yield an answer word by word, each call as its name and then its arguments."""
    for word in _WORDS.findall(str(message.text)):
        yield AIMessageChunk(content=word)
    for index, call in enumerate(message.tool_calls):
        named = tool_call_chunk(name=call["name"], args="", id=call["id"], index=index)
        given = tool_call_chunk(args=json.dumps(call["args"], ensure_ascii=False), index=index)
        yield from (AIMessageChunk(content="", tool_call_chunks=[part]) for part in (named, given))
    yield AIMessageChunk(
        content="",
        usage_metadata=message.usage_metadata,
        response_metadata=message.response_metadata,
        chunk_position="last",
    )
