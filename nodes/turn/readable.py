"""Messages with values of the wrong type, put right so that they can be read again.

LangChain checks a message when it is made, not when it is changed: `call["id"] = 5` stays.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from operator import is_
from types import NoneType
from typing import Any

from langchain_core.messages import BaseMessage, ChatMessage
from langchain_core.messages.ai import UsageMetadata
from pydantic import TypeAdapter, ValidationError

from ...memory.serialised import unserialisable
from ...memory.state_block import METADATA_KEY

_READ_AGAIN = frozenset({"human", "ai", "system", "tool", "chat", "function", "remove"})
"""Types of which LangChain makes a message again, beside the chunks of a stream."""

_usage_metadata: TypeAdapter[UsageMetadata] = TypeAdapter(UsageMetadata)


def readable(message: BaseMessage) -> BaseMessage:
    """Return a message whose values have the types that LangChain asks for; the same if they have.

    What has another type is kept as text, or under the key `value`, and left out where it says
    nothing, as None and as a usage of no tokens do. A class of the application's own, which
    LangChain does not make again, becomes a `ChatMessage` in the role of its type.

    Examples:
        >>> from langchain_core.messages import ToolMessage
        >>> result = ToolMessage("Found.", tool_call_id="1")
        >>> result.tool_call_id = 1
        >>> readable(result).tool_call_id
        '1'
    """
    right: dict[str, Any] = {}
    for name, value in vars(message).items():
        if name not in _RULES or type(value) in _RIGHT.get(name, ()):
            continue
        if (new := _RULES[name](value)) is not value:
            right[name] = new
    kind = _kind(type(message))
    if message.type != kind:
        right["type"] = kind
    if right:
        message = message.model_copy(update=right)
    if kind in _READ_AGAIN or kind.endswith("Chunk"):
        return message
    return ChatMessage(**{**dict(message), "type": "chat", "role": kind})


def all_readable(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    """Return messages as `readable` does."""
    return [*map(readable, messages)]


@cache
def _kind(made: type[BaseMessage]) -> str:
    """Return the type that all messages of a class have."""
    return str(made.model_fields["type"].default)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bytes | bytearray):
        return value.decode(errors="replace")
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        return json.dumps(unserialisable(value))


def _text_or_none(value: Any) -> str | None:
    return value if value is None else _text(value)


def _content(value: Any) -> str | list[Any]:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list | tuple):
        return _text(value)
    return _same_or([_block(block) for block in value if block is not None], value)


def _block(value: Any) -> str | dict[Any, Any]:
    """Return a content block whose type and text are texts, whatever else it has."""
    if not isinstance(value, dict):
        return _text(value)
    wrong = {key for key in ("type", "text") if not isinstance(value.get(key, ""), str)}
    return {**value, **{key: _text(value[key]) for key in wrong}} if wrong else value


def _mapping(value: Any) -> dict[Any, Any]:
    if isinstance(value, dict):
        return value
    return {} if value in (None, "", [], ()) else {"value": value}


def _metadata(value: Any) -> dict[Any, Any]:
    """Return metadata of which what the memory noted there can be read."""
    metadata = _mapping(value)
    own = metadata.get(METADATA_KEY, {})
    if not isinstance(own, dict):
        return {key: item for key, item in metadata.items() if key != METADATA_KEY}
    if "raw" in own and (raw := _content(own["raw"])) is not own["raw"]:
        return {**metadata, METADATA_KEY: {**own, "raw": raw}}
    return metadata


def _arguments(value: Any) -> dict[Any, Any]:
    if isinstance(value, str) and value:
        try:
            value = json.loads(value)
        except ValueError:
            return {"value": value}
    return _mapping(value)


def _call(value: Any) -> dict[str, Any]:
    given = value if isinstance(value, dict) else {"args": value}
    right = {
        "name": _text(given.get("name")),
        "args": _arguments(given.get("args")),
        "id": _text(given.get("id")),
        "type": "tool_call",
    }
    return _same_call({**right, **_extras(given)}, value)


def _extras(call: Mapping[str, Any]) -> dict[str, Any]:
    return {"extras": _mapping(call["extras"])} if "extras" in call else {}


def _invalid_call(value: Any) -> dict[str, Any]:
    given = value if isinstance(value, dict) else {"args": value}
    right = {name: _text_or_none(given.get(name)) for name in ("name", "args", "error")}
    right["id"] = _text(given.get("id"))
    return _same_call({**right, "type": "invalid_tool_call"}, value)


def _same_call(right: dict[str, Any], value: Any) -> dict[str, Any]:
    """Return the call as it was given if nothing of it had to change."""
    return value if right == value else right


def _calls(rule: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    def calls(value: Any) -> list[Any]:
        if not value:
            return value if isinstance(value, list) else []
        given = value if isinstance(value, list | tuple) else [value]
        return _same_or([rule(call) for call in given], value)

    return calls


def _same_or(new: list[Any], value: Any) -> list[Any]:
    is_same = isinstance(value, list) and len(new) == len(value)
    return value if is_same and all(map(is_, new, value)) else new


def _usage(value: Any) -> Any:
    if value is None:
        return None
    try:
        _usage_metadata.validate_python(value)
    except ValidationError:
        return None
    return value


def _status(value: Any) -> str:
    return value if value in ("success", "error") else "error" if value else "success"


_RULES: Mapping[str, Callable[[Any], Any]] = {
    "content": _content,
    "id": _text_or_none,
    "name": _text_or_none,
    "role": _text,
    "additional_kwargs": _mapping,
    "response_metadata": _metadata,
    "tool_calls": _calls(_call),
    "invalid_tool_calls": _calls(_invalid_call),
    "usage_metadata": _usage,
    "tool_call_id": _text,
    "status": _status,
}
"""The fields of messages that LangChain checks, each with the value that it gets."""

_RIGHT: Mapping[str, Collection[type]] = {
    "content": (str,),
    "id": (str, NoneType),
    "name": (str, NoneType),
    "role": (str,),
    "additional_kwargs": (dict,),
    "usage_metadata": (NoneType,),
    "tool_call_id": (str,),
}
"""Types of values that are right whatever they are: each message of each turn is looked at."""
