"""Messages of LangChain as the plain data that the memory works on, and back."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from langchain_core.messages import BaseMessage, messages_from_dict
from pydantic_core import to_jsonable_python

from ..memory.messages import Message, broken, clean, unserialisable

AMessage = TypeVar("AMessage", bound=BaseMessage)


def plain(messages: Sequence[BaseMessage]) -> tuple[Message, ...]:
    """Return messages in LangChain's serialised form, defaults left out, without lone surrogates.

    What JSON cannot hold (an artifact, say) becomes a marker that names its type. A message gives
    the same data before and after it went through a checkpoint.
    """
    return tuple({"type": message.type, "data": dict(_said(message))} for message in messages)


def real(messages: Sequence[Message]) -> list[BaseMessage]:
    """Return the LangChain messages of plain ones; nothing but messages is ever constructed."""
    return messages_from_dict([dict(message) for message in messages])


def cleaned(message: AMessage) -> AMessage:
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
    """Compare values of which one may be an array, whose comparison is no truth value."""
    return type(value) is not type(default) or bool(value != default)


def jsonable(value: Any) -> Any:
    """Return a value as JSON gives it back; a marker for what it cannot hold.

    >>> jsonable({"sizes": (2, 1), "names": {"b", "a"}})
    {'sizes': [2, 1], 'names': ['a', 'b']}
    """
    if type(value) is str:
        return clean(value)
    try:
        kept = to_jsonable_python(_ordered(value), fallback=unserialisable, bytes_mode="base64")
        return clean(json.loads(json.dumps(kept)))
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
