"""How the demonstration looks: a block per turn, a bar of the context, a summary at the end."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ..memory.metrics import TurnTokens
from .budget import STYLES, bar, by_part
from .printable import in_line, printable
from .screen import banner

WIDTH = 100
_BLOCK = 200
_HISTORY = "grey35"
_SAID, _ANSWERED = 150, 400
_FEW = 8


class Page:
    """The demonstration's page, printed from top to bottom."""

    def __init__(self, console: Console) -> None:
        """Print to `console`."""
        self._console = console

    def opening(self, folder: str) -> None:
        """Say what is to be seen, and what the colours mean."""
        colours = Text(" ").join(Text(f"█ {name}", style=style) for name, style in STYLES.items())
        self._console.print(
            Text("Ebbtide: a working memory that manages itself", style="bold"),
            Text("A scripted talk. The offline model follows rules, quotes from its context only."),
            Text("Turns in which nothing comes or leaves are one line for all of them."),
            Text.assemble(f"What a turn sends, {_BLOCK} tokens a block: ", colours),
            Text.assemble(("░ ", _HISTORY), "what an agent that sends everything would send more"),
            sep="\n",
        )
        self.command(f"The files are in {folder}")

    def asked(self, number: int, said: str, scene: str) -> None:
        """Print what the user says, under the heading of a new scene if one begins."""
        if scene:
            self._heading(scene)
        block = _grid()
        block.add_row(str(number), Text("you", style="bold cyan"), _short(said, _SAID))
        self._console.print(block)

    def quiet(self, first: int, last: TurnTokens) -> None:
        """Print turns in which nothing came or left as one, with what the last of them sent."""
        turns = f"turns {first}-{last.turn}" if first < last.turn else f"turn {first}"
        block = _grid()
        block.add_row("", "", Text(f"{turns}: nothing comes, nothing leaves", style="dim"))
        block.add_row("", "", _sent(last))
        self._console.print(block)

    def answered(self, values: Mapping[str, Any], spent: TurnTokens, note: str) -> None:
        """Print what a turn did: banners, answer, context, and what to look at."""
        block = _grid()
        for line in values["memory"]["banners"]:
            block.add_row("", "", banner(line.partition("\n")[0]))
        answer = values["messages"][-1].text
        block.add_row("", Text("ebb", style="bold green"), _short(answer, _ANSWERED))
        block.add_row("", "", _sent(spent))
        self._console.print(block)
        if note:
            self.remark(note)

    def remark(self, text: str, style: str = "italic grey62") -> None:
        """Print a remark under a turn."""
        remark = _grid()
        remark.add_row("", "", Text(text, style=style))
        self._console.print(remark)

    def command(self, text: str) -> None:
        """Print how to go on, on one line however long it is, so that it can be copied."""
        self._console.print(Text(in_line(text), style="italic grey62"), soft_wrap=True)

    def summary(self, rows: Sequence[tuple[str, str]]) -> None:
        """Print what came of it all."""
        self._heading("What came of it")
        table = Table.grid(padding=(0, 2))
        for name, value in rows:
            table.add_row(Text(name), Text(in_line(value), style="bold"))
        self._console.print(table)

    def _heading(self, text: str) -> None:
        self._console.print()
        self._console.print(Rule(Text(text, style="bold"), align="left", style="grey35"))


def _grid() -> Table:
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(justify="right", style="dim", width=3)
    grid.add_column(width=3)
    grid.add_column(ratio=1)
    return grid


def _sent(spent: TurnTokens) -> Text:
    """Return what a turn sent as a bar and by its parts, beside the full history."""
    more = "░" * (max(0, spent.full_history - spent.total) // _BLOCK)
    figures = f"\nsent {spent.total:,}, full history {spent.full_history:,}: "
    return Text.assemble(bar(spent.tiers, _BLOCK), (more, _HISTORY), figures, by_part(spent.tiers))


def _short(text: str, limit: int) -> Text:
    """Return the beginning of a text in one paragraph, and how many words are left out."""
    words = printable(text).split()
    shown = len(" ".join(words)[:limit].split())
    left = len(words) - shown
    if left <= _FEW:
        return Text(" ".join(words))
    return Text.assemble(" ".join(words[:shown]), (f" … ({left} more words)", "dim"))
