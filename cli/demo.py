"""`ebbtide demo`: a conversation and its context, with the scripted model."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
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

from ..graph.all_commands import astats
from ..memory.metrics import Report, TurnTokens
from ..memory.settings import Settings
from ..memory.turn import Session
from .conversation import conversation
from .home import Home
from .printable import in_line, printable
from .screen import PARTS, banner, by_part


@dataclass(frozen=True, slots=True)
class _Line:
    """A turn: the request, a heading above it, a note below it, whether it is stopped midway."""

    request: str
    scene: str = ""
    note: str = ""
    cut: bool = False


_DEMO = yaml.safe_load(files(__package__).joinpath("demo.yaml").read_text(encoding="utf-8"))

SCRIPT = tuple(_Line(**turn) for turn in _DEMO["turns"])
"""The turns, in order; the scripted model answers them by its rules."""

_LOG_LINES = 220


def read_file(path: str) -> str:
    """Read a file."""
    name, _, ending = path.rpartition(".")
    if ending != "log":
        return str(_DEMO["files"].get(path, "There is no such file."))
    numbers = range(3_101, 3_101 + _LOG_LINES)
    lines = (f"GET /orders/{at} {name} heron-{'abcdefg'[at % 7]} timed out" for at in numbers)
    return "\n".join([_DEMO["log"], *lines])


_EVICTION_THRESHOLD = 8
"""Turns without a mention that evict a summary here, so that a short conversation shows it."""

_WIDTH = 100
"""Columns of the page: as many as a README shows."""

_BLOCK = 200
"""Tokens of one block of a bar, so that the longest bar fits the page."""

_REQUEST, _ANSWER, _FEW_WORDS = 150, 400, 8
"""Characters shown of a request and of an answer; so few words are not worth leaving out."""

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
    """Watch a conversation and its context, without a key."""
    page, start = _Page(), perf_counter()
    thread = f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    settings = Settings(summary_eviction_threshold=_EVICTION_THRESHOLD, rebuild="every-turn")
    with nullcontext(root) if root else TemporaryDirectory(prefix="ebbtide-demo-") as folder:
        home = Home(folder, settings=settings, model="scripted")
        page.opening(settings)
        stats = _play(home, thread, page)
        results = [*_results(home, thread, stats), ("Time", f"{perf_counter() - start:.1f} s")]
    page.summary(results)
    if root is None:
        page.command("Keep the files: ebbtide demo --root DIR. Talk yourself: ebbtide chat")
    else:
        page.command(f"The same figures, turn by turn: ebbtide stats {thread} --root {root}")
        again = f"ebbtide chat --model scripted --root {root} --thread {thread}"
        page.command(f"Go on with it: {again}")


def _play(home: Home, thread: str, page: "_Page") -> Report:
    """Play the script, with a new agent after the cut; return the report of `ebbtide stats`."""
    values: dict[str, Any] = {}

    def keep(mode: str, event: Any) -> None:
        if mode == "values":
            values.update(event)

    def stop_at_tool_call(mode: str, event: Any) -> None:
        if mode == "values" and getattr(event["messages"][-1], "tool_calls", None):
            raise _CutError

    with ExitStack() as stack:
        talk = stack.enter_context(conversation(home, thread, tools=[read_file]))
        for number, line in enumerate(SCRIPT, start=1):
            if line.cut:
                with suppress(_CutError):
                    talk.run(line.request, stop_at_tool_call)
                page.request(number, line, talk.command(astats).turns)
                page.row(Text(_STOPPED, style="bold red"))
                stack.close()  # the new agent has nothing but the files
                talk = stack.enter_context(conversation(home, thread, tools=[read_file]))
            talk.run(None if line.cut else line.request, keep)
            if line.scene or line.note or values["memory"]["banners"]:
                turns = talk.command(astats).turns
                if line.cut:
                    page.row(Text(_RESUMED, style="bold green"))
                else:
                    page.request(number, line, turns)
                page.answer(values, turns[-1], line.note)
        return talk.command(astats)


def _results(home: Home, thread: str, stats: Report) -> list[tuple[str, str]]:
    """Return pairs of title and text: figures of `ebbtide stats`, efforts, archive."""
    session = Session(home.user, thread)
    with home.archive() as archive:
        (tip,) = archive.tips(session)
        efforts = archive.load(session, tip).efforts(len(SCRIPT)).efforts
        findings = archive.verify(session)
    break_even = max(turn.turn for turn in stats.turns if turn.total >= turn.last_full_history)
    last, saved = stats.turns[-1], 1 - stats.sent / stats.full_history
    statuses = " and ".join({effort.status for effort in efforts})
    intact = "verified: intact, every turn once"
    return [
        ("Sent", f"{stats.sent:,} tokens in {len(stats.turns)} turns"),
        ("Full history", f"{stats.full_history:,} tokens, had all been sent each time"),
        ("Saved", f"{saved:.0%}; {last.savings:.0%} in the last turn"),
        (
            "Less is sent",
            f"from turn {break_even + 1} on; before it instructions and tools weigh more",
        ),
        ("The last turn", f"sent {last.total:,} tokens, full history {last.last_full_history:,}"),
        ("Efforts", f"{len(efforts)}, all {statuses}"),
        ("Archive", "; ".join(finding.what for finding in findings) or intact),
    ]


class _Page:
    """The page, printed from top to bottom: a row is a turn's number, its speaker and a text."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        narrow = self._console.is_terminal and self._console.width < _WIDTH
        self._console.width = self._console.width if narrow else _WIDTH
        self._printed_turns = 0
        # Without colours a block is a letter, so that the parts can be told apart.
        plain = self._console.no_color or self._console.color_system is None
        self._marks = {name: part.letter if plain else "█" for name, part in PARTS.items()}

    def opening(self, settings: Settings) -> None:
        marks = self._marks
        legend = Text(" ").join(Text(f"{marks[name]} {name}", PARTS[name].style) for name in PARTS)
        self._console.print(
            Text("Ebbtide: the prompt stays small, nothing said is lost", style="bold"),
            Text("The scripted model follows rules and quotes what stands in its context."),
            Text("Turns in which no effort comes or goes are one line for all of them."),
            Text(f"What a turn sends, {_BLOCK} tokens a block:"),
            legend,
            Text.assemble(("░ ", _HISTORY), "what an agent that sends everything would send more"),
            Text(
                "Each call has instructions and tools: the first turns send more than full history."
            ),
            Text(
                "To fit a short talk, text leaves sooner here than by default: "
                f"rebuild={settings.rebuild!r}, "
                f"summary_eviction_threshold={settings.summary_eviction_threshold}.",
                style="dim",
            ),
            sep="\n",
        )

    def row(self, text: Text, number: str = "", speaker: Text | str = "") -> None:
        grid = Table.grid(padding=(0, 1), expand=True)
        grid.add_column(justify="right", style="dim", width=3)
        grid.add_column(width=3)
        grid.add_column(ratio=1)
        grid.add_row(number, speaker, text)
        self._table(grid)

    def request(self, number: int, line: _Line, turns: Sequence[TurnTokens]) -> None:
        """Print a request, and before it one row for the turns in which nothing changed."""
        first, last = self._printed_turns + 1, number - 1
        if first <= last:
            quiet = f"turns {first}-{last}" if first < last else f"turn {first}"
            self.row(Text(f"{quiet}: no effort comes or goes", style="dim"))
            self.row(_bar(turns[last - 1], self._marks))
        self._printed_turns = number
        if line.scene:
            self._heading(line.scene)
        self.row(_short(line.request, _REQUEST), str(number), Text("you", style="bold cyan"))

    def answer(self, values: Mapping[str, Any], tokens: TurnTokens, note: str) -> None:
        """Print the banners, the answer and the context of a turn, and the note on it."""
        for line in values["memory"]["banners"]:
            self.row(banner(line.partition("\n")[0]))
        text = values["messages"][-1].text
        self.row(_short(text, _ANSWER), speaker=Text("ebb", style="bold green"))
        self.row(_bar(tokens, self._marks))
        if note:
            self.row(Text(note, style=_REMARK))

    def command(self, text: str) -> None:
        """Print a line with a command or a path, never broken, so that it can be copied."""
        self._console.print(Text(in_line(text), style=_REMARK), soft_wrap=True)

    def summary(self, rows: Sequence[tuple[str, str]]) -> None:
        self._heading("What came of it")
        table = Table.grid(padding=(0, 2))
        for name, value in rows:
            table.add_row(Text(name), Text(in_line(value), style="bold"))
        self._table(table)

    def _table(self, table: Table) -> None:
        """Print a table, in a file without the spaces that fill its lines."""
        if self._console.is_terminal:
            self._console.print(table)
            return
        with self._console.capture() as captured:
            self._console.print(table)
        typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))

    def _heading(self, text: str) -> None:
        self._console.print()
        self._console.print(Rule(Text(text, style="bold"), align="left", style=_HISTORY))


def _bar(turn: TurnTokens, marks: Mapping[str, str]) -> Text:
    """Return a bar of the tokens that a turn sent, part by part, and the figures below it."""
    lengths = {name: -(-turn.parts.get(name, 0) // _BLOCK) for name in PARTS}
    blocks = [(marks[name] * length, PARTS[name].style) for name, length in lengths.items()]
    saved = "░" * (max(0, turn.last_full_history - turn.total) // _BLOCK)
    figures = f"\nsent {turn.total:,}, full history {turn.last_full_history:,}: "
    return Text.assemble(*blocks, (saved, _HISTORY), figures, by_part(turn.parts))


def _short(text: str, limit: int) -> Text:
    """Return the beginning of a text in one paragraph, and how many words are left out."""
    words = printable(text).split()
    number = len(" ".join(words)[:limit].split())
    omitted = len(words) - number
    if omitted <= _FEW_WORDS:
        return Text(" ".join(words))
    return Text.assemble(" ".join(words[:number]), (f" … ({omitted} more words)", "dim"))
