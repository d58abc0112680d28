"""The terminal: turns while they run, banners, tables that fit; and answers alone in a pipe."""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import typer
from langchain_core.messages import AIMessage, AIMessageChunk
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from ..memory.metrics import Cost
from .markdown import Streamed
from .printable import printable

_UNBOUNDED = 10_000
"""Columns of a console in which every table has the width that it asks for."""


_NODES = frozenset({"call_model", "model"})
"""The nodes whose model answers the user: ours, and that of `create_agent`."""


class Part(NamedTuple):
    """How a part of the context is drawn: its colour, and a letter where there are no colours."""

    style: str
    letter: str


PARTS: Mapping[str, Part] = {
    "system": Part("grey50", "S"),
    "tools": Part("grey35", "T"),
    "memory": Part("green", "M"),
    "quotes": Part("blue", "Q"),
    "turns": Part("cyan", "L"),
    "expanded": Part("magenta", "E"),
    "anchor": Part("yellow", "A"),
    "turn": Part("bright_white", "N"),
}
"""The parts of the context in their order."""


def by_part(tokens: Mapping[str, int]) -> Text:
    """Return the tokens of the parts that hold any, each in its colour."""
    names = [name for name in PARTS if tokens.get(name)]
    parts = [Text(f"{name} {tokens[name]:,}", style=PARTS[name].style) for name in names]
    return Text(" · ", style="dim").join(parts)


_CALL = re.compile(r", restore\(.*\) continues from there")
"""What a banner says to a program alone: a thread that began anew has the same name."""


def _for_user(banner_text: str) -> str:
    return _CALL.sub("; it stays in the archive", banner_text)


def banner(text: str) -> Text:
    """Return a banner for the terminal: its first line in yellow, the others dim."""
    head, _, body = printable(_for_user(text)).partition("\n")
    page = Text(head, style="yellow")
    return page.append(f"\n{body}", style="dim") if body else page


def fitted(table: Table, console: Console) -> RenderableType:
    """Return a table, or its rows as lines if the console would cut its figures."""
    unbounded = console.options.update(width=_UNBOUNDED)
    if Measurement.get(console, unbounded, table).minimum <= console.width:
        return table
    names = [str(column.header).replace("\n", " ") for column in table.columns]
    rows = zip(*(column.cells for column in table.columns), strict=True)
    lines = (
        f"{first} – "
        + ", ".join(f"{name} {cell}" for name, cell in zip(names[1:], row, strict=True))
        for first, *row in rows
    )
    return Group(*([Text(str(table.title))] if table.title else []), *map(Text, lines))


def print_part(part: RenderableType, console: Console) -> None:
    """Print a table as it fits, or a text, whose lines only a terminal breaks."""
    if isinstance(part, Table):
        console.print(fitted(part, console))
    else:
        console.print(part, soft_wrap=not console.is_terminal)


class Screen:
    """Shows turns at a terminal: answers as Markdown, banners, the context and what it cost."""

    as_json = False
    """Whether results of commands are printed as data."""

    def __init__(
        self, console: Console, budget: int, prices: Sequence[float] | None = None
    ) -> None:
        """Print to `console`; `budget` is the size that the context aims at, in tokens.

        `prices` are those of a million tokens read, written and read from a cache.
        """
        self.console, self.budget, self._prices = console, budget, prices
        self._spent: Cost | None = None
        self._errors = Console(stderr=True, highlight=False)
        self._message_id: str | None = None
        self._said = ""
        self._answer: Streamed | None = None
        self._report: dict[str, Any] = {}

    def show(self, mode: str, event: Any) -> None:
        """Show one event of a stream of `messages`, `custom` and `values`."""
        if mode == "messages":
            self._stream(*event)
        elif mode == "custom" and "banner" in event:
            self._print(banner(str(event["banner"])))
        elif mode == "values":
            self._report = event.get("memory", {}).get("context_report", {})
        elif mode == "usage" and event:
            self._spent = Cost.of("answer", event.values())

    def end(self) -> None:
        """End a turn: print the size of its context."""
        self._break()
        if self._report:
            total = f"context {self._report['total']:,} of {self.budget:,} tokens: "
            self._print(Text(total, style="dim").append_text(by_part(self._report["tokens"])))
        if self._spent:
            cost = self._spent
            money = f", {cost.money(*self._prices):.4f} in money" if self._prices else ""
            tokens = f"read {cost.read:,}, of these cached {cost.cached:,}"
            self._print(Text(f"{tokens}, written {cost.written:,}{money}", style="dim"))
        self._report, self._spent = {}, None

    def notice(self, text: str, style: str = "dim") -> None:
        """Print one line that is not part of the conversation."""
        self._print(Text(printable(text), style=style))

    def error(self, text: str) -> None:
        """Print an error on stderr."""
        self._break()
        print_part(Text(printable(text), style="red"), self._errors)

    def page(self, part: RenderableType) -> None:
        """Print a part of a command's page on lines of its own; a `str` as it is, tabs too."""
        self._break()
        if isinstance(part, str):
            segments = Segments([Segment(f"{printable(part)}\n")])
            self.console.print(segments, end="", soft_wrap=True)
        else:
            print_part(part, self.console)

    def pages(self, parts: Iterable[RenderableType], *, long: bool) -> None:
        """Print the parts of a command's page, those of a long one in a pager."""
        with self._paging() if long else nullcontext():
            for part in parts:
                self.page(part)

    def data(self, result: Any) -> None:
        """Print the result of a command as one line of JSON."""
        typer.echo(json.dumps({"result": result}))

    def _paging(self) -> AbstractContextManager[Any]:
        """Show pages that are longer than the terminal in the user's pager, meanwhile."""
        os.environ.setdefault("LESS", "FRX")  # as git does: colours, and a short page just printed
        return self.console.pager(styles=not self.console.no_color)

    def _stream(self, message: Any, origin: dict[str, Any]) -> None:
        """Show a piece of an answer."""
        if origin.get("langgraph_node") not in _NODES or not isinstance(message, AIMessage):
            return
        text = message.text
        if not text or (not isinstance(message, AIMessageChunk) and text == self._said):
            return  # a whole message repeats what was streamed
        if message.id != self._message_id or self._answer is None:
            self._break()
            self._message_id, self._answer = message.id, Streamed(self.console)
        self._said += text
        self._answer.add(text)

    def _print(self, text: Text) -> None:
        self._break()
        print_part(text, self.console)

    def _break(self) -> None:
        """End an answer that is shown, so that something else can be printed."""
        if self._answer is not None:
            self._answer.end()
        self._message_id, self._said, self._answer = None, "", None


class Pipe(Screen):
    """Prints the answers alone, or a line of JSON for each turn; all else goes to stderr."""

    def __init__(
        self, console: Console, prices: Sequence[float] | None = None, *, as_json: bool
    ) -> None:
        """Print to `console`, as JSON or as text."""
        super().__init__(console, 0, prices)
        self.as_json = as_json
        self._values: Mapping[str, Any] = {}

    def show(self, mode: str, event: Any) -> None:
        """Keep the newest state of a stream, and print banners on stderr."""
        if mode == "values":
            self._values = event
        elif mode == "usage":
            super().show(mode, event)
        elif mode == "custom" and "banner" in event:
            self.notice(_for_user(str(event["banner"])), "yellow")

    def end(self) -> None:
        """Print the answer of the turn."""
        messages, memory = self._values.get("messages", ()), self._values.get("memory", {})
        spent, self._values, self._spent = self._spent, {}, None
        if not messages or not isinstance(messages[-1], AIMessage):
            return  # the turn is not finished
        answer = messages[-1].text
        if self.as_json:
            names = ("turn", "banners", "references", "context_report")
            shown = {name: memory[name] for name in names if name in memory}
            if spent:
                money = spent.money(*self._prices) if self._prices else None
                tokens = {"read": spent.read, "cached": spent.cached, "written": spent.written}
                shown["usage"] = {**tokens, "money": money}
            typer.echo(json.dumps({"answer": answer, **shown}))
        else:
            typer.echo(printable(answer))

    def error(self, text: str) -> None:
        """Print an error on stderr, and where JSON is printed, as a line of it."""
        super().error(text)
        if self.as_json:
            typer.echo(json.dumps({"error": text}))

    def _paging(self) -> AbstractContextManager[Any]:
        """Print all pages as they are."""
        return nullcontext()

    def notice(self, text: str, style: str = "dim") -> None:
        """Print one line on stderr."""
        print_part(Text(printable(text), style=style), self._errors)
