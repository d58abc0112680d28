"""The anchor: a small block of state that the model keeps up to date in its answers."""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ..prompts.loader import render
from .messages import Message, with_content
from .settings import Settings
from .state_blocks import FIELDS, blocks, cut_content, without_blocks
from .tokens import TokenCounter, cut_marked

_Anchor: TypeAlias = Mapping[str, str]
"""Text by field, in the order written; the field "" has the text before the first field."""

# Models also write fields in lower case, in bold or as list items.
_CANONICAL = {name.lower(): name for name in FIELDS}
_FIELD = re.compile(
    rf"\**(?:(?P<own>(?i:{'|'.join(FIELDS)}))\**[:：]|"
    r"(?P<name>[^\W\d][\w -]{0,39}?)\**(?::(?=[\s*]|$)|：))\**\s*(?P<text>.*)"
)

ANCHOR_TOKENS = 400
"""Tokens of the state block at most: a fortieth of the default budget."""

_CHARACTERS = 2.5
"""Characters for each token in the length that the prompt states: models count tokens badly.

Blocks full of names and numbers have three characters a token; the rest is a margin.
"""

_STEP = 50  # the stated length is rounded down to fifties, lest small changes change the prompt
_SHORTEST = 4  # tokens that a field is cut to at least; if that is too much, fields are left out


def parsed(block: str) -> dict[str, str]:
    r"""Return the fields of a block; a line without a field continues the one before.

    >>> parsed("Goal: ship 1.2\nTechnical Anchors: port 8443\n  host db-1\nOwner: Ann")
    {'Goal': 'ship 1.2', 'Technical Anchors': 'port 8443\n  host db-1', 'Owner': 'Ann'}
    """
    fields: dict[str, list[str]] = {}
    name = ""
    for line in block.replace("\r\n", "\n").split("\n"):
        if field := _FIELD.fullmatch(line):
            # The fields of the prompt need no space after their colon; `http://` is no field.
            name = _CANONICAL[field["own"].lower()] if field["own"] else field["name"]
        fields.setdefault(name, []).append(field["text"] if field else line)
    texts = {name: "\n".join(lines).strip() for name, lines in fields.items()}
    return {name: text for name, text in texts.items() if text}


def newest(content: Any, *, complete: bool = False) -> dict[str, str] | None:
    r"""Return the fields of the last state block in a message's content that has any, else None.

    With `complete` only blocks count that have an end line.

    >>> newest("Done.\n---STATE---\nGoal: ship 1.2\n---END STATE---")
    {'Goal': 'ship 1.2'}
    """
    return next(filter(None, map(parsed, reversed(blocks(content, complete=complete)))), None)


def rendered(anchor: _Anchor) -> str:
    r"""Return the anchor as text, a field on each line.

    >>> rendered({"Goal": "ship 1.2", "Owner": "Ann"})
    'Goal: ship 1.2\nOwner: Ann'
    """
    return "\n".join(f"{name}: {text}" if name else text for name, text in anchor.items())


def limited(anchor: _Anchor, limit: int, count: TokenCounter) -> dict[str, str]:
    """Return the anchor within `limit` tokens: long fields are cut to one common length.

    If that is not enough, fields are left out, first those that the prompt does not name.

    >>> limited({"Goal": "one two three four five", "Owner": "Ann"}, 7, lambda s: len(s.split()))
    {'Goal': 'one two three four…', 'Owner': 'Ann'}
    """
    if count(rendered(anchor)) <= limit:
        return dict(anchor)
    by_rank = sorted(anchor, key=lambda name: name not in FIELDS)[:limit]

    def cut(fields: int, length: int) -> dict[str, str]:
        names = {*by_rank[:fields]}
        return {name: cut_marked(anchor[name], length, count) for name in anchor if name in names}

    def size(fields: int, length: int) -> int:
        return count(rendered(cut(fields, length)))

    numbers, lengths = range(1, len(by_rank) + 1), range(_SHORTEST + 1, limit + 1)
    fields = bisect_right(numbers, limit, key=lambda fields: size(fields, _SHORTEST))
    longer = bisect_right(lengths, limit, key=lambda length: size(fields, length))
    return cut(fields, _SHORTEST + longer)


def anchor_instructions(settings: Settings, tokens: int = ANCHOR_TOKENS) -> str:
    """Return the instructions for keeping an anchor of `tokens`; empty if it is turned off."""
    if settings.anchor == "off":
        return ""
    occasion = render("anchor_always" if settings.anchor == "always" else "anchor_on_change")
    characters = int(min(tokens, ANCHOR_TOKENS) * _CHARACTERS) // _STEP * _STEP
    return render("anchor", when=occasion, characters=characters)


def shown(messages: Sequence[Message]) -> tuple[Message, ...]:
    r"""Return messages as users see them, without the state blocks of the model.

    >>> block = "Done.\n---STATE---\nGoal: ship 1.2\n---END STATE---"
    >>> shown([{"type": "ai", "data": {"content": block}}])
    ({'type': 'ai', 'data': {'content': 'Done.'}},)
    """
    return tuple(without_blocks(one) if one["type"] == "ai" else one for one in messages)


OWN = "ebbtide"
"""The key of an answer's `response_metadata` for its report, and `raw` with its state block."""


_REPORTED = (
    *("tokens", "total", "budget", "changed", "left_out", "prefix", "digest"),
    *("plan", "after_events"),
)
"""What the archive keeps of a call's report."""


def calls_sent(messages: Sequence[Message]) -> tuple[Mapping[str, Any], ...]:
    """Return an event for each call of a turn, from the reports that its answers carry.

    It has what was sent, in tokens by part, and `usage` as the provider counted it.

    >>> own = {"ebbtide": {"tokens": {"system": 9}, "total": 9, "digest": "8f3c"}}
    >>> said = {"content": "Yes.", "response_metadata": own}
    >>> calls_sent([{"type": "ai", "data": said}])
    ({'type': 'sent', 'tokens': {'system': 9}, 'total': 9, 'digest': '8f3c'},)
    """
    events = []
    for message in messages:
        metadata = message["data"].get("response_metadata")
        own = metadata.get(OWN) if isinstance(metadata, Mapping) else None
        if message["type"] != "ai" or not isinstance(own, Mapping) or "tokens" not in own:
            continue
        event = {"type": "sent", **{name: own[name] for name in _REPORTED if name in own}}
        if usage := message["data"].get("usage_metadata"):
            event["usage"] = usage
        events.append(event)
    return tuple(events)


def as_stored(messages: Sequence[Message]) -> tuple[Message, ...]:
    r"""Return messages of the state as the archive stores them: with blocks, without reports.

    >>> metadata = {"ebbtide": {"raw": "Done.\n---STATE---\nGoal: ship\n---END STATE---"}}
    >>> said = {"content": "Done.", "id": "1", "response_metadata": metadata}
    >>> as_stored([{"type": "ai", "data": said}])[0]["data"]["response_metadata"]
    {}
    """
    plain, raw = list[Message](), dict[str, Any]()
    for message in messages:
        metadata = message["data"].get("response_metadata")
        if message["type"] != "ai" or not isinstance(metadata, Mapping) or OWN not in metadata:
            plain.append(message)
            continue
        rest = {key: value for key, value in metadata.items() if key != OWN}
        plain.append({**message, "data": {**message["data"], "response_metadata": rest}})
        own = metadata[OWN]
        if isinstance(own, Mapping) and "raw" in own:
            raw[str(message["data"].get("id"))] = own["raw"]
    return with_blocks(plain, raw) if raw else tuple(plain)


def with_blocks(messages: Sequence[Message], raw: Mapping[str, Any]) -> tuple[Message, ...]:
    r"""Return messages with their state blocks restored; `raw` has original contents by message id.

    A message that differs from its original without blocks was edited: it stays unchanged.

    >>> block = "Done.\n---STATE---\nGoal: ship 1.2\n---END STATE---"
    >>> messages = shown([{"type": "ai", "data": {"content": block, "id": "1"}}])
    >>> with_blocks(messages, {"1": block})[0]["data"]["content"] == block
    True
    """
    restored = []
    for message in messages:
        content = raw.get(message["data"].get("id") or "")
        edited = not content or cut_content(content) != message["data"].get("content", "")
        restored.append(message if edited else with_content(message, content))
    return tuple(restored)
