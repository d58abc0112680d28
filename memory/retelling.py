"""Summaries that results of the memory's tools retell: copies, which go with what they copy."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ..prompts.loader import text as prompt
from .messages import Message
from .recall import compact
from .sayings import OWN_TOOLS

_SUMMARIES = ("summary", "prior_summary")
_LISTS = ("efforts", "results")


def retold(message: Message) -> Iterator[tuple[str, str]]:
    """Yield id and summary of each effort whose summary a tool's result retells.

    >>> result = '{"status": "concluded", "effort_id": "a", "summary": "It works."}'
    >>> data = {"name": "close_effort", "content": result}
    >>> list(retold({"type": "tool", "data": data}))
    [('a', 'It works.')]
    """
    for entry in _entries(_body(message)):
        for key in _SUMMARIES:
            if entry.get(key):
                yield _effort(entry), str(entry[key])


def without_summaries(message: Message, efforts: Collection[str]) -> Message:
    """Return a tool's result in which the summaries of these efforts are redacted."""
    body = _body(message)
    if body is None:
        return message
    lists = {
        key: [_redacted(item, efforts) for item in body[key]]
        for key in _LISTS
        if _is_list(body.get(key))
    }
    content = compact({**_redacted(body, efforts), **lists})
    return {**message, "data": {**message["data"], "content": content}}


def _redacted(entry: Mapping[str, Any], efforts: Collection[str]) -> dict[str, Any]:
    if _effort(entry) not in efforts:
        return dict(entry)
    return {
        key: prompt("erased_summary") if key in _SUMMARIES and value else value
        for key, value in entry.items()
    }


def _effort(entry: Mapping[str, Any]) -> str:
    return str(entry.get("effort_id") or entry.get("id") or "")


def _entries(body: Mapping[str, Any] | None) -> Sequence[Mapping[str, Any]]:
    if body is None:
        return ()
    return (body, *(item for key in _LISTS if _is_list(body.get(key)) for item in body[key]))


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _body(message: Message) -> Mapping[str, Any] | None:
    """Return the JSON object that a result of the memory's tools is, None if it is none."""
    if message["type"] != "tool" or message["data"].get("name") not in OWN_TOOLS:
        return None
    try:
        body = json.loads(message["data"]["content"])
    except (TypeError, ValueError):
        return None
    return body if isinstance(body, dict) else None
