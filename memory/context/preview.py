"""Previews of long contents: head, tail, and a pointer that says how to read the rest."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...prompts.loader import text as prompt
from ..messages import Message
from ..recall import recalled, shortened
from ..sayings import DECIDING
from ..slices import fit, fit_end
from ..tokens import TokenCounter
from ..transcript import Logged, Offsets, offsets, spoken

_HEAD_SHARE = 0.7

_WORD = 40
"""Characters by which a cut may be moved so that it cuts no word in two."""

_DECIDED = 400
"""Tokens that what a tool says of goal, constraints and summary of an effort may have anywhere."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The longest contents that are shown whole, in tokens; None for any length.

    `results` of tools, `texts` of the user and the assistant, images among them, and `arguments`
    of calls. Without `recalled` text that was recalled from the log is no such result.
    """

    results: int | None = None
    texts: int | None = None
    arguments: int | None = None
    recalled: bool = True


def preview(said: str, limit: int, turn: int, offset: int, count: TokenCounter) -> str:
    """Return head, pointer and tail of a text over `limit` tokens, else the text.

    `offset` is where the text begins in its rendered turn. Head and tail have `limit` tokens
    together.

    >>> print(preview("a b c d e f", 4, 7, 100, lambda text: len(text.split())))
    a b
    [… 2 tokens left out; read_log(turns="7", offset=103) reads on …]
    e f
    """
    whole = count(said)
    if whole <= limit:
        return said
    first = max(1, int(limit * _HEAD_SHARE))
    end = _word_end(said, fit(said, first, count))
    begin = max(end, fit_end(said, limit - first, count)) if limit > first else len(said)
    begin = _word_begin(said, begin)
    left = max(1, whole - count(said[:end]) - count(said[begin:]))
    pointer = prompt("left_out", tokens=left, turn=turn, offset=offset + end)
    return f"{said[:end]}\n{pointer}\n{said[begin:]}".rstrip("\n")


def _word_end(said: str, end: int) -> int:
    """Return where the last whole word ends before a position, itself if no space is near.

    >>> _word_end("one two three", 9), _word_end("one two three", 7)
    (7, 7)
    """
    space = max(said.rfind(space, max(0, end - _WORD), end + 1) for space in " \n")
    return space if space > 0 else end


def _word_begin(said: str, begin: int) -> int:
    """Return where the next whole word begins, the position itself if no space is near.

    >>> _word_begin("one two three", 5), _word_begin("one two three", 8)
    (8, 8)
    """
    near = [said.find(space, begin - 1, begin + _WORD) for space in " \n"] if begin else []
    return min((at + 1 for at in near if at >= 0), default=begin)


def previewed(
    said: Logged, seen: Sequence[Message], limits: Limits, count: TokenCounter
) -> tuple[Message, ...]:
    """Return the messages of a turn with previews of all contents over the limits.

    `seen` are the messages of `said` as they are shown; pointers count in what was said.
    """
    return previewed_at(said.turn, seen, offsets(said.messages), limits, count)


def previewed_at(
    turn: int, seen: Sequence[Message], at: Sequence[Offsets], limits: Limits, count: TokenCounter
) -> tuple[Message, ...]:
    """Return messages of a turn with previews, given where each stands in the rendered turn."""
    if limits == Limits():
        return tuple(seen)
    return tuple(
        _shown(message, _Pointer(turn, one, count), limits)
        for message, one in zip(seen, at, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Pointer:
    """What a preview needs to point at what it leaves out."""

    turn: int
    offsets: Offsets
    count: TokenCounter

    def preview(self, said: str, limit: int, offset: int) -> str:
        """Return the preview of a content of the message, if that is shorter than it."""
        short = preview(said, limit, self.turn, offset, self.count)
        return short if self.count(short) < self.count(said) else said


def _shown(message: Message, at: _Pointer, limits: Limits) -> Message:
    data = dict(message["data"])
    limit = limits.results if message["type"] == "tool" else limits.texts
    if limit is not None and message["data"].get("name") in DECIDING:
        limit = max(limit, _DECIDED)
    if limit is not None and recalled(message):
        return shortened(message, limit, at.count) if limits.recalled else message
    if limit is not None:
        said = spoken(message)
        short = at.preview(said, limit, at.offsets.text)
        if short != said or _has_images(message):
            data["content"] = short
    if limits.arguments is not None:
        data |= _calls(data, at, limits.arguments)
    return {**message, "data": data}


def _calls(data: Mapping[str, Any], at: _Pointer, limit: int) -> dict[str, Any]:
    offsets = iter(at.offsets.calls)
    return {
        key: [_call(call, at, limit, next(offsets)) for call in data[key]]
        for key in ("tool_calls", "invalid_tool_calls")
        if data.get(key)
    }


def _call(call: Mapping[str, Any], at: _Pointer, limit: int, offset: int) -> Mapping[str, Any]:
    """Return a call whose arguments are still valid JSON: long ones as one text."""
    args = call.get("args")
    said = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
    short = at.preview(said, limit, offset)
    if short == said:
        return call
    return {**call, "args": short if isinstance(args, str) else {"(shortened)": short}}


def _has_images(message: Message) -> bool:
    """Tell whether there is more than text in a message that is not the assistant's."""
    content = message["data"].get("content")
    if message["type"] == "ai" or not isinstance(content, list):
        return False
    return any(not isinstance(block, str) and block.get("type") != "text" for block in content)
