"""A tool's schema as the pieces of text that a provider shows its model, and what is around each.

The arithmetic is the one that OpenAI published and checked against its API: `num_tokens_for_tools`
with the numbers of gpt-4o (OpenAI cookbook, "How to count tokens with tiktoken", section 7). It
knows flat parameters only. Here objects inside others, items of arrays and alternatives count as
parameters do, and keywords that it does not name count as compact JSON, which is a bound.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

FUNCTION = 7
"""Tokens around the name and description of a function."""

PROPERTIES = 3
"""Tokens around all the parameters of an object that has any."""

PROPERTY = 3
"""Tokens around one parameter."""

CHOICE = 3
"""Tokens between two values of an enumeration."""

NESTED = 1
"""Tokens around an alternative or the items of an array: a bar, or brackets."""

Piece: TypeAlias = tuple[int, str]
"""The tokens around a text, and the text."""

_INSIDE = ("items", "anyOf", "oneOf", "allOf")
_SHOWN = frozenset({"type", "description", "enum", "properties", "required", *_INSIDE})


def pieces(schema: Mapping[str, Any]) -> Iterator[Piece]:
    """Yield the pieces of one tool, in OpenAI's form or as the bare function.

    >>> size = {"type": "string", "description": "One of two.", "enum": ["S", "XL"]}
    >>> parameters = {"type": "object", "properties": {"size": size}}
    >>> list(pieces({"name": "order", "description": "Order it.", "parameters": parameters}))
    [(7, 'order:Order it'), (6, 'size:string:One of two'), (0, 'S'), (3, 'XL')]
    """
    function = schema.get("function", schema)
    yield FUNCTION, f"{function.get('name') or ''}:{_description(function)}"
    yield from _inside(function.get("parameters"))


def _inside(schema: Any) -> Iterator[Piece]:
    """Yield what stands in a schema beside its own type and description."""
    if not isinstance(schema, Mapping):
        return
    around = PROPERTIES
    for name, value in _properties(schema):
        yield around + PROPERTY, f"{name}:{_said(value)}"
        yield from _inside(value)
        around = 0
    for value in _parts(schema):
        yield NESTED, _said(value)
        yield from _inside(value)
    for at, value in enumerate(schema.get("enum") or ()):
        yield CHOICE if at else 0, str(value)
    rest = {key: value for key, value in schema.items() if key not in _SHOWN}
    if isinstance(rest.get("additionalProperties"), bool):
        del rest["additionalProperties"]
    if rest:
        yield 0, json.dumps(rest, ensure_ascii=False, separators=(",", ":"), default=str)


def _properties(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        yield from properties.items()


def _parts(schema: Mapping[str, Any]) -> Iterator[Any]:
    for key in _INSIDE:
        value = schema.get(key, ())
        yield from value if isinstance(value, list | tuple) else [value]


def _said(schema: Any) -> str:
    """Return the type and description of a schema; of `true` and `false`, the word."""
    if not isinstance(schema, Mapping):
        return str(schema)
    kind = schema.get("type") or ""
    kinds = kind if isinstance(kind, str) else " | ".join(map(str, kind))
    return f"{kinds}:{_description(schema)}"


def _description(schema: Mapping[str, Any]) -> str:
    return str(schema.get("description") or "").removesuffix(".")
