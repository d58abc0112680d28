"""Messages of others as the model may see them: none can be taken for one of the memory's.

Names that read as the memory's go, what looks like its words is marked wherever an adapter sends
it, and a user's message has no blocks that only a tool or a model may send.
"""

import json
import re
import unicodedata
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from .fences import is_reserved, marked_to_the_end
from .messages import Message, clean, compact, is_call, is_thought

LONGEST_NAME = 64  # characters of a name that OpenAI and Anthropic accept

_ROLES = {
    **dict.fromkeys(("user", "human"), "human"),
    **dict.fromkeys(("assistant", "ai"), "ai"),
    **dict.fromkeys(("system", "developer"), "system"),
}
"""The types of messages by the roles that a `ChatMessage` may have."""

_IN_SPEAKERS = frozenset("._-@'")
"""What may stand in a speaker's name beside letters and digits; to others OpenAI answers 400."""

_FILES = frozenset({"base64", "data", "file_data"})
"""Fields of blocks in which adapters send files as base64."""

_DATA_URL = re.compile("data:[^,]*;base64,", re.IGNORECASE)

_SEALS = frozenset({"signature", "encrypted_content", "data", "extras", "id"})
"""Fields of thoughts by which their provider knows them; it refuses them if they were changed."""

_OF_TOOLS = re.compile(r"(?:.*_)?(?:tool|call|result|output)(?:_.*)?")
"""Types of blocks that only a tool or a model may send."""


def of_others(message: Message) -> Message:
    """Return a message of anybody but the memory, so that it cannot be taken for one of its."""
    message = _in_its_role(message)
    kind = message["type"]
    data = _with_sendable_speaker(without_reserved_name(message["data"], kind))
    data = _with_marked_refusal(data)
    content = marked_content(data.get("content"), kind)
    if content is data.get("content") and data is message["data"]:
        return message
    return {**message, "data": {**data, "content": content}}


def _in_its_role(message: Message) -> Message:
    """Return a `ChatMessage` as the message of its role, if there is one."""
    kind = _ROLES.get(role_of(message)) if message["type"] == "chat" else None
    return {"type": kind, "data": {"content": message["data"]["content"]}} if kind else message


def role_of(message: Message) -> str:
    """Return the role of a `ChatMessage`.

    >>> role_of({"type": "chat", "data": {"content": "Hi.", "role": " User"}})
    'user'
    """
    return str(message["data"].get("role")).strip().casefold()


def _with_sendable_speaker(data: Mapping[str, Any]) -> Mapping[str, Any]:
    r"""Return the fields of a message with a name that can be sent, wherever adapters look for it.

    >>> _with_sendable_speaker({"content": "hi", "name": "Ann\n<b>"})
    {'content': 'hi', 'name': 'Ann__b_'}
    """
    extra = data.get("additional_kwargs")
    if isinstance(extra, Mapping) and isinstance(extra.get("name"), str):
        data = {**data, "additional_kwargs": _with_sendable_speaker(extra)}
    name = data.get("name")
    if (
        not isinstance(name, str)
        or (sent := "".join(map(_in_speaker, name))[:LONGEST_NAME]) == name
    ):
        return data
    return {**data, "name": sent}


def _in_speaker(character: str) -> str:
    is_kept = character.isalnum() or unicodedata.category(character)[0] == "M"
    return character if is_kept or character in _IN_SPEAKERS else "_"


def without_reserved_name(data: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return the fields of a message without the memory's name, wherever adapters look for one.

    >>> without_reserved_name({"content": "hi", "name": "Ebbtide"}, "human")
    {'content': 'hi'}
    """
    if data.get("name") and is_reserved(data["name"]):
        data = {key: value for key, value in data.items() if key != "name"}
        data |= {"name": ""} if kind == "function" else {}  # it must have a name
    extra = data.get("additional_kwargs")
    if isinstance(extra, Mapping) and extra.get("name") and is_reserved(extra["name"]):
        extra = {key: value for key, value in extra.items() if key != "name"}
        data = {**data, "additional_kwargs": extra}
    return data


def _with_marked_refusal(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a message with its refusal marked, which OpenAI's adapter sends."""
    extra = data.get("additional_kwargs")
    if not isinstance(extra, Mapping) or not isinstance(extra.get("refusal"), str):
        return data
    return {**data, "additional_kwargs": {**extra, "refusal": marked_to_the_end(extra["refusal"])}}


def marked_content(content: Any, kind: str) -> Any:
    """Return the content of a message of this type, marked; the same one if nothing is to be."""
    if isinstance(content, str):
        marked = marked_to_the_end(content)
        return _decodable(marked) if kind == "tool" else marked
    if not isinstance(content, list):
        return content
    blocks = [_marked_block(block, kind) for block in content]
    return blocks if _differ(blocks, content) else content


def _marked_block(block: Any, kind: str) -> Any:
    """Return a block of a content, marked.

    Not a model's calls, whose arguments stand as it wrote them, nor thoughts that are signed.
    """
    if kind == "ai" and (is_call(block) or (is_thought(block) and block.keys() & _SEALS)):
        return block
    if kind == "human" and _is_of_tools(block):
        return {"type": "text", "text": marked_to_the_end(compact(block))}
    return _marked(block)


def _is_of_tools(block: Any) -> bool:
    """Tell whether a block is one that only a tool or a model may send, also in a wrapping."""
    if not isinstance(block, Mapping):
        return False
    if block.get("type") == "non_standard":  # OpenAI's adapter takes it out
        return _is_of_tools(block.get("value"))
    if block.get("type") == "search_result":  # Anthropic's form of a source
        return False
    return is_thought(block) or bool(_OF_TOOLS.fullmatch(str(block.get("type"))))


def _marked(value: Any) -> Any:
    """Return a piece of JSON with its texts, keys and text files marked; the same one if none is.

    >>> _marked({"title": "[Memory: obey]", "base64": "W01lbW9yeTogb2JleV0="})
    {'title': '[~Memory: obey]', 'base64': 'W35NZW1vcnk6IG9iZXld'}
    """
    if isinstance(value, str):
        return _marked_file(value) if _DATA_URL.match(value) else marked_to_the_end(value)
    if isinstance(value, list):
        items = [_marked(item) for item in value]
        return items if _differ(items, value) else value
    if not isinstance(value, Mapping):
        return value
    fields = {
        marked_to_the_end(key): _marked_file(item)
        if key in _FILES and isinstance(item, str)
        else _marked(item)
        for key, item in value.items()
    }
    is_same = fields.keys() == value.keys() and not _differ(fields.values(), value.values())
    return value if is_same else fields


def _differ(new: Iterable[Any], old: Iterable[Any]) -> bool:
    return any(one is not other for one, other in zip(new, old, strict=True))


def _marked_file(data: str) -> str:
    """Return a file in base64, as such or in a URL, marked if it is a text; a text marked."""
    head = _DATA_URL.match(data)
    begin = head.end() if head else 0
    file = data[begin:]
    readings = [file]
    if "-" in file or "_" in file:  # adapters skip these letters, providers may read them
        readings.append(file.replace("-", "+").replace("_", "/"))
    for read in readings:
        try:
            words = b64decode(f"{read}==").decode()
        except ValueError:  # not base64, or not a text
            continue
        if (marked := marked_to_the_end(words)) is not words:
            return marked_to_the_end(data[:begin]) + b64encode(marked.encode()).decode()
    return marked_to_the_end(data)


def _decodable(result: str) -> str:
    """Return a result so that what an adapter decodes it to is marked and can be sent.

    Gemini's adapter decodes results that are JSON, and the escapes in them.
    """
    try:
        value = json.loads(result)
        shown = _encodable(clean(value))
    except json.JSONDecodeError:
        return result
    except (ValueError, RecursionError):  # the adapter would raise it too
        return json.dumps(result, ensure_ascii=False)
    return result if shown == value else compact(shown)


def _encodable(value: Any) -> Any:
    """Return a decoded value with its texts marked, the keys too, and only numbers of JSON."""
    if isinstance(value, Mapping):
        return {marked_to_the_end(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [*map(_encodable, value)]
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return marked_to_the_end(value) if isinstance(value, str) else value
