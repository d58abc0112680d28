"""`ebbtide demo`: a scripted conversation and its context, offline."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ..graph.commands.look import astats
from ..memory.metrics import Report, TurnTokens
from ..memory.record import Owner
from ..memory.settings import Settings
from .conversation import conversation
from .home import Home
from .printable import in_line, printable
from .screen import STYLES, banner, by_part


@dataclass(frozen=True, slots=True)
class _Line:
    """What the user says, the heading above, what to look at below, whether the turn is cut."""

    request: str
    scene: str = ""
    note: str = ""
    cut: bool = False


_DEMO = yaml.safe_load(files(__package__).joinpath("demo.yaml").read_text(encoding="utf-8"))

_A_DAY = 18
"""Letters of a day: an effort of that many turns, four of which make a long talk."""


def _letters() -> Iterator[str]:
    """Yield a week at the support desk: each day's letters are an effort of their own."""
    tickets, lists = count(4101), _DEMO["letters"].values()
    for day in ("monday", "tuesday", "wednesday", "thursday"):
        yield f"Let's work on the {day} letters: answer what came in."
        for ticket in islice(tickets, _A_DAY):
            who, what, tried, asked, how = (texts[ticket % len(texts)] for texts in lists)
            letter = f"{what}. {tried} {asked} We decided to {how}."
            yield f"Ticket {ticket} is from {who}: {letter}"
        yield "That's done."


def _script() -> Iterator[_Line]:
    """Yield the turns; those of all letters stand in one."""
    for turn in _DEMO["turns"]:
        if "request" in turn:
            yield _Line(**turn)
        else:
            first, *others = _letters()
            yield _Line(first, turn["scene"])
            yield from map(_Line, others)


SCRIPT = (*_script(),)
"""The turns, in order; the offline model follows them by its rules."""

_FORGOTTEN = 8
"""Turns without a mention that evict a summary here, so that a short day shows it."""

_WIDTH = 100
"""Columns of the page: what a README can show."""

_BLOCK = 200
"""Tokens of one block of a bar, so that the longest fits the page."""

_REQUEST, _ANSWER, _FEW = 150, 400, 8
"""Characters shown of a question and of an answer; words too few to be left out."""

_HISTORY = "grey35"
_REMARK = "italic grey62"
_STOPPED = "✂ Stopped: the model has called close_effort, and the tool has not run."
_RESUMED = "↻ A new agent on the same files resumes the turn."


class _CutError(Exception):
    """The agent was stopped on purpose, in the middle of a turn."""


def demo(
    root: Annotated[
        Path | None, typer.Option(help="Keep the files here (default: a temporary folder).")
    ] = None,
) -> None:
    """Watch a scripted conversation and what becomes of its context, offline."""
    page, began = _Page(), perf_counter()
    thread = f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    settings = Settings(summary_eviction_threshold=_FORGOTTEN, rebuild="every-turn")
    with nullcontext(root) if root else TemporaryDirectory(prefix="ebbtide-demo-") as folder:
        home = Home(folder, settings=settings, model="offline")
        page.opening(str(folder))
        stats = _play(home, thread, page)
        results = [*_results(home, thread, stats), ("Time", f"{perf_counter() - began:.1f} s")]
    page.summary(results)
    if root is not None:
        go_on = f"--root {root}"
        page.command(f"The same figures, turn by turn: ebbtide stats {thread} {go_on}")
        page.command(f"Go on with it: ebbtide chat --model offline {go_on} --thread {thread}")


def _play(home: Home, thread: str, page: "_Page") -> Report:
    """Play the script, with a new agent after the cut; return what `ebbtide stats` says of it."""
    values: dict[str, Any] = {}

    def keep(mode: str, event: Any) -> None:
        if mode == "values":
            values.update(event)

    def stop(mode: str, event: Any) -> None:  # when the model calls a tool
        if mode == "values" and getattr(event["messages"][-1], "tool_calls", None):
            raise _CutError

    with ExitStack() as stack:
        talk = stack.enter_context(conversation(home, thread))
        for number, line in enumerate(SCRIPT, start=1):
            if line.cut:
                with suppress(_CutError):
                    talk.run(line.request, stop)
                page.asked(number, line, talk.command(astats).turns)
                page.row(Text(_STOPPED, style="bold red"))
                stack.close()
                talk = stack.enter_context(conversation(home, thread))
            talk.run(None if line.cut else line.request, keep)
            if line.scene or line.note or values["memory"]["banners"]:
                turns = talk.command(astats).turns
                if line.cut:
                    page.row(Text(_RESUMED, style="bold green"))
                else:
                    page.asked(number, line, turns)
                page.answered(values, turns[-1], line.note)
        return talk.command(astats)


def _results(home: Home, thread: str, stats: Report) -> list[tuple[str, str]]:
    """Return what came of it: the figures of `ebbtide stats`, and what the archive says."""
    owner = Owner(home.user, thread)
    with home.archive() as archive:
        (tip,) = archive.tips(owner)
        efforts = archive.efforts(owner, tip, len(SCRIPT)).efforts
        findings = archive.verify(owner)
    dearer = max(spent.turn for spent in stats.turns if spent.total >= spent.full_history)
    last, saved = stats.turns[-1], 1 - stats.sent / stats.full_history
    states = " and ".join({effort.status for effort in efforts})
    intact = "verified: intact, every turn once"
    return [
        ("Sent", f"{stats.sent:,} tokens in {len(stats.turns)} turns"),
        ("Full history", f"{stats.full_history:,} tokens, had all been sent each time"),
        ("Saved", f"{saved:.0%}; {last.savings:.0%} in the last turn"),
        ("Less is sent", f"from turn {dearer + 1} on; before it instructions and tools weigh more"),
        ("The last turn", f"sent {last.total:,} tokens, full history {last.full_history:,}"),
        ("Efforts", f"{len(efforts)}, all {states}"),
        ("Archive", "; ".join(finding.what for finding in findings) or intact),
    ]


class _Page:
    """The demonstration's page, printed from top to bottom: a row is a turn's number, who, what."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        narrow = self._console.is_terminal and self._console.width < _WIDTH
        self._console.width = self._console.width if narrow else _WIDTH
        self._shown = 0

    def opening(self, folder: str) -> None:
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

    def row(self, text: Text, number: str = "", who: Text | str = "") -> None:
        grid = Table.grid(padding=(0, 1), expand=True)
        grid.add_column(justify="right", style="dim", width=3)
        grid.add_column(width=3)
        grid.add_column(ratio=1)
        grid.add_row(number, who, text)
        self._console.print(grid)

    def asked(self, number: int, line: _Line, turns: Sequence[TurnTokens]) -> None:
        """Print a question, and before it in one row what the quiet turns came to."""
        first, last = self._shown + 1, number - 1
        if first <= last:
            quiet = f"turns {first}-{last}" if first < last else f"turn {first}"
            self.row(Text(f"{quiet}: nothing comes, nothing leaves", style="dim"))
            self.row(_sent(turns[last - 1]))
        self._shown = number
        if line.scene:
            self._heading(line.scene)
        self.row(_short(line.request, _REQUEST), str(number), Text("you", style="bold cyan"))

    def answered(self, values: Mapping[str, Any], spent: TurnTokens, note: str) -> None:
        """Print what a turn did: banners, answer, context, and what to look at."""
        for line in values["memory"]["banners"]:
            self.row(banner(line.partition("\n")[0]))
        answer = values["messages"][-1].text
        self.row(_short(answer, _ANSWER), who=Text("ebb", style="bold green"))
        self.row(_sent(spent))
        if note:
            self.row(Text(note, style=_REMARK))

    def command(self, text: str) -> None:
        """Print how to go on, on one line however long it is, so that it can be copied."""
        self._console.print(Text(in_line(text), style=_REMARK), soft_wrap=True)

    def summary(self, rows: Sequence[tuple[str, str]]) -> None:
        self._heading("What came of it")
        table = Table.grid(padding=(0, 2))
        for name, value in rows:
            table.add_row(Text(name), Text(in_line(value), style="bold"))
        self._console.print(table)

    def _heading(self, text: str) -> None:
        self._console.print()
        self._console.print(Rule(Text(text, style="bold"), align="left", style=_HISTORY))


def _sent(spent: TurnTokens) -> Text:
    """Return what a turn sent, a block for each `_BLOCK` tokens of a part, and the full history."""
    sizes = ((spent.tiers.get(name, 0), style) for name, style in STYLES.items())
    bar = [("█" * -(-tokens // _BLOCK), style) for tokens, style in sizes]
    more = "░" * (max(0, spent.full_history - spent.total) // _BLOCK)
    figures = f"\nsent {spent.total:,}, full history {spent.full_history:,}: "
    return Text.assemble(*bar, (more, _HISTORY), figures, by_part(spent.tiers))


def _short(text: str, limit: int) -> Text:
    """Return the beginning of a text in one paragraph, and how many words are left out."""
    words = printable(text).split()
    shown = len(" ".join(words)[:limit].split())
    more = len(words) - shown
    if more <= _FEW:
        return Text(" ".join(words))
    return Text.assemble(" ".join(words[:shown]), (f" … ({more} more words)", "dim"))
