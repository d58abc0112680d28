"""State blocks in what a model says: found line by line, also while the text still comes in.

A block is what stands between `---STATE---` and `---END STATE---`, each alone on its line. Markers
inside code fences, quotes of the memory and running text do not count. Where a second block begins
before the first one has ended, the second counts; what stands of the first is cut too if it is
nothing but its usual fields, and so is the second of two ends.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

START, END = "---STATE---", "---END STATE---"

FIELDS = ("Goal", "Context", "Resolved", "Technical Anchors")
"""The fields that the model is told to use; others are kept as well."""

_CODE = re.compile(r" {0,3}(?P<fence>`{3,}|~{3,})(?P<rest>.*)", re.DOTALL)
_QUOTE = re.compile(r'<(?P<tag>\w+)(?: [^<>]*)? key="(?P<key>[0-9a-f]{16})">\s*$')
_NAMED = re.compile(rf"\**(?:{'|'.join(FIELDS)})\**[:：]", re.IGNORECASE)
_GOES_ON = re.compile(r"\s+|[-*] ")
_INDENT = 3
"""Spaces that may stand before a marker; with more, Markdown shows code."""

_LOOK = 64
"""Characters of a line that are enough to see that nothing of it can be shown yet.

Such a line is blank, or no longer than a marker but for the white space after it.
"""


class _Blank(NamedTuple):
    """Blank lines, and how many line ends there are in them."""

    breaks: int = 0
    text: str = ""


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
        self._length = self._given = 0
        self._look = ""
        self._fence: Callable[[str], bool] | None = None
        self._block: list[str] | None = None
        self._starts: list[int] = []
        self._ends = 0
        self._gap: list[str] = []
        self._before = _Blank()
        self._cut = self._said = False

    def feed(self, text: str) -> str:
        """Take the next piece; return what can be shown by now."""
        *lines, rest = text.split("\n")
        shown = [self._ended(self._whole(line + "\n")) for line in lines]
        return "".join(shown) + self._begun(rest)

    def end(self) -> str:
        """Return what was held back; no more text may follow."""
        line = self._whole("")
        shown = self._ended(line) if line else ""
        if self._block is not None:
            shown += self._released()
        gap, self._gap = self._gap, []
        return shown if self._cut else shown + "".join(gap)

    def _whole(self, rest: str) -> str:
        """Return the line that ends with `rest`, and begin the next one."""
        line = "".join([*self._line, rest])
        self._line, self._length, self._look = [], 0, ""
        return line

    def _begun(self, piece: str) -> str:
        """Return what can be shown of a line that may go on, given the next piece of it."""
        returns, self._length = self._length - self._given, self._length + len(piece)
        self._line.append(piece)
        if self._block is not None:
            return ""
        if self._given:
            body = piece.rstrip("\r")
            shown = "\r" * returns + body if body else ""
            self._given += len(shown)
            return shown
        line = self._look + piece
        self._look = line[:_LOOK]
        may_be = _may_be(START, line) or (self._doubled() and _may_be(END, line))
        if not line.strip() or (self._fence is None and may_be):
            return ""
        return self._text("".join(self._line).rstrip("\r"))

    def _ended(self, line: str) -> str:
        fenced = self._fenced(line)
        if not fenced and _is(START, line):
            return self._started(line)
        if self._block is None:
            if fenced or not (self._doubled() and _is(END, line)):
                return self._plain(line)
            self._ends -= 1
            self._gone(line)
            return ""
        self._block.append(line)
        if not fenced and _is(END, line):
            self._closed(self._block, line)
        return ""

    def _started(self, line: str) -> str:
        """Begin a block; show the lines held so far, unless they are fields of one begun twice."""
        held = self._block or []
        shown = ""
        if held and not _fields(held[self._starts[-1] + 1 :]):
            shown, held = self._released(), []
        if not held:
            self._starts = []
        self._starts.append(len(held))
        held.append(line)
        self._block = held
        return shown

    def _closed(self, block: list[str], last: str) -> None:
        self.blocks.append("".join(block[self._starts[-1] + 1 : -1]))
        self._ends, self._block = len(self._starts) - 1, None
        self._gone(last)

    def _gone(self, last: str) -> None:
        """Leave out a line with those before it that are held, and join what is around them."""
        self._before = max(self._before, _blank(self._gap), key=_breaks)
        self._gap, self._cut = ["\n"] * last.endswith("\n"), True

    def _doubled(self) -> bool:
        """Tell whether nothing was said since a block that was begun twice has ended once."""
        return self._ends > 0 and self._cut

    def _released(self) -> str:
        """Show the lines held so far: no end came, so they were no block."""
        lines, self._block = self._block or [], None
        return "".join(map(self._plain, lines))

    def _plain(self, line: str) -> str:
        """Show a whole line, but hold back its end."""
        body = line.rstrip("\r\n")
        if not body.strip() and not self._given:
            self._gap.append(line)
            return ""
        shown = self._text(body)
        self._gap, self._given = [line[len(body) :]], 0
        return shown

    def _text(self, line: str) -> str:
        """Show what is new of a line that says something, after the blank lines before it."""
        blank = self._separator() if not self._given else ""
        shown, self._given, self._said = line[self._given :], len(line), True
        return blank + shown

    def _separator(self) -> str:
        gap = _blank(self._gap)
        between = max(self._before, gap, key=_breaks) if self._cut else gap
        blank = between.text if self._said or not self._cut else ""
        self._gap, self._before, self._cut = [], _Blank(), False
        return blank

    def _fenced(self, line: str) -> bool:
        """Tell whether a line is a part of a fenced text, its fences included."""
        if self._fence is not None:
            if self._fence(line):
                self._fence = None
            return True
        self._fence = _opened(line)
        return self._fence is not None


def blocks(content: Any) -> tuple[str, ...]:
    r"""Return what stands in the blocks of a message's content, in order.

    >>> blocks("Done.\n---STATE---\nGoal: x\n---END STATE---")
    ('Goal: x\n',)
    """
    return tuple(_divided(content)[1])


def cut_content(content: Any) -> Any:
    r"""Return the content of a message, a text or content blocks, without its state blocks.

    >>> cut_content("Done.\n\n---STATE---\nGoal: x\n---END STATE---\n")
    'Done.'
    """
    shown, found = _divided(content)
    if not found:
        return content
    return shown if isinstance(shown, str) else [item for item in shown if _text_of(item) != ""]


def _divided(content: Any) -> tuple[Any, list[str]]:
    """Return content with what its blocks leave of its texts, and the blocks."""
    texts = [content] if isinstance(content, str) else map(_text_of, content)
    said = "".join(filter(None, texts))
    if START not in said or END not in said:  # most answers, and each is read in every later call
        return content, []
    cutter = Cutter()
    shown = passed(cutter, content)
    return appended(shown, cutter.end()), cutter.blocks


def passed(cutter: Cutter, content: Any) -> Any:
    """Return content whose texts went through the cutter; the other parts stay as they are."""
    if isinstance(content, str):
        return cutter.feed(content)
    return [_with_text(item, cutter.feed) for item in content]


def appended(content: Any, text: str) -> Any:
    """Return content with a text at its end, in its last text block if it has one."""
    if not text:
        return content
    if isinstance(content, str):
        return content + text
    at = max((n for n, item in enumerate(content) if _text_of(item) is not None), default=None)
    if at is None:
        return [*content, {"type": "text", "text": text}]
    return [*content[:at], _with_text(content[at], lambda said: said + text), *content[at + 1 :]]


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


def _opened(line: str) -> Callable[[str], bool] | None:
    """Return what tells the last line of the fenced text that begins here, None if none does."""
    if code := _CODE.match(line):
        fence = code["fence"]
        return None if "`" in code["rest"] and fence[0] == "`" else _closing(fence)
    if quote := _QUOTE.search(line):
        closing = f"</{quote['tag']} {quote['key']}>"
        return lambda line: line.startswith(closing)
    return None


def _closing(fence: str) -> Callable[[str], bool]:
    def closes(line: str) -> bool:
        said = line.rstrip()
        marks = said.lstrip(" ")
        indent = len(said) - len(marks)
        return indent <= _INDENT and len(marks) >= len(fence) and not marks.strip(fence[0])

    return closes


def _is(marker: str, line: str) -> bool:
    return line.strip() == marker and _may_be(marker, line)


def _may_be(marker: str, line: str) -> bool:
    """Tell whether a line that may go on can become a marker."""
    said = line.lstrip(" ")
    indent = len(line) - len(said)
    return indent <= _INDENT and (marker.startswith(said) or said.rstrip() == marker)


def _fields(lines: list[str]) -> bool:
    """Tell whether lines are fields of a block, with what goes on with them, or blank."""
    said = [line for line in lines if line.strip()]
    named = [_NAMED.match(line) for line in said]
    following = zip(said[1:], named[1:], strict=True)
    return all(named[:1]) and all(name or _GOES_ON.match(line) for line, name in following)


def _blank(lines: list[str]) -> _Blank:
    text = "".join(lines)
    return _Blank(text.count("\n"), text)


def _breaks(blank: _Blank) -> int:
    return blank.breaks
