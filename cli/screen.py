"""The terminal: turns while they run, banners, tables that fit."""

import re
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from .printable import printable, unfinished_emoji

_WIDE = "\u2e80-\uffef"
"""Where a line may end within what has no spaces: Chinese, Japanese, Korean."""

_PIECE = re.compile(rf"\n|[^\S\n]+|[{_WIDE}]|[^\s{_WIDE}]+")
"""A piece that is not broken at the edge: line end, spaces, a wide character, a word."""

_UNBOUNDED = 10_000
"""Columns of a console in which every table has the width that it asks for."""

_LONGEST_WORD = 200
"""Characters of a word whose end is waited for; a longer one is printed as it comes."""

_LAST_WORD = re.compile(rf"[^\s{_WIDE}]{{1,{_LONGEST_WORD}}}\Z")
"""The word at the end of a text, of which more may come."""

STYLES: Mapping[str, str] = {
    "system": "grey50",
    "tools": "grey35",
    "memory": "green",
    "quotes": "blue",
    "turns": "cyan",
    "expanded": "magenta",
    "anchor": "yellow",
    "turn": "bright_white",
}
"""The parts of the context in their order, and the colour of each."""


def by_part(tokens: Mapping[str, int]) -> Text:
    """Return the tokens of the parts that hold any, each in its colour."""
    names = [name for name in STYLES if tokens.get(name)]
    parts = [Text(f"{name} {tokens[name]:,}", style=STYLES[name]) for name in names]
    return Text(" · ", style="dim").join(parts)


def banner(text: str) -> Text:
    """Return a banner for the terminal: its first line in yellow, the others dim."""
    head, _, body = printable(text).partition("\n")
    page = Text(head, style="yellow")
    return page.append(f"\n{body}", style="dim") if body else page


def _wrapped(text: str, width: int, column: int = 0) -> tuple[str, int]:
    r"""Wrap text that begins at a column; return it, and the column at which it ends.

    >>> _wrapped("one two", width=5)
    ('one \ntwo', 3)
    """
    wrapped: list[str] = []
    for piece in _PIECE.findall(text):
        cells = 0 if piece == "\n" else cell_len(piece.expandtabs())
        if piece == "\n":
            column = 0
        elif column and column + cells > width:
            wrapped.append("\n")
            column = 0
            if piece.isspace():
                continue
        wrapped.append(piece)
        column += cells
    return "".join(wrapped), column


def fitted(table: Table, console: Console) -> RenderableType:
    """Return a table, or its rows as lines if the console would cut its figures."""
    unbounded = console.options.update(width=_UNBOUNDED)
    if Measurement.get(console, unbounded, table).minimum <= console.width:
        return table
    names = [str(column.header).replace("\n", " ") for column in table.columns]
    rows = zip(*(column.cells for column in table.columns), strict=True)
    lines = (
        ", ".join(f"{name} {cell}" for name, cell in zip(names, row, strict=True)) for row in rows
    )
    return Group(*([Text(str(table.title))] if table.title else []), *map(Text, lines))


class Screen:
    """Shows turns on a console.

    An emoji that the next piece of an answer may continue waits for it, and at a terminal a word,
    so that the edge cuts none. Output into a pipe is not wrapped.
    """

    def __init__(self, console: Console, budget: int) -> None:
        """Print to `console`; `budget` is the size that the context aims at, in tokens."""
        self._console, self._errors = console, Console(stderr=True, highlight=False)
        self._piped = not console.is_terminal
        self._column = 0
        self.budget = budget
        self._message_id: str | None = None
        self._answer = self._waiting = ""
        self._report: dict[str, Any] = {}

    def show(self, mode: str, event: Any) -> None:
        """Show one event of a stream of `messages`, `custom` and `values`."""
        if mode == "messages":
            self._stream(*event)
        elif mode == "custom" and "banner" in event:
            self._line(banner(str(event["banner"])))
        elif mode == "values":
            self._report = event.get("memory", {}).get("context_report", {})

    def end(self) -> None:
        """End a turn: print the size of its context."""
        self._break()
        if self._report:
            total = f"context {self._report['total']:,} of {self.budget:,} tokens: "
            self._line(Text(total, style="dim").append_text(by_part(self._report["tokens"])))
        self._report = {}

    def notice(self, text: str, style: str = "dim") -> None:
        """Print one line that is not part of the conversation."""
        self._line(Text(printable(text), style=style))

    def error(self, text: str) -> None:
        """Print an error on stderr."""
        self._break()
        self._errors.print(Text(printable(text), style="red"), soft_wrap=self._piped)

    def page(self, part: RenderableType) -> None:
        """Print a part of a command's page on lines of its own; a `str` as it is, tabs too."""
        self._break()
        if isinstance(part, str):
            self._console.file.write(f"{self._fit(printable(part))}\n")
            self._column = 0
        elif isinstance(part, Table):
            self._console.print(fitted(part, self._console))
        else:
            self._console.print(part, soft_wrap=self._piped and isinstance(part, Text))

    def _stream(self, message: Any, origin: dict[str, Any]) -> None:
        """Print the text of a piece of an answer, as far as nothing may change it any more."""
        if origin.get("langgraph_node") != "call_model" or not isinstance(message, AIMessage):
            return
        text = message.text
        if not text or (not isinstance(message, AIMessageChunk) and text == self._answer):
            return  # a whole message repeats what was streamed
        if message.id != self._message_id:
            self._break()
            self._message_id = message.id
        self._answer += text
        pending = self._waiting + text
        end = unfinished_emoji(pending)
        if not self._piped and (
            word := _LAST_WORD.search(pending, max(0, end - _LONGEST_WORD), end)
        ):
            end = word.start()
        self._waiting = pending[end:]
        self._console.print(Text(self._fit(printable(pending[:end]))), end="", soft_wrap=True)

    def _fit(self, text: str) -> str:
        """Return text wrapped for the terminal, from the current column on."""
        if self._piped:
            return text
        text, self._column = _wrapped(text, self._console.width, self._column)
        return text

    def _line(self, text: Text) -> None:
        self._break()
        self._console.print(text, soft_wrap=self._piped)

    def _break(self) -> None:
        """End the line of an answer, with the text that waited for its next piece."""
        if self._answer and not self._answer.endswith("\n"):
            self._console.print(Text(self._fit(printable(self._waiting))), soft_wrap=True)
        self._message_id, self._answer, self._waiting, self._column = None, "", "", 0
