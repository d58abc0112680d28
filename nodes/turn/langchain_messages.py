"""Messages of LangChain as plain data and back; answers of models made fit to be kept."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, messages_from_dict
from pydantic_core import to_jsonable_python

from ...memory.messages import Message, broken, calls, clean, unanswered, unserialisable
from ...memory.valid_history import no_result
from ...prompts.loader import render

_Message = TypeVar("_Message", bound=BaseMessage)


def to_dicts(messages: Sequence[BaseMessage]) -> tuple[Message, ...]:
    """Return messages in LangChain's serialised form, defaults left out, without lone surrogates.

    What JSON cannot hold (an artifact, say) becomes a marker that names its type. A message gives
    the same data before and after it went through a checkpoint.
    """
    return tuple({"type": message.type, "data": dict(_said(message))} for message in messages)


def from_dicts(messages: Sequence[Message]) -> list[BaseMessage]:
    """Return the LangChain messages of plain ones; nothing but messages is ever constructed."""
    return messages_from_dict([dict(message) for message in messages])


def cleaned(message: _Message) -> _Message:
    """Return a message with its lone surrogates replaced; the same one if there are none."""
    data = dict(message)
    return type(message)(**clean(data)) if broken(data) else message


def _said(message: BaseMessage) -> Iterator[tuple[str, Any]]:
    """Yield the fields that are not at their default."""
    defaults = _defaults(type(message))
    for name, value in message:
        if name != "type" and (name not in defaults or _differ(value, defaults[name])):
            yield name, jsonable(value)


@cache
def _defaults(kind: type[BaseMessage]) -> Mapping[str, Any]:
    """Return the defaults of the fields that have one; finding them takes pydantic long."""
    return {
        name: field.get_default(call_default_factory=True)
        for name, field in kind.model_fields.items()
        if not field.is_required()
    }


def _differ(value: Any, default: Any) -> bool:
    """Tell whether two values differ; an array differs from its default by its type."""
    return type(value) is not type(default) or bool(value != default)


def jsonable(value: Any) -> Any:
    """Return a value as JSON gives it back; a marker for what it cannot hold.

    >>> jsonable({"sizes": (2, 1), "names": {"b", "a"}})
    {'sizes': [2, 1], 'names': ['a', 'b']}
    """
    if type(value) is str:
        return clean(value)
    try:
        plain = to_jsonable_python(_ordered(value), fallback=unserialisable, bytes_mode="base64")
        return clean(json.loads(json.dumps(plain)))
    except (ValueError, TypeError, RecursionError):
        return unserialisable(value)


def _ordered(value: Any) -> Any:
    """Return a value with its sets as sorted lists: their order differs between processes."""
    if isinstance(value, set | frozenset):
        return sorted((_ordered(item) for item in value), key=repr)
    if type(value) is dict:
        return {key: _ordered(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return [_ordered(item) for item in value]
    return value


def accepted(answer: AIMessage, taken: Collection[str | None]) -> AIMessage:
    """Return the answer with an id of its own and a distinct id for each call.

    Cached models repeat message ids, and a repeated id would overwrite the earlier message.
    """
    if answer.id is None or answer.id in taken:
        answer = answer.model_copy(update={"id": str(uuid4())})
    return cleaned(with_ids(answer))


def with_ids(message: _Message) -> _Message:
    """Return a message each of whose calls has a name and an id of its own."""
    if not isinstance(message, AIMessage):
        return message
    named = _with_ids([*message.tool_calls, *message.invalid_tool_calls])
    valid = len(message.tool_calls)
    update: dict[str, Any] = {"tool_calls": named[:valid], "invalid_tool_calls": named[valid:]}
    return message.model_copy(update=update)


def rounds(messages: Iterable[BaseMessage]) -> int:
    """Count the rounds of tool calls among the messages."""
    answers = (message for message in messages if isinstance(message, AIMessage))
    return sum(1 for answer in answers if answer.tool_calls or answer.invalid_tool_calls)


def cut_short(messages: Sequence[BaseMessage], limit: int) -> list[BaseMessage]:
    """Return an answer that may call no tools: calls get an error result, and words follow."""
    plain = to_dicts(messages)
    if not calls(plain[0]):
        return [*messages]
    why = render("too_many_rounds", limit=limit)
    left = [no_result(call, why)["data"] for call in unanswered(plain)]
    results = [ToolMessage(**data, id=str(uuid4())) for data in left]
    return [*messages, *results, AIMessage(render("no_answer", limit=limit), id=str(uuid4()))]


def _with_ids(calls: Sequence[Any]) -> list[Any]:
    """Return calls with a name and an id each; an id that is missing or repeated is replaced."""
    ids = [call.get("id") for call in calls]
    return [
        {**call, "name": call.get("name") or "", "id": call_id if fit else f"call_{uuid4().hex}"}
        for at, (call, call_id) in enumerate(zip(calls, ids, strict=True))
        for fit in [call_id and call_id not in ids[:at]]
    ]
