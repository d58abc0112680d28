"""Answers as Markdown at the terminal, while they come."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.constrain import Constrain
from rich.live import Live
from rich.markdown import Markdown
from rich.text import Text

from .printable import printable

_FENCES = ("```", "~~~")
"""What begins and ends a block of code, in which an empty line ends nothing."""

_SHOWN: Mapping[str, str] = {
    "softbreak": "hardbreak",
    "html_inline": "text",
    "html_block": "code_block",
}
"""What rich joins or leaves out, and what it is shown as instead: line ends and tags."""


def markdown(text: str) -> Markdown:
    """Return text as Markdown that keeps its line ends, and shows all characters and addresses."""
    page = Markdown(printable(text), hyperlinks=False)  # a link shows where it leads
    for token in page.parsed:
        _make_visible(token)
    return page


def _make_visible(token: Any) -> None:
    token.content = printable(token.content)  # an entity may be a control character
    token.type = _SHOWN.get(token.type, token.type)
    for child in token.children or ():
        _make_visible(child)


def finished(text: str) -> int:
    r"""Return where the last finished block of Markdown ends: before a line that begins another.

    >>> finished("One.\n\nTwo."), finished("```\nx\n\ny"), finished("- one\n\n  more")
    (6, 0, 0)
    """
    end = place = 0
    is_fenced, is_empty = False, False
    for line in text.splitlines(keepends=True):
        if is_empty and not line[0].isspace():
            end = place
        is_fenced ^= line.lstrip().startswith(_FENCES)
        is_empty = not is_fenced and not line.strip()
        place += len(line)
    return end


class Streamed:
    """An answer that comes in pieces: finished blocks are printed, the last one is drawn anew."""

    def __init__(self, console: Console) -> None:
        """Begin an answer on a console."""
        self._console, self._pending, self._printed = console, "", False
        self._live = Live(Text(), console=console, transient=True, refresh_per_second=8)

    def add(self, text: str) -> None:
        """Show the next piece."""
        if not self._live.is_started:
            self._live.start()
        self._pending += text
        end = finished(self._pending)
        if end:
            self._print(self._pending[:end])
            self._pending = self._pending[end:]
        # Two columns stay free for the ^C that the terminal echoes: a wrapped line is not erased.
        width = self._console.width - 2
        self._live.update(Constrain(markdown(self._pending), width))

    def end(self) -> None:
        """Print what is left."""
        self._live.update(Text())
        self._live.stop()
        if self._pending.strip():
            self._print(self._pending)

    def _print(self, block: str) -> None:
        if self._printed:
            self._console.print()
        self._console.print(markdown(block))
        self._printed = True
