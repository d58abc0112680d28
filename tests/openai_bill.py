"""What OpenAI bills for a request, reckoned from the body that came in over HTTP.

Sources: for messages and flat functions the OpenAI cookbook, "How to count tokens with tiktoken"
(`num_tokens_from_messages`, `num_tokens_for_tools`, the numbers of gpt-4o), whose figures are
checked there against the API; for calls, the ids of results
`ChatOpenAI.get_num_tokens_from_messages`; for parameters that are not flat, which neither knows,
the types and defaults as OpenAI's harmony format writes them (openai/harmony, "Function calling").
The tokeniser is tiktoken's own `o200k_base`, and nothing here is taken from Ebbtide but the file of
the vocabulary, which tiktoken checks.
"""

import hashlib
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import tiktoken

VOCABULARY = Path(__file__).parents[1] / "memory" / "o200k_base.tiktoken"
ADDRESS = b"https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"


@cache
def encoding() -> tiktoken.Encoding:
    """Return tiktoken's own encoding, read from a cache that holds the vocabulary."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        name = hashlib.sha1(ADDRESS, usedforsecurity=False).hexdigest()
        shutil.copy(VOCABULARY, Path(folder, name))
        patch.setenv("TIKTOKEN_CACHE_DIR", folder)
        return tiktoken.get_encoding("o200k_base")


def size(text: str) -> int:
    """Return the tokens of a text."""
    return len(encoding().encode(text, disallowed_special=()))


def billed(body: Mapping[str, Any]) -> int:
    """Return the prompt tokens of a request."""
    return billed_messages(body["messages"]) + billed_tools(body.get("tools", ()))


def billed_messages(messages: Sequence[Mapping[str, Any]]) -> int:
    """Return the tokens of messages, with the three that begin the reply."""
    return 3 + sum(3 + sum(_field(*item) for item in message.items()) for message in messages)


def billed_tools(tools: Sequence[Mapping[str, Any]]) -> int:
    """Return the tokens of function definitions."""
    return sum(_function(tool["function"]) for tool in tools) + 12 if tools else 0


def _field(key: str, value: Any) -> int:
    if key == "name":
        return 1 + size(value)
    if key == "tool_call_id":
        return 3
    if key == "tool_calls":
        return sum(
            size(call["function"]["name"]) + size(call["function"]["arguments"]) for call in value
        )
    if isinstance(value, list):
        return sum(_block(block) for block in value)
    return size(value or "")


def _block(block: Any) -> int:
    return size(block if isinstance(block, str) else block["text"])


def _function(function: Mapping[str, Any]) -> int:
    described = re.sub(r"\.$", "", function.get("description", ""))
    parameters = function.get("parameters", {})
    return 7 + size(f"{function['name']}:{described}") + _object(parameters)


def _object(schema: Mapping[str, Any]) -> int:
    properties = schema.get("properties") or {}
    return (3 if properties else 0) + sum(_property(*item) for item in properties.items())


def _property(name: str, schema: Mapping[str, Any]) -> int:
    described = re.sub(r"\.$", "", schema.get("description", ""))
    tokens = 3 + size(f"{name}:{_type(schema)}:{described}")
    for one in _within(schema):
        tokens += _object(one)
        if one.get("enum"):
            tokens += -3 + sum(3 + size(str(item)) for item in one["enum"])
        if one is not schema:
            tokens += size(one.get("description", ""))
    if "default" in schema:
        tokens += size(f" // default: {schema['default']}")
    return tokens


def _within(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a schema, its alternatives and its items, at any depth but that of objects."""
    yield schema
    for one in [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])]:
        yield from _within(one)


def _type(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " | ".join(_type(one) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return f"{_type(schema.get('items', {}))}[]"
    return str(schema.get("type", "any"))
