"""The anchor: the small block of state that the model keeps, for facts that outlive every cut."""

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
"""Field -> text, in the order in which the model wrote them; "" is what stood before the first."""

# Fields as models write them, with a list's or bold marks around, or in lower case.
_KNOWN = {name.lower(): name for name in FIELDS}
_FIELD = re.compile(
    rf"\**(?:(?P<own>(?i:{'|'.join(FIELDS)}))\**[:：]|"
    r"(?P<name>[^\W\d][\w -]{0,39}?)\**(?::(?=[\s*]|$)|：))\**\s*(?P<text>.*)"
)
ANCHOR_TOKENS = 400
"""Length of the state block: a fortieth of the default budget."""

_CHARACTERS = 2.5
"""Characters of a token by which the model is told how long a block may be: it counts them better.

A token of a block full of names and numbers has three; the rest is room for one that is longer.
"""

_STEP = 50
"""The length is told in whole fifties, so that a little more room does not change the prompt."""

_LEAST = 4
"""Tokens that a field is cut to at least; if there are too many for that, some are left out."""


def parsed(block: str) -> dict[str, str]:
    r"""Return the fields of a block; a line that begins none goes on with the one before.

    >>> parsed("Goal: ship 1.2\nTechnical Anchors: port 8443\n  host db-1\nOwner: Ann")
    {'Goal': 'ship 1.2', 'Technical Anchors': 'port 8443\n  host db-1', 'Owner': 'Ann'}
    """
    fields: dict[str, list[str]] = {}
    name = ""
    for line in block.replace("\r\n", "\n").split("\n"):
        if field := _FIELD.fullmatch(line):
            # A field that was asked for needs no space after its colon.
            name = _KNOWN[field["own"].lower()] if field["own"] else field["name"]
        fields.setdefault(name, []).append(field["text"] if field else line)
    texts = {name: "\n".join(lines).strip() for name, lines in fields.items()}
    return {name: text for name, text in texts.items() if text}


def newest(content: Any) -> dict[str, str] | None:
    """Return the last complete block of a message's content that says something, else None."""
    parts = [fields for block in blocks(content) if (fields := parsed(block))]
    return parts[-1] if parts else None


def rendered(anchor: _Anchor) -> str:
    r"""Return the anchor as text, a field on each line.

    >>> rendered({"Goal": "ship 1.2", "Owner": "Ann"})
    'Goal: ship 1.2\nOwner: Ann'
    """
    return "\n".join(f"{name}: {text}" if name else text for name, text in anchor.items())


def limited(anchor: _Anchor, limit: int, count: TokenCounter) -> dict[str, str]:
    """Return the anchor within `limit` tokens: long fields are cut, all to the same length.

    Where even that is not enough, fields are left out, those that nobody asked for first.

    >>> limited({"Goal": "one two three four five", "Owner": "Ann"}, 7, lambda s: len(s.split()))
    {'Goal': 'one two three four…', 'Owner': 'Ann'}
    """
    if count(rendered(anchor)) <= limit:
        return dict(anchor)
    wanted = sorted(anchor, key=lambda name: name not in FIELDS)[:limit]

    def first(number: int, tokens: int) -> dict[str, str]:
        names = {*wanted[:number]}
        fields = (name for name in anchor if name in names)
        return {name: cut_marked(anchor[name], tokens, count) for name in fields}

    def size(number: int, tokens: int) -> int:
        return count(rendered(first(number, tokens)))

    numbers, lengths = range(1, len(wanted) + 1), range(_LEAST + 1, limit + 1)
    number = bisect_right(numbers, limit, key=lambda number: size(number, _LEAST))
    tokens = bisect_right(lengths, limit, key=lambda tokens: size(number, tokens))
    return first(number, _LEAST + tokens)


def keeping(settings: Settings, tokens: int = ANCHOR_TOKENS) -> str:
    """Return what the model is told about keeping the anchor; empty if it keeps none.

    `tokens` are what the context has room for.
    """
    if settings.anchor == "off":
        return ""
    when = render("anchor_always" if settings.anchor == "always" else "anchor_on_change")
    characters = int(min(tokens, ANCHOR_TOKENS) * _CHARACTERS) // _STEP * _STEP
    return render("anchor", when=when, characters=characters)


def shown(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages as users see them: those of the model without their blocks."""
    return tuple(map(without_blocks, messages))


def with_blocks(messages: Sequence[Message], raw: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return messages with their blocks again; `raw` is what the model said, by message id.

    A message that is not what was shown of it was edited: it stays as it is.
    """
    whole = []
    for message in messages:
        content = raw.get(message["data"].get("id") or "")
        edited = not content or cut_content(content) != message["data"].get("content", "")
        whole.append(message if edited else with_content(message, content))
    return tuple(whole)
