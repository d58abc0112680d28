"""What a turn says that a search should find: words of its own, not what the memory quoted."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .messages import Message
from .state_blocks import cut_content

DECIDING = frozenset(
    {"open_effort", "close_effort", "switch_effort", "reopen_effort", "update_goal"}
)
"""The memory's tools after which something else holds, as their results say."""

OWN_TOOLS = frozenset(
    {
        *DECIDING,
        *("expand_effort", "collapse_effort", "effort_status", "search_efforts", "read_log"),
    }
)
"""The memory's tools: what they say is known of the effort or stands in another turn."""

_BLOB = re.compile(r"[\w+/=-]{400,}", re.ASCII)


def sayings(messages: Sequence[Message]) -> tuple[str, ...]:
    """Return what each message says, those left out that say nothing; encoded data is left out.

    >>> sayings([{"type": "human", "data": {"content": "Which port?"}}])
    ('Which port?',)
    """
    said = (_BLOB.sub(" ", "\n".join(_said(message))) for message in messages)
    return tuple(text for text in said if text.strip())


def _said(message: Message) -> Iterator[str]:
    """Yield the texts of a message, of whatever form it was committed in."""
    data = message["data"]
    if message["type"] == "tool" and data.get("name") in OWN_TOOLS:
        return
    content = data.get("content")
    if message["type"] == "ai" and content:
        content = cut_content(content)
    for block in content if isinstance(content, list) else [content]:
        said = block.get("text") if isinstance(block, Mapping) else block
        if isinstance(said, str):
            yield said
    for call in _items(data.get("tool_calls")):
        if isinstance(call, Mapping) and call.get("name") not in OWN_TOOLS:
            yield f"{call.get('name')} {json.dumps(call.get('args'), ensure_ascii=False)}"


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
