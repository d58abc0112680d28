"""The state block that the model keeps in its answers, and the anchor that it says.

Blocks are found line by line, also in a stream.

A block is the text between `---STATE---` and `---END STATE---`, each alone on its line. Markers
inside code fences, quotes of the memory and running text do not count. A block without an end line
goes as far as the next block, or to the first paragraph after a blank line that begins no field.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage

from ..prompts.loader import render
from .blocks import kind_of
from .messages import Growing, with_content
from .settings import Settings
from .tokens import TokenCounter, cut_marked

START, END = "---STATE---", "---END STATE---"
"""The markers that the model is told to use."""

FIELDS = ("Goal", "Context", "Resolved", "Technical Anchors", "Facts", "Rules")
"""The fields that the model is told to use; others are kept as well."""

_MARKER = re.compile(rf" {{0,3}}({START}|{END})\s*")
"""At most three spaces may precede it: after more Markdown shows code."""

_CODE = re.compile(r" {0,3}(`{3,}+(?=[^`]*\Z)|~{3,}+)")
"""The first line of a code fence; in Markdown no further backtick may follow on it."""

_QUOTE = re.compile(r"<(?P<tag>\w+) (?P<number>\d{9})>(?!.*</(?P=tag) (?P=number)>)")
"""The opening of a quote of the memory that has more than one line."""

_FIELD = re.compile(rf"\W*(?i:{'|'.join(FIELDS)})\W*[:：]")
"""The beginning of a field, also in bold or as a list item."""

_HEAD = 64
"""Characters that decide whether a line may become a marker, with room for white space around it.

Only they are compared, so that a long line costs no more with each piece.
"""


class Cutter:
    r"""Cuts the blocks out of a streamed text and returns the rest as early as possible.

    The result does not depend on how the text is divided. Lines that may begin a block are held
    back until it is clear. Of the blank lines before and after a block the longer run stays. Each
    piece is read once, so the work is linear in the length of the text.

    >>> cutter = Cutter()
    >>> [cutter.feed(piece) for piece in ("Done.\n", "\n---ST", "ATE---\nGoal: x\n")]
    ['Done.', '', '']
    >>> cutter.feed("---END STATE---") + cutter.end(), cutter.blocks
    ('', ['Goal: x\n'])
    """

    def __init__(self) -> None:
        """Start with an empty text."""
        self.blocks: list[str] = []
        self.complete: list[str] = []
        """Those of the blocks that have an end line."""
        # The current line: its pieces, its first characters, its length, how much was released.
        self._pieces: list[str] = []
        self._head = ""
        self._length = self._released = 0
        self._closes_fence: Callable[[str], object] | None = None
        self._block: list[str] = []  # the lines of a block that has not ended
        self._gap: list[str] = []  # blank lines held back
        self._gap_before = ""  # those before the last block
        self._after_block = self._has_text = False

    def feed(self, text: str) -> str:
        """Take the next piece; return the text that can be released."""
        *lines, unfinished = text.split("\n")
        released = ""
        for line in lines:
            released += self._end_line(line + "\n")
        return released + self._extend_line(unfinished)

    def end(self) -> str:
        """Return the text that was held back; no more text may follow."""
        released = self._end_line("") + self._end_unclosed()
        return released if self._after_block else released + "".join(self._gap)

    def cut(self, content: Any, *, last: bool) -> Any:
        """Return a text or content blocks with the text that can be released, all if `last`."""
        if isinstance(content, str):
            return self.feed(content) + (self.end() if last else "")
        items = [_with_text(item, self.feed) for item in content]
        late = self.end() if last else ""
        if late:
            texts = [at for at, item in enumerate(items) if _text_of(item) is not None]
            if not texts:
                return [*items, {"type": "text", "text": late}]
            items[texts[-1]] = _with_text(items[texts[-1]], lambda text: text + late)
        return items

    def _extend_line(self, piece: str) -> str:
        """Take a piece of a line that may go on; return the text that can be released."""
        # A carriage return is held back, since it may belong to the end of the line.
        returns, self._length = self._length - self._released, self._length + len(piece)
        self._pieces.append(piece)
        if self._block:
            return ""
        if self._released:
            body = piece.rstrip("\r")
            text = "\r" * returns + body if body else ""
            self._released += len(text)
            return text
        head = self._head + piece
        self._head = head[:_HEAD]
        if START.startswith(head.strip()):  # blank, or what may become a marker
            return ""
        return self._release("".join(self._pieces).rstrip("\r"))

    def _end_line(self, end: str) -> str:
        """Take the end of a line; return the text that can be released."""
        line = "".join([*self._pieces, end])
        self._pieces, self._length, self._head = [], 0, ""
        marker = None if self._is_fenced(line) else _MARKER.fullmatch(line)
        if marker and marker[1] == START:
            released, self._block = self._end_unclosed(), [line]
            return released
        if not self._block:
            return self._release_line(line)
        self._block.append(line)
        if marker:
            self._take_block(self._block[1:-1], line)
            self.complete.append(self.blocks[-1])
        return ""

    def _take_block(self, lines: Sequence[str], last: str) -> None:
        self.blocks.append("".join(lines))
        self._gap_before = max(self._gap_before, "".join(self._gap), key=_breaks)
        self._block, self._gap, self._after_block = [], ["\n"] * last.endswith("\n"), True

    def _end_unclosed(self) -> str:
        """End a block that has no end line, and release the text after it."""
        if not self._block:
            return ""
        lines, end = self._block, _reach(self._block)
        self._take_block(lines[1:end], lines[end - 1])
        return "".join(map(self._release_line, lines[end:]))

    def _release_line(self, line: str) -> str:
        """Return a whole line but its end, which is held back as blank lines are."""
        body = line.rstrip("\r\n")
        if not body.strip() and not self._released:
            self._gap.append(line)
            return ""
        text = self._release(body)
        self._released, self._gap = 0, [line[len(body) :]]
        return text

    def _release(self, line: str) -> str:
        """Return the part of a line that was not released, after the blank lines held back."""
        blank = ""
        if not self._released:
            blank = "".join(self._gap)
            if self._after_block:
                blank = max(self._gap_before, blank, key=_breaks) if self._has_text else ""
            self._gap, self._gap_before, self._after_block, self._has_text = [], "", False, True
        new, self._released = line[self._released :], len(line)
        return blank + new

    def _is_fenced(self, line: str) -> bool:
        """Tell whether a line belongs to a code fence or a quote, including its delimiters."""
        if self._closes_fence is not None:
            if self._closes_fence(line):
                self._closes_fence = None
            return True
        if code := _CODE.match(line):
            fence = code[1]
            self._closes_fence = re.compile(rf" {{0,3}}{fence[0]}{{{len(fence)},}}\s*").fullmatch
        elif quote := _QUOTE.search(line):
            self._closes_fence = re.compile(f"</{quote['tag']} {quote['number']}>").search
        return self._closes_fence is not None


def _reach(lines: Sequence[str]) -> int:
    """Return how many lines a block without an end line has: answers may go on behind it."""
    for at in range(1, len(lines)):
        is_paragraph = lines[at].strip() and not lines[at - 1].strip()
        if is_paragraph and not _FIELD.match(lines[at]):
            return at
    return len(lines)


def blocks(content: Any, *, complete: bool = False) -> tuple[str, ...]:
    r"""Return the texts of the blocks in a message's content, in order, or of the `complete` ones.

    >>> blocks("Done.\n---STATE---\nGoal: ship\n---END STATE---")
    ('Goal: ship\n',)
    """
    divided = _cut(content) if isinstance(content, str) else _divided(content)
    return divided.complete if complete else divided.blocks


def cut_content(content: Any) -> Any:
    r"""Return the content of a message, a text or content blocks, without its state blocks.

    >>> cut_content("Done.\n---STATE---\nGoal: ship\n---END STATE---")
    'Done.'
    """
    if isinstance(content, str):
        return _cut(content).rest if START in content else content
    rest, found, _ = _divided(content)
    return [item for item in rest if _text_of(item) != ""] if found else content


def without_blocks(message: BaseMessage) -> BaseMessage:
    r"""Return a message of the model without its state blocks, any other unchanged.

    >>> block = "Done.\n---STATE---\nGoal: ship\n---END STATE---"
    >>> without_blocks(AIMessage(block)).content
    'Done.'
    """
    content = message.content
    if message.type != "ai" or not content:
        return message
    remainder = cut_content(content)
    return message if remainder is content else with_content(message, remainder)


class _Divided(NamedTuple):
    """Content without its state blocks, and these; the `complete` ones have an end line."""

    rest: Any
    blocks: tuple[str, ...]
    complete: tuple[str, ...]


@lru_cache(maxsize=64)  # an answer is read by each step of its turn, and in later calls
def _cut(text: str) -> _Divided:
    cutter = Cutter()
    rest = cutter.feed(text) + cutter.end()
    if not cutter.blocks:
        return _Divided(text, (), ())
    return _Divided(rest, tuple(cutter.blocks), tuple(cutter.complete))


def _divided(content: Sequence[Any]) -> _Divided:
    """Divide content blocks, in whose texts together the state blocks stand."""
    if START not in "".join(filter(None, map(_text_of, content))):
        return _Divided(content, (), ())
    cutter = Cutter()
    rest = cutter.cut(content, last=True)
    return _Divided(rest, tuple(cutter.blocks), tuple(cutter.complete))


def _with_text(item: Any, change: Callable[[str], str]) -> Any:
    text = _text_of(item)
    if text is None:
        return item
    return change(text) if isinstance(item, str) else {**item, "text": change(text)}


def _text_of(item: Any) -> str | None:
    if isinstance(item, str):
        return item
    return str(item.get("text", "")) if kind_of(item) == "text" else None


def _breaks(blank: str) -> int:
    return blank.count("\n")


_Anchor: TypeAlias = Mapping[str, str]
"""Text by field, in the order written; the field "" has the text before the first field."""

# Models also write fields in lower case, in bold or as list items.
_CANONICAL = {name.lower(): name for name in FIELDS}
_FIELD_LINE = re.compile(
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

    In a list, of facts or rules, only fields of the prompt begin: `flour: T65` is a line of it.

    >>> parsed("Goal: ship 1.2\nTechnical Anchors: port 8443\n  host db-1\nOwner: Ann")
    {'Goal': 'ship 1.2', 'Technical Anchors': 'port 8443\n  host db-1', 'Owner': 'Ann'}
    """
    fields: dict[str, list[str]] = {}
    name = ""
    for line in block.replace("\r\n", "\n").split("\n"):
        field = _FIELD_LINE.fullmatch(line)
        if field and not field["own"] and name in FIELDS[-2:]:  # a list
            field = None
        if field:
            # The fields of the prompt need no space after their colon; `http://` is no field.
            name = _CANONICAL[field["own"].lower()] if field["own"] else field["name"]
        fields.setdefault(name, []).append(field["text"] if field else line)
    return {name: text for name, lines in fields.items() if (text := "\n".join(lines).strip())}


def newest(content: Any, *, complete: bool = False) -> dict[str, str] | None:
    r"""Return the fields of the last state block in a message's content that has any, else None.

    With `complete` only blocks count that have an end line.

    >>> newest("Done.\n---STATE---\nGoal: ship 1.2\n---END STATE---")
    {'Goal': 'ship 1.2'}
    """
    return next(filter(None, map(parsed, reversed(blocks(content, complete=complete)))), None)


def rendered_fields(anchor: _Anchor) -> str:
    r"""Return the anchor as text, a field on each line.

    >>> rendered_fields({"Goal": "ship 1.2", "Owner": "Ann"})
    'Goal: ship 1.2\nOwner: Ann'
    """
    return "\n".join(f"{name}: {text}" if name else text for name, text in anchor.items())


def limited(anchor: _Anchor, limit: int, count: TokenCounter) -> dict[str, str]:
    """Return the anchor within `limit` tokens: long fields are cut to one common length.

    If that is not enough, fields are left out, first those that the prompt does not name.

    >>> limited({"Goal": "one two three four five", "Owner": "Ann"}, 7, lambda s: len(s.split()))
    {'Goal': 'one two three four…', 'Owner': 'Ann'}
    """
    if count(rendered_fields(anchor)) <= limit:
        return dict(anchor)
    by_rank = sorted(anchor, key=lambda name: name not in FIELDS)[:limit]

    def cut(fields: int, length: int) -> dict[str, str]:
        names = {*by_rank[:fields]}
        return {name: cut_marked(anchor[name], length, count) for name in anchor if name in names}

    def size(fields: int, length: int) -> int:
        return count(rendered_fields(cut(fields, length)))

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


def as_users_see(messages: Sequence[BaseMessage]) -> tuple[BaseMessage, ...]:
    r"""Return messages as users see them, without the state blocks of the model.

    >>> block = "Done.\n---STATE---\nGoal: ship 1.2\n---END STATE---"
    >>> as_users_see([AIMessage(block)])[0].content
    'Done.'
    """
    return tuple(map(without_blocks, messages))


METADATA_KEY = "ebbtide"
"""The key of an answer's `response_metadata` for its report, and `raw` with its state block."""

CALLS_KEY = "ebbtide_calls"
"""The key of an answer's `response_metadata` for the ids of its calls of memory tools."""


_REPORTED = (
    *("tokens", "total", "budget", "application", "changed", "left_out", "prefix"),
    *("digest", "plan", "after_events", "thresholds"),
)
"""What the archive keeps of a call's report."""


def calls_sent(messages: Sequence[BaseMessage]) -> tuple[Mapping[str, Any], ...]:
    """Return an event for each call of a turn, from the reports that its answers carry.

    It has what was sent, in tokens by part, and `usage` as the provider counted it.

    >>> own = {"ebbtide": {"tokens": {"system": 9}, "total": 9, "digest": "8f3c"}}
    >>> said = {"content": "Yes.", "response_metadata": own}
    >>> calls_sent([AIMessage(**said)])
    ({'type': 'sent', 'tokens': {'system': 9}, 'total': 9, 'digest': '8f3c'},)
    """
    events = []
    for message in messages:
        metadata = message.response_metadata
        own = metadata.get(METADATA_KEY)
        if not (isinstance(message, AIMessage) and isinstance(own, Mapping) and "tokens" in own):
            continue
        event: dict[str, Any] = {"type": "sent"}
        for name in _REPORTED:
            if name in own:
                event[name] = own[name]
        if usage := message.usage_metadata:
            event["usage"] = usage
        events.append(event)
    return tuple(events)


def as_stored(messages: Sequence[BaseMessage]) -> tuple[BaseMessage, ...]:
    r"""Return messages of the state as the archive stores them: with blocks, without reports.

    >>> metadata = {"ebbtide": {"raw": "Done.\n---STATE---\nGoal: ship\n---END STATE---"}}
    >>> said = {"content": "Done.", "id": "1", "response_metadata": metadata}
    >>> as_stored([AIMessage(**said)])[0].response_metadata
    {}
    """
    plain, raw = list[BaseMessage](), dict[str, Any]()
    for message in messages:
        metadata = message.response_metadata
        if message.type != "ai" or METADATA_KEY not in metadata:
            plain.append(message)
            continue
        rest = dict(metadata)
        own = rest.pop(METADATA_KEY)
        plain.append(message.model_copy(update={"response_metadata": rest}))
        if isinstance(own, Mapping) and "raw" in own:
            raw[str(message.id)] = own["raw"]
    return with_blocks(plain, raw) if raw else tuple(plain)


def with_blocks(messages: Sequence[BaseMessage], raw: Mapping[str, Any]) -> tuple[BaseMessage, ...]:
    r"""Return messages with their state blocks restored; `raw` has original contents by message id.

    A message that differs from its original without blocks was edited: it stays unchanged.

    >>> block = "Done.\n---STATE---\nGoal: ship 1.2\n---END STATE---"
    >>> messages = as_users_see([AIMessage(block, id="1")])
    >>> with_blocks(messages, {"1": block})[0].content == block
    True
    """
    restored = []
    for message in messages:
        content = raw.get(message.id or "")
        edited = not content or cut_content(content) != message.content
        restored.append(message if edited else with_content(message, content))
    return tuple(restored)


def each_block_once(
    messages: Sequence[BaseMessage], noted: Mapping[str, str], within: int
) -> tuple[BaseMessage, ...]:
    """Return a turn's messages without state blocks that stand above them.

    `noted` is the newest block before the turn, {} for none; it is newer than those of the first
    `within` messages.
    """
    if not any(found := _fields(messages)):
        return tuple(messages)
    begin, stands = within if noted else 0, noted
    once = [*_without_blocks(messages)[:begin], *messages[begin:]]
    for at, block in enumerate(found[begin:], begin):
        if block is not None:
            once[at] = without_blocks(messages[at]) if block == stands else messages[at]
            stands = block
    return tuple(once)


_fields = Growing[Any](
    lambda messages, _: [newest(one.content) if one.type == "ai" else None for one in messages]
)
_without_blocks = Growing[BaseMessage](lambda messages, _: [*map(without_blocks, messages)])
