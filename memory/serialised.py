"""Messages in LangChain's serialised form, in which the archive stores and hashes them.

What is in them is plain data: JSON without lone surrogates.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import repeat
from typing import Any

from langchain_core.messages import BaseMessage, messages_from_dict
from pydantic_core import to_jsonable_python

from .attachments import referring, without_facts
from .fences import without_reserved_name
from .messages import without_id

_DEEPEST = 100
"""Levels of nested lists and objects that are kept as such; pydantic gives up after some 250."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""UTF-8 cannot encode it, so no database and no provider takes it."""

_VOLATILE = ("id", "usage_metadata", "response_metadata")
"""Fields that differ between two deliveries of the same message, so a digest leaves them out."""


def clean(value: Any, levels: int = _DEEPEST) -> Any:
    r"""Return `value` as it can be stored: lone surrogates are U+FFFD, integers over 64 bits text.

    What stands deeper than `levels` is its JSON.

    >>> clean({"a": ["x\ud800", 10**20]}) == {"a": ["x\ufffd", "1" + "0" * 20]}
    True
    """
    if isinstance(value, str):
        try:  # much faster than the search, which the text of a large file would notice
            value.encode()
        except UnicodeEncodeError:
            value = _LONE_SURROGATE.sub("\ufffd", value)
        return value
    if isinstance(value, Mapping | list | tuple) and not levels:
        return _as_json(value)
    if isinstance(value, Mapping):
        items = map(clean, value.values(), repeat(levels - 1))
        return dict(zip(map(clean, value), items, strict=True))
    if isinstance(value, list | tuple):
        items = map(clean, value, repeat(levels - 1))
        return [*items] if isinstance(value, list) else tuple(items)
    if type(value) is int and not -(2**63) <= value < 2**64:
        return str(value)  # msgpack, which checkpointers use, has no longer ones
    return value


def _as_json(value: Any) -> Any:
    """Return the JSON of a value, or a marker if it has none."""
    try:
        return clean(json.dumps(value, ensure_ascii=False))
    except (ValueError, TypeError, RecursionError):
        return unserialisable(value)


def unserialisable(value: Any) -> dict[str, str]:
    """Return the placeholder of a value that JSON cannot hold; it names the class.

    >>> unserialisable({1, 2})
    {'ebbtide_unserialisable': 'builtins.set'}
    """
    kind = type(value)
    return {"ebbtide_unserialisable": f"{kind.__module__}.{kind.__qualname__}"}


def stored_form(messages: Iterable[BaseMessage]) -> tuple[BaseMessage, ...]:
    """Return messages as the archive gives them back, without lone surrogates.

    References stand for large files. None has the memory's name. What JSON cannot hold (an
    artifact, say) becomes a marker that names its type. Only fields that differ from their default
    are set, so that a message is the same before and after it went through a checkpoint.
    """
    return to_messages(serialised(messages))


def serialised(messages: Iterable[BaseMessage]) -> list[dict[str, Any]]:
    """Return messages of any kind in the form in which the archive stores them."""
    return [{"type": message.type, "data": _fields(message)} for message in messages]


def to_messages(rows: Iterable[Mapping[str, Any]]) -> tuple[BaseMessage, ...]:
    """Return the messages of serialised ones; no other class is ever constructed."""
    return tuple(messages_from_dict([*map(dict, rows)]))


def to_dict(message: BaseMessage) -> dict[str, Any]:
    """Return a message in LangChain's serialised form, with the fields that are set.

    >>> to_dict(HumanMessage("hi", id="1"))
    {'type': 'human', 'data': {'content': 'hi', 'id': '1'}}
    """
    data = {name: value for name, value in message if name in message.model_fields_set}
    return {"type": message.type, "data": data}


def digest(messages: Sequence[BaseMessage], length: int = 16) -> str:
    """Return the fingerprint of messages as they are stored, without ids, usage and metadata.

    The ids of calls count, as they tell which call a result answers.

    >>> digest([HumanMessage("hi", id="1")])
    '25dbdbddb6bccc04'
    """
    return fingerprint([*map(_identity, messages)], length)


def fingerprint(value: Any, length: int = 16) -> str:
    """Return the first `length` hex digits of SHA-256 over the canonical JSON of `value`.

    >>> fingerprint({"b": 1, "a": 2}), fingerprint({"a": 2, "b": 1}, 6)
    ('d3626ac30a87e6f7', 'd3626a')
    """
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:length]


def _identity(message: BaseMessage) -> dict[str, Any]:
    """Return the fields of a message that a digest is made of."""
    own: dict[str, Any] = {}
    for key, value in message:
        if not value or key in _VOLATILE or key not in message.model_fields_set:
            continue
        own[key] = value
        if key == "content" and isinstance(value, list):
            own[key] = [without_id(block) for block in without_facts(value)]
        elif key == "additional_kwargs":
            own[key] = {name: value[name] for name in value if name != "tool_calls"}
            if not own[key]:
                del own[key]
    return {"type": message.type, "data": own}


def _fields(message: BaseMessage) -> Mapping[str, Any]:
    """Return the fields of a message that differ from their default, as JSON has them."""
    defaults = {**_defaults(type(message)), "type": message.type}
    own = {
        name: _as_read_back(
            referring(value) if name == "content" and isinstance(value, list) else value
        )
        for name, value in message
        # An array differs from its default by its type.
        if name not in defaults
        or type(value) is not type(defaults[name])
        or value != defaults[name]
    }
    if own.keys().isdisjoint(("name", "additional_kwargs")):
        return own
    return without_reserved_name(own, message.type)


@cache
def _defaults(kind: type[BaseMessage]) -> Mapping[str, Any]:
    """Return the defaults of the fields that have one; cached, as pydantic is slow to find them."""
    return {
        name: field.get_default(call_default_factory=True)
        for name, field in kind.model_fields.items()
        if not field.is_required()
    }


_LONG_NUMBER = re.compile("[0-9]{19}")


def _is_clean(said: str) -> bool:
    """Tell by its JSON whether `clean` would change nothing: no surrogate, long number or depth."""
    nested = said.count("[") + said.count("{")
    return "\\ud" not in said and nested <= _DEEPEST and not _LONG_NUMBER.search(said)


def _as_read_back(value: Any) -> Any:
    """Return a value as JSON gives it back, and clean; a marker for what it cannot hold."""
    if type(value) is str:
        return clean(value)
    try:
        said = json.dumps(value)
        if '"null":' not in said:  # as pydantic does not name a key that is None
            return json.loads(said) if _is_clean(said) else clean(json.loads(said))
    except (ValueError, TypeError, RecursionError):
        pass
    try:
        plain = to_jsonable_python(_ordered(value), fallback=_described, bytes_mode="base64")
        return clean(json.loads(json.dumps(plain)))
    except (ValueError, TypeError, RecursionError):
        return unserialisable(value)


def _described(value: Any) -> Any:
    """Return an exception as checkpointers give it back, a marker for anything else."""
    return repr(value) if isinstance(value, BaseException) else unserialisable(value)


def _ordered(value: Any) -> Any:
    """Return a value with its sets as sorted lists, as their order differs between processes."""
    if isinstance(value, set | frozenset):
        return sorted((_ordered(item) for item in value), key=repr)
    if type(value) is dict:
        return {key: _ordered(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return [_ordered(item) for item in value]
    return value
