"""What a turn says, in pieces by which other texts can be found that say the same."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ..prompts.loader import text as prompt
from .messages import Message, calls
from .record import Event
from .sayings import OWN_TOOLS

Sought: TypeAlias = tuple[str, ...]
"""Pieces of text that are looked for."""

SHORTEST = 16
"""Bytes of the shortest sentence that is looked for: shorter ones stand in many texts."""

LONGEST = 400
"""Characters of a sentence that are looked for, from its beginning on."""

MOST = 200
"""Sentences that are looked for, the longest first."""

_TELLING = 4
"""Characters of the shortest figure that tells."""

_FIGURE = re.compile(r"(?<![\w.:/@-])[\w.:/@-]*\d[\w.:/@-]*")
_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|[\n\r]+")
_OURS = ("canned_summary", "erased_summary", "no_result")
"""Prompts that stand in place of a text."""

_NAMES = frozenset({"id", "type", "name", "role", "mime_type", "effort_id", "turns", "session"})
_NO_TEXT = frozenset({"type", "effort", "efforts", "related"})


def said(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the texts of messages, calls and artifacts included, the memory's own results not.

    Those say what is known of efforts, and quote other turns.
    """
    for message in messages:
        data = message["data"]
        for call in calls(message):
            yield from leaves(call.get("args"), _NAMES if call.get("name") in OWN_TOOLS else ())
        if message["type"] != "tool" or data.get("name") not in OWN_TOOLS:
            yield from leaves(data.get("content"), _NAMES)
            yield from leaves(data.get("artifact"))
            yield from leaves(data.get("additional_kwargs"), _NAMES)


def leaves(value: Any, without: Iterable[str] = ()) -> Iterator[str]:
    """Yield every text in a value, at any depth, but those under the keys `without`.

    >>> list(leaves({"id": "x", "a": ["b", {"c": "d"}]}, ["id"]))
    ['b', 'd']
    """
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key not in without:
                yield from leaves(item, without)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item, without)


def sought(texts: Iterable[str]) -> Sought:
    """Return the sentences and lines by which texts are found again, the longest first.

    >>> sought(["Hello there. The key lies under the mat."])
    ('The key lies under the mat.',)
    """
    ours = {prompt(name) for name in _OURS}
    told = (text for text in texts if text not in ours)
    found = {part.strip()[:LONGEST] for text in told for part in _END.split(text)}
    telling = (part for part in found if len(part.encode(errors="replace")) >= SHORTEST)
    return tuple(sorted(telling, key=lambda part: (-len(part), part))[:MOST])


def held(text: str, pieces: Iterable[str]) -> frozenset[str]:
    r"""Return the pieces that a text holds, as they are or inside JSON.

    >>> sorted(held('{"a": "say \\"hi\\" now"}', ['say "hi" now', "hi there"]))
    ['say "hi" now']
    """
    return frozenset(piece for piece in pieces if piece in text or _inside_json(piece) in text)


def without_text(value: Any, pieces: Sought) -> Any:
    """Return plain data in which every text that holds one of the pieces is empty.

    >>> without_text({"a": ["It is mine."], "b": 1}, ["is mine"])
    {'a': [''], 'b': 1}
    """
    if isinstance(value, str):
        return "" if held(value, pieces) else value
    if isinstance(value, Mapping):
        return {key: without_text(item, pieces) for key, item in value.items()}
    if isinstance(value, list):
        return [without_text(item, pieces) for item in value]
    return value


def figures(texts: Iterable[str]) -> frozenset[str]:
    """Return the numbers, versions and addresses in texts.

    >>> sorted(figures(["Port 8080 of db-7.local, please; 3 times."]))
    ['8080', 'db-7.local']
    """
    found = (match for text in texts for match in _FIGURE.findall(text))
    return frozenset(match.rstrip(".:,") for match in found if len(match) >= _TELLING)


def text_fields(event: Event) -> frozenset[str]:
    """Return the fields of an event that are text, and not the name of an effort.

    >>> sorted(text_fields({"type": "opened", "effort": "a", "goal": "g", "tokens": 3}))
    ['goal']
    """
    return frozenset(key for key in event if key not in _NO_TEXT and any(leaves(event[key])))


def _inside_json(piece: str) -> str:
    return json.dumps(piece, ensure_ascii=False)[1:-1]
