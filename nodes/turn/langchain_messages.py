"""Messages of LangChain as plain data and back, and made fit to be kept."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar
from uuid import uuid4

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ToolMessage,
    messages_from_dict,
)
from pydantic_core import to_jsonable_python

from ...memory.messages import Message, broken, clean, unanswered, unserialisable
from ...memory.valid_history import no_result
from ...prompts.loader import render

MADE_HERE = frozenset({"ai", "tool"})
"""Types of the messages that an agent adds."""

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
            yield name, _jsonable(value)


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


def _jsonable(value: Any) -> Any:
    """Return a value as JSON gives it back; a marker for what it cannot hold.

    >>> _jsonable({"sizes": (2, 1), "names": {"b", "a"}})
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


def with_ids(message: _Message) -> _Message:
    """Return a message each of whose calls has a name and an id of its own."""
    if not isinstance(message, AIMessage):
        return message
    named = _with_ids([*message.tool_calls, *message.invalid_tool_calls])
    valid = len(message.tool_calls)
    update: dict[str, Any] = {"tool_calls": named[:valid], "invalid_tool_calls": named[valid:]}
    return message.model_copy(update=update)


def question(messages: Sequence[BaseMessage]) -> int:
    """Return where what the user said last begins, instructions before it included; 0 for nothing.

    >>> question([HumanMessage("Hi"), ToolMessage("", tool_call_id="1"), HumanMessage("Go on")])
    2
    """
    at = max((n for n, message in enumerate(messages) if message.type == "human"), default=0)
    while at > 0 and messages[at - 1].type not in MADE_HERE:
        at -= 1
    return at


def closed(messages: Sequence[BaseMessage], why: str = "") -> list[BaseMessage]:
    """Return messages with an error result for each call that has none, which says why."""
    why = why or render("no_result")
    results = [no_result(call, why)["data"] for call in unanswered(to_dicts(messages))]
    return [*messages, *(ToolMessage(**result, id=str(uuid4())) for result in results)]


def _with_ids(calls: Sequence[Any]) -> list[Any]:
    """Return calls with a name and an id each; an id that is missing or repeated is replaced."""
    ids = [call.get("id") for call in calls]
    return [
        {**call, "name": call.get("name") or "", "id": call_id if fit else f"call_{uuid4().hex}"}
        for at, (call, call_id) in enumerate(zip(calls, ids, strict=True))
        for fit in [call_id and call_id not in ids[:at]]
    ]
