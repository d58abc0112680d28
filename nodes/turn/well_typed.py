"""Messages whose values have the types that LangChain asks for; others are put right.

LangChain checks a message when it is made, not when it is changed: `call["id"] = 5` stays.
"""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from langchain_core.messages import BaseMessage, ChatMessage
from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from ...memory.serialised import unserialisable
from ...memory.state_block import METADATA_KEY

_READ_AGAIN = frozenset({"human", "ai", "system", "tool", "chat", "function", "remove"})
"""Types of which LangChain makes a message again, beside the chunks of a stream."""

_CHECKED = frozenset(
    {
        *("content", "id", "name", "type", "role", "additional_kwargs", "response_metadata"),
        *("tool_calls", "invalid_tool_calls", "usage_metadata", "tool_call_id", "status"),
    }
)
"""The fields that the memory reads."""

_WRONG = "wrong"
"""Where `additional_kwargs` has the values of a wrong type."""


def well_typed(message: BaseMessage) -> BaseMessage:
    """Return a message whose values have the types that LangChain asks for; the same if they have.

    Text of another type becomes JSON. Other values of a wrong type stand in `additional_kwargs`,
    under the key `wrong`. A class of the application's own, which LangChain does not make again,
    becomes a `ChatMessage` in the role of its type.

    Examples:
        >>> from langchain_core.messages import ToolMessage
        >>> result = ToolMessage("Found.", tool_call_id="1")
        >>> result.tool_call_id = 1
        >>> well_typed(result).tool_call_id
        '1'
    """
    right, wrong = dict[str, Any](), dict[str, Any]()
    for name, (checked, field) in _fields(type(message)).items():
        value = getattr(message, name)
        try:
            checked.validate_python(value, strict=True)
        except ValidationError:
            if name == "id" or field.is_required():
                right[name] = _text(value)
            else:
                right[name], wrong[name] = field.get_default(call_default_factory=True), value
    right |= _right_inside({**vars(message), **right})
    if wrong:
        given = right.get("additional_kwargs", message.additional_kwargs)
        right["additional_kwargs"] = {**given, _WRONG: wrong}
    if right:
        message = message.model_copy(update=right)
    kind = message.type
    if kind in _READ_AGAIN or kind.endswith("Chunk"):
        return message
    return ChatMessage(**{**dict(message), "type": "chat", "role": kind})


def _right_inside(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields in which LangChain allows what nobody can read: blocks, calls, our key."""
    right: dict[str, Any] = {}
    content, metadata = fields["content"], fields["response_metadata"]
    if isinstance(content, list) and (texts := [*map(_with_texts, content)]) != content:
        right["content"] = texts
    for name in ("tool_calls", "invalid_tool_calls"):
        calls = fields.get(name, ())
        if any(call.get("id") is None for call in calls):
            right[name] = [{**call, "id": call.get("id") or ""} for call in calls]
    own = metadata.get(METADATA_KEY, {})
    if not isinstance(own, dict) or not isinstance(own.get("raw", ""), str | list):
        right["response_metadata"] = {**metadata, METADATA_KEY: {}}
    return right


@cache
def _fields(kind: type[BaseMessage]) -> Mapping[str, tuple[TypeAdapter[Any], FieldInfo]]:
    own = kind.model_fields
    return {
        name: (TypeAdapter[Any](one.annotation or Any), one)
        for name, one in own.items()
        if name in _CHECKED
    }


def _with_texts(block: Any) -> Any:
    keys = {"type", "text"} & block.keys() if isinstance(block, dict) else ()
    wrong = {key: _text(block[key]) for key in keys if not isinstance(block[key], str)}
    return {**block, **wrong} if wrong else block


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return "" if value is None else json.dumps(value, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        return json.dumps(unserialisable(value))
