"""What the terminal shows of a conversation: its turns while they happen, tables, banners."""

import re
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from .printable import printable, unfinished

_WIDE = "\u2e80-\uffef"
"""Where a line may end within what has no spaces: Chinese, Japanese, Korean."""

_PIECE = re.compile(rf"\n|[^\S\n]+|[{_WIDE}]|[^\s{_WIDE}]+")
"""What stays whole at the edge: a line end, spaces, a wide character, a word."""

_ANY = 10_000
"""A width at which a table may be as wide as it wants to be."""

_BEGUN = re.compile(rf"[^\s{_WIDE}]{{1,200}}\Z")
"""The word at the end of a text, of which more may come; what is longer is no word to wait for."""

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
"""The parts of the context, and how each is shown."""


def by_part(tokens: Mapping[str, int]) -> Text:
    """Return the tokens of the parts that hold any, each in its colour."""
    names = [name for name in STYLES if tokens.get(name)]
    shown = [Text(f"{name} {tokens[name]:,}", style=STYLES[name]) for name in names]
    return Text(" · ", style="dim").join(shown)


def banner(text: str) -> Text:
    """Return a banner for the terminal, its first line set off from what stands below."""
    head, _, below = printable(text).partition("\n")
    shown = Text(head, style="yellow")
    return shown.append(f"\n{below}", style="dim") if below else shown


def _wrapped(text: str, width: int, column: int = 0) -> tuple[str, int]:
    """Return text with a line end where the edge would cut a word, and the column after it."""
    done: list[str] = []
    for piece in _PIECE.findall(text):
        cells = 0 if piece == "\n" else cell_len(piece.expandtabs())
        if piece == "\n":
            column = 0
        elif column and column + cells > width:
            done.append("\n")
            column = 0
            if piece.isspace():
                continue
        done.append(piece)
        column += cells
    return "".join(done), column


def fitted(table: Table, console: Console) -> RenderableType:
    """Return a table, or its rows as lines where it is too wide to show its figures whole."""
    if Measurement.get(console, console.options.update(width=_ANY), table).minimum <= console.width:
        return table
    names = [str(column.header).replace("\n", " ") for column in table.columns]
    rows = zip(*(column.cells for column in table.columns), strict=True)
    lines = (
        ", ".join(f"{name} {cell}" for name, cell in zip(names, row, strict=True)) for row in rows
    )
    return Group(*([Text(str(table.title))] if table.title else []), *map(Text, lines))


class Screen:
    """Shows turns on a console.

    What may go on in the next piece of an answer waits for it: an emoji, and at a terminal a word,
    so that none is cut by the edge. What is piped on keeps its lines.
    """

    def __init__(self, console: Console, budget: int) -> None:
        """Print to `console`; `budget` is the size the context aims at, in tokens."""
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
        """End a turn: say how large its context was."""
        self._break()
        if self._report:
            total = f"context {self._report['total']:,} of {self.budget:,} tokens: "
            self._line(Text(total, style="dim").append_text(by_part(self._report["tokens"])))
        self._report = {}

    def notice(self, text: str, style: str = "dim") -> None:
        """Print one line that is not part of the conversation."""
        self._line(Text(printable(text), style=style))

    def error(self, text: str) -> None:
        """Print on stderr what went wrong."""
        self._break()
        self._errors.print(Text(printable(text), style="red"), soft_wrap=self._piped)

    def page(self, *parts: RenderableType) -> None:
        """Print what a command shows, each part on lines of its own; a `str` as it is, tabs too."""
        self._break()
        for part in parts:
            if isinstance(part, str):
                self._console.file.write(f"{self._fit(printable(part))}\n")
                self._column = 0
            elif isinstance(part, Table):
                self._console.print(fitted(part, self._console))
            else:
                self._console.print(part, soft_wrap=self._piped and isinstance(part, Text))

    def _stream(self, message: Any, origin: dict[str, Any]) -> None:
        if origin.get("langgraph_node") != "call_model" or not isinstance(message, AIMessage):
            return
        text = message.text
        if not text or (not isinstance(message, AIMessageChunk) and text == self._answer):
            return
        if message.id != self._message_id:
            self._break()
            self._message_id = message.id
        self._answer += text
        pending = self._waiting + text
        end = unfinished(pending)
        if not self._piped and (word := _BEGUN.search(pending, max(0, end - 200), end)):
            end = word.start()
        self._waiting = pending[end:]
        self._console.print(Text(self._fit(printable(pending[:end]))), end="", soft_wrap=True)

    def _fit(self, text: str) -> str:
        """Return text as it stands at the terminal, after what stands there."""
        if self._piped:
            return text
        text, self._column = _wrapped(text, self._console.width, self._column)
        return text

    def _line(self, text: Text) -> None:
        self._break()
        self._console.print(text, soft_wrap=self._piped)

    def _break(self) -> None:
        """Begin a new line if an answer stands on this one."""
        if self._answer and not self._answer.endswith("\n"):
            self._console.print(Text(self._fit(printable(self._waiting))), soft_wrap=True)
        self._message_id, self._answer, self._waiting, self._column = None, "", "", 0
