"""Recalled text: a result that quotes the log is stored as a reference to it, not as a copy.

The artifact of such a tool result says `{"recalled": {"turn": 5, "offset": 0, "end": 4000}}`,
characters of the rendered turn. Erasing a turn therefore reaches what was read from it. Only
`read_log` quotes the log; no tool of the application can have its name.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .messages import Message

_TOOL = "read_log"
_FIELDS = {"turn", "offset", "end"}


@dataclass(frozen=True, slots=True)
class Recalled:
    """A range of characters of one rendered turn."""

    turn: int
    offset: int
    end: int

    def __str__(self) -> str:
        """Name the range, for logs that show it instead of the text."""
        return f"recalled turn {self.turn}, characters {self.offset}-{self.end}"


def recalled(message: Message) -> Recalled | None:
    """Return the range that a tool result quotes, None for any other message."""
    data = message["data"]
    artifact = data.get("artifact")
    if message["type"] != "tool" or data.get("name") != _TOOL or not isinstance(artifact, Mapping):
        return None
    found = artifact.get("recalled")
    if not isinstance(found, Mapping) or found.keys() != _FIELDS:
        return None
    numbers = all(type(number) is int for number in found.values())
    return Recalled(**found) if numbers and _body(message) is not None else None


def stored(message: Message) -> Message:
    """Return the message as the archive keeps it: without the text that it quotes."""
    if recalled(message) is None:
        return message
    return _with_text(message, "")


def restored(message: Message, read: Callable[[int], str]) -> Message:
    """Return the message as it was sent; `read` renders a turn. The inverse of `stored`."""
    found = recalled(message)
    if found is None:
        return message
    return _with_text(message, read(found.turn)[found.offset : found.end])


def compact(value: Mapping[str, Any]) -> str:
    """Return the compact JSON text in which tools answer."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _with_text(message: Message, text: str) -> Message:
    body = {**(_body(message) or {}), "text": text}
    return {**message, "data": {**message["data"], "content": compact(body)}}


def _body(message: Message) -> Mapping[str, Any] | None:
    """Return the JSON object that a result is, None if it is none of `read_log`'s."""
    try:
        body = json.loads(message["data"]["content"])
    except (TypeError, ValueError):
        return None
    return body if isinstance(body, dict) and "text" in body else None
