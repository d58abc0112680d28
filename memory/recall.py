"""Recalled text: a result that quotes the log is stored as references to it, not as a copy.

The artifact of such a tool result says `{"recalled": [{"turn": 5, "offset": 0, "end": 4000}]}`,
characters of rendered turns, one range for each text that it quotes. For a text of an earlier
session of the user it names the session and the branch of the record too, and for the summary of an
effort there the effort. Erasing a turn therefore reaches what was read from it. Only `read_log` and
`search_efforts` quote the log; no tool of the application can have their names.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .messages import Message
from .slices import fit
from .tokens import TokenCounter

_FIELDS = frozenset({"turn", "offset", "end"})
_ELSEWHERE = frozenset({"session", "branch"})


@dataclass(frozen=True, slots=True)
class Recalled:
    """A range of characters of one rendered turn, of an earlier session if one is named.

    With an `effort` it is the summary that this effort had after the turn, the whole of it.
    """

    turn: int
    offset: int
    end: int
    session: str = ""
    branch: str = ""
    effort: str = ""

    def __str__(self) -> str:
        """Name the range, for logs that show it instead of the text.

        >>> str(Recalled(5, 0, 40)), str(Recalled(5, 0, 40, "t1", "main", "auth-bug"))
        ('recalled turn 5, characters 0-40', 'recalled summary of t1/auth-bug')
        """
        if self.effort:
            return f"recalled summary of {self.session}/{self.effort}"
        where = f" of session {self.session}" if self.session else ""
        return f"recalled turn {self.turn}{where}, characters {self.offset}-{self.end}"


def reference(found: Recalled) -> dict[str, Any]:
    """Return a range as artifacts hold it; the inverse of `recalled`.

    >>> reference(Recalled(5, 0, 40))
    {'turn': 5, 'offset': 0, 'end': 40}
    """
    return {name: value for name, value in asdict(found).items() if name in _FIELDS or value}


def recalled(message: Message) -> tuple[Recalled, ...]:
    """Return the ranges that a tool result quotes, none for any other message."""
    artifact = message["data"].get("artifact")
    if not isinstance(artifact, Mapping) or message["type"] != "tool":
        return ()
    listed = artifact.get("recalled")
    if not isinstance(listed, list) or not all(map(_is_range, listed)):
        return ()
    ranges = tuple(Recalled(**found) for found in listed)
    return ranges if ranges and len(_quoting(message)) == len(ranges) else ()


def stored(message: Message) -> Message:
    """Return the message as the archive keeps it: without the text that it quotes."""
    found = recalled(message)
    return _with_texts(message, [""] * len(found)) if found else message


def restored(message: Message, read: Callable[[Recalled], str]) -> Message:
    """Return the message as it was sent; `read` returns what is quoted. The inverse of `stored`."""
    found = recalled(message)
    return _with_texts(message, [read(one) for one in found]) if found else message


def shortened(message: Message, limit: int, count: TokenCounter) -> Message:
    """Return a message that quotes the log with the heads of its quotes, `limit` tokens in all.

    What `read_log` returned says then where the rest begins; a search names the turn anyway.
    """
    quoting, found = _quoting(message), recalled(message)
    each = max(1, limit // max(1, len(found)))
    texts = [str(item[_key(message)]) for item in quoting]
    if sum(map(count, texts)) <= limit:
        return message
    heads = [text[: fit(text, each, count)] for text in texts]
    short = _with_texts(message, heads)
    if _key(message) == "excerpt":
        return short
    reads_on = {**_body(short), "next_offset": found[0].offset + len(heads[0])}
    return {**short, "data": {**short["data"], "content": compact(reads_on)}}


def compact(value: Mapping[str, Any]) -> str:
    """Return the compact JSON text in which tools answer."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _is_range(found: Any) -> bool:
    """Tell whether an item of an artifact is a range; who names a session names a branch of it."""
    if not isinstance(found, Mapping) or not found.keys() >= _FIELDS:
        return False
    where = found.keys() - _FIELDS
    return (
        (not where or where - {"effort"} == _ELSEWHERE)
        and all(type(found[name]) is int for name in _FIELDS)
        and all(isinstance(found[name], str) and found[name] for name in where)
    )


def _with_texts(message: Message, texts: Sequence[str]) -> Message:
    body = _body(message)
    filled = [
        {**item, _key(message): text} for item, text in zip(_quoting(message), texts, strict=True)
    ]
    whole = {**body, "results": filled} if _key(message) == "excerpt" else filled[0]
    return {**message, "data": {**message["data"], "content": compact(whole)}}


def _quoting(message: Message) -> list[Mapping[str, Any]]:
    """Return the parts of a result that quote a text each: itself, or what a search found."""
    body, key = _body(message), _key(message)
    items = body.get("results") if key == "excerpt" else [body]
    if not key or not isinstance(items, list):
        return []
    return items if all(isinstance(one, dict) and key in one for one in items) else []


def _key(message: Message) -> str:
    name = message["data"].get("name")
    return {"read_log": "text", "search_efforts": "excerpt"}.get(str(name), "")


def _body(message: Message) -> Mapping[str, Any]:
    """Return the JSON object that a result is, an empty one if it is none."""
    try:
        body = json.loads(message["data"]["content"])
    except (TypeError, ValueError):
        return {}
    return body if isinstance(body, dict) else {}
