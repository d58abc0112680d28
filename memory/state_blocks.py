"""State blocks in the answers of a model, found line by line, also in a stream.

A block is the text between `---STATE---` and `---END STATE---`, each alone on its line. Markers
inside code fences, quotes of the memory and running text do not count. A block without an end line
goes as far as the next block, or to the first paragraph after a blank line that begins no field.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .messages import Message, with_content

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
        released = [self._end_line(line + "\n") for line in lines]
        return "".join(released) + self._extend_line(unfinished)

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
    cutter = _divided(content)[1]
    return tuple(cutter.complete if complete else cutter.blocks)


def cut_content(content: Any) -> Any:
    r"""Return the content of a message, a text or content blocks, without its state blocks.

    >>> cut_content("Done.\n---STATE---\nGoal: ship\n---END STATE---")
    'Done.'
    """
    remainder, cutter = _divided(content)
    if not cutter.blocks:
        return content
    is_text = isinstance(remainder, str)
    return remainder if is_text else [item for item in remainder if _text_of(item) != ""]


def without_blocks(message: Message) -> Message:
    r"""Return a message of the model without its state blocks, any other unchanged.

    >>> block = "Done.\n---STATE---\nGoal: ship\n---END STATE---"
    >>> without_blocks({"type": "ai", "data": {"content": block}})
    {'type': 'ai', 'data': {'content': 'Done.'}}
    """
    content = message["data"].get("content")
    if message["type"] != "ai" or not content:
        return message
    remainder = cut_content(content)
    return message if remainder is content else with_content(message, remainder)


def _divided(content: Any) -> tuple[Any, Cutter]:
    """Return content without its state blocks, and the cutter that has them."""
    texts = [content] if isinstance(content, str) else map(_text_of, content)
    text = "".join(filter(None, texts))
    if START not in text:  # most answers, and each is read in every later call
        return content, Cutter()
    cutter = Cutter()
    return cutter.cut(content, last=True), cutter


def _with_text(item: Any, change: Callable[[str], str]) -> Any:
    text = _text_of(item)
    if text is None:
        return item
    return change(text) if isinstance(item, str) else {**item, "text": change(text)}


def _text_of(item: Any) -> str | None:
    if isinstance(item, str):
        return item
    is_text = isinstance(item, Mapping) and item.get("type") == "text"
    return str(item.get("text", "")) if is_text else None


def _breaks(blank: str) -> int:
    return blank.count("\n")
