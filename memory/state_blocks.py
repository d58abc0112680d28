"""State blocks in what a model says: found line by line, also while the text still comes in.

A block is what stands between `---STATE---` and `---END STATE---`, each alone on its line. Markers
inside code fences, quotes of the memory and running text do not count. Where a second block begins
before the first one has ended, the second counts, and what stands of the first is text.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from .messages import Message, with_content

START, END = "---STATE---", "---END STATE---"
"""The markers that the model is told to use."""

FIELDS = ("Goal", "Context", "Resolved", "Technical Anchors")
"""The fields that the model is told to use; others are kept as well."""

_MARKER = re.compile(rf" {{0,3}}({START}|{END})\s*")
"""With more spaces before it Markdown shows code."""

_CODE = re.compile(r" {0,3}(`{3,}+(?=[^`]*\Z)|~{3,}+)")
"""The first line of a code fence: in Markdown no backtick follows those that begin one."""

_QUOTE = re.compile(r'<(?P<tag>\w+)(?: [^<>]*)? key="(?P<key>[0-9a-f]{16})">\s*$')
"""The first line of a quote of the memory, as `messages.fenced` writes it."""

_LOOK = 64
"""Characters of a line that are enough to see that nothing of it can be shown yet.

Such a line is blank, or no longer than a marker but for the white space around it.
"""


class Cutter:
    r"""Takes a text in pieces and gives it back without its blocks, as early as it can.

    However the text is divided, the pieces given back are the same when put together. What turns
    out to be no block is given back late. Blank lines around a block become those of one side. Each
    piece is looked at once, however long its line: the work grows with the text and not faster.

    >>> cutter = Cutter()
    >>> [cutter.feed(piece) for piece in ("Done.\n", "\n---ST", "ATE---\nGoal: x\n")]
    ['Done.', '', '']
    >>> cutter.feed("---END STATE---") + cutter.end(), cutter.blocks
    ('', ['Goal: x\n'])
    """

    def __init__(self) -> None:
        """Begin before the first character."""
        self.blocks: list[str] = []
        self._line: list[str] = []
        self._length = self._shown = 0
        self._head = ""
        self._fence: Callable[[str], object] | None = None
        self._block: list[str] = []
        self._gap: list[str] = []
        self._before = ""
        self._cut = self._said = False

    def feed(self, text: str) -> str:
        """Take the next piece; return what can be shown by now."""
        *ended, rest = text.split("\n")
        shown = [self._ended(line + "\n") for line in ended]
        return "".join(shown) + self._begun(rest)

    def end(self) -> str:
        """Return what was held back; no more text may follow."""
        shown = self._ended("") + self._released()
        return shown if self._cut else shown + "".join(self._gap)

    def cut(self, content: Any, *, last: bool) -> Any:
        """Return a text or content blocks, the `last` or not, with what can be shown of it."""
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

    def _begun(self, piece: str) -> str:
        """Return what can be shown of a line that may go on, given the next piece of it."""
        returns, self._length = self._length - self._shown, self._length + len(piece)
        self._line.append(piece)
        if self._block:
            return ""
        if self._shown:
            body = piece.rstrip("\r")
            shown = "\r" * returns + body if body else ""
            self._shown += len(shown)
            return shown
        head = self._head + piece
        self._head = head[:_LOOK]
        if START.startswith(head.strip()):  # blank, or what may become a marker
            return ""
        return self._text("".join(self._line).rstrip("\r"))

    def _ended(self, end: str) -> str:
        """Return what can be shown now that a line has ended."""
        line = "".join([*self._line, end])
        self._line, self._length, self._head = [], 0, ""
        marker = None if self._fenced(line) else _MARKER.fullmatch(line)
        if marker and marker[1] == START:
            shown, self._block = self._released(), [line]
            return shown
        if not self._block:
            return self._plain(line)
        self._block.append(line)
        if marker:  # the block is left out, and what is around it joined
            self.blocks.append("".join(self._block[1:-1]))
            self._before = max(self._before, "".join(self._gap), key=_breaks)
            self._block, self._gap, self._cut = [], ["\n"] * line.endswith("\n"), True
        return ""

    def _released(self) -> str:
        """Show the lines held so far: no end came, so they were no block."""
        lines, self._block = self._block, []
        return "".join(map(self._plain, lines))

    def _plain(self, line: str) -> str:
        """Show a whole line, but hold back its end."""
        body = line.rstrip("\r\n")
        if not body.strip() and not self._shown:
            self._gap.append(line)
            return ""
        shown = self._text(body)
        self._gap, self._shown = [line[len(body) :]], 0
        return shown

    def _text(self, line: str) -> str:
        """Show what is new of a line that says something, after the blank lines before it.

        Around a block they are those of the side with more.
        """
        blank = ""
        if not self._shown:
            blank = "".join(self._gap)
            if self._cut:
                blank = max(self._before, blank, key=_breaks) if self._said else ""
            self._gap, self._before, self._cut, self._said = [], "", False, True
        new, self._shown = line[self._shown :], len(line)
        return blank + new

    def _fenced(self, line: str) -> bool:
        """Tell whether a line is a part of a fenced text, its fences included."""
        if self._fence is not None:
            if self._fence(line):
                self._fence = None
            return True
        if code := _CODE.match(line):
            fence = code[1]
            self._fence = re.compile(rf" {{0,3}}{fence[0]}{{{len(fence)},}}\s*").fullmatch
        elif quote := _QUOTE.search(line):
            self._fence = re.compile(f"</{quote['tag']} {quote['key']}>").match
        return self._fence is not None


def blocks(content: Any) -> tuple[str, ...]:
    """Return what stands in the blocks of a message's content, in order."""
    return tuple(_divided(content)[1])


def cut_content(content: Any) -> Any:
    """Return the content of a message, a text or content blocks, without its state blocks."""
    shown, found = _divided(content)
    if not found:
        return content
    return shown if isinstance(shown, str) else [item for item in shown if _text_of(item) != ""]


def without_blocks(message: Message) -> Message:
    """Return a message of the model without its state blocks, any other as it is."""
    content = message["data"].get("content")
    if message["type"] != "ai" or not content:
        return message
    shown = cut_content(content)
    return message if shown is content else with_content(message, shown)


def _divided(content: Any) -> tuple[Any, list[str]]:
    """Return content with what its blocks leave of its texts, and the blocks."""
    texts = [content] if isinstance(content, str) else map(_text_of, content)
    said = "".join(filter(None, texts))
    if START not in said or END not in said:  # most answers, and each is read in every later call
        return content, []
    cutter = Cutter()
    return cutter.cut(content, last=True), cutter.blocks


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
