"""What the terminal shows of a conversation: its turns while they happen, its memory as pages."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from ..graph.commands.look import ShownContext
from ..graph.erase.erase import ErasureReport
from ..memory.context.timeline import Part
from ..memory.messages import Message, calls
from ..memory.metrics import TurnLine, TurnPage
from .printable import in_line, printable, unfinished

_ROLES = {"human": "user", "ai": "assistant"}

_WIDE = "\u2e80-\uffef"
"""Where a line may end within what has no spaces: Chinese, Japanese, Korean."""

_PIECE = re.compile(rf"\n|[^\S\n]+|[{_WIDE}]|[^\s{_WIDE}]+")
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


def spent(report: Mapping[str, Any], budget: int) -> Text:
    """Return one line: tokens in all against the budget, then by part, empty ones left out."""
    line = Text(f"context {report['total']:,} of {budget:,} tokens: ", style="dim")
    return line.append_text(by_part(report["tokens"]))


def by_part(tokens: Mapping[str, int]) -> Text:
    """Return the tokens of the parts that hold any, each in its colour."""
    held = [name for name in STYLES if tokens.get(name)]
    shown = [Text(f"{name} {tokens[name]:,}", style=STYLES[name]) for name in held]
    return Text(" · ", style="dim").join(shown)


def bar(tokens: Mapping[str, int], each: int) -> Text:
    """Return the parts side by side, a block for every `each` tokens.

    >>> bar({"memory": 70, "turns": 250, "turn": 10}, each=100).plain
    '█████'
    """
    blocks = ((-(-tokens[name] // each), STYLES[name]) for name in STYLES if tokens.get(name))
    return Text.assemble(*(("█" * many, style) for many, style in blocks))


def banner(text: str) -> Text:
    """Return a banner for the terminal, its first line set off from what stands below."""
    head, _, rest = printable(text).partition("\n")
    shown = Text(head, style="yellow")
    return shown.append(f"\n{rest}", style="dim") if rest else shown


def wrapped(text: str, width: int, column: int = 0) -> tuple[str, int]:
    r"""Return text with a line end where a word would be cut by the edge, and the column after it.

    >>> wrapped("what it costs", width=10)
    ('what it \ncosts', 5)
    """
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
    """Shows turns on a console. It keeps what was said in the running turn.

    What may go on in the next piece of an answer is held back: an emoji, and at a terminal a word,
    so that none is cut by the edge. What is piped on keeps its lines.
    """

    def __init__(self, console: Console, budget: int) -> None:
        """Print to `console`; `budget` is the size the context aims at, in tokens."""
        self._console, self._errors = console, Console(stderr=True, highlight=False)
        self._flows = not console.is_terminal
        self._column = 0
        self.budget = budget
        self._message: str | None = None
        self._whole = self._held = ""
        self._report: dict[str, Any] = {}

    def show(self, mode: str, event: Any) -> None:
        """Show one event of a stream of `messages`, `custom` and `values`."""
        if mode == "messages":
            self._said(*event)
        elif mode == "custom" and "banner" in event:
            self._line(banner(str(event["banner"])))
        elif mode == "values":
            self._report = event.get("memory", {}).get("context_report", {})

    def end(self) -> None:
        """End a turn: say how large its context was."""
        self._break()
        if self._report:
            self._line(spent(self._report, self.budget))
        self._report = {}

    def notice(self, text: str, style: str = "dim") -> None:
        """Print one line that is not part of the conversation."""
        self._line(Text(printable(text), style=style))

    def error(self, text: str) -> None:
        """Print on stderr what went wrong."""
        self._break()
        self._errors.print(Text(printable(text), style="red"), soft_wrap=self._flows)

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
                self._console.print(part, soft_wrap=self._flows and isinstance(part, Text))

    def _said(self, message: Any, origin: dict[str, Any]) -> None:
        if origin.get("langgraph_node") != "call_model" or not isinstance(message, AIMessage):
            return
        text = message.text
        if not text or (not isinstance(message, AIMessageChunk) and text == self._whole):
            return
        if message.id != self._message:
            self._break()
            self._message = message.id
        self._whole += text
        begun = self._held + text
        at = unfinished(begun)
        if not self._flows and (word := _BEGUN.search(begun, max(0, at - 200), at)):
            at = word.start()
        self._held = begun[at:]
        self._console.print(Text(self._fit(printable(begun[:at]))), end="", soft_wrap=True)

    def _fit(self, text: str) -> str:
        """Return text as it stands at the terminal, after what stands there."""
        if self._flows:
            return text
        text, self._column = wrapped(text, self._console.width, self._column)
        return text

    def _line(self, text: Text) -> None:
        self._break()
        self._console.print(text, soft_wrap=self._flows)

    def _break(self) -> None:
        """Begin a new line if an answer stands on this one."""
        if self._whole and not self._whole.endswith("\n"):
            self._console.print(Text(self._fit(printable(self._held))), soft_wrap=True)
        self._message, self._whole, self._held, self._column = None, "", "", 0


def context_page(shown: ShownContext, budget: int) -> Iterator[Text | str]:
    """Yield a working context, every character of it: a line for each part, then what it sends."""
    rest = ", what resuming it sends" if shown.unfinished else ""
    total = f"turn {shown.turn}{rest}: {shown.total:,} of {budget:,} tokens"
    yield Text(total, style="bold")
    for part in shown.parts:
        yield Text(_head(part), style=f"bold {STYLES[part.name]}")
        if part.name == "tools":
            yield from (_json(one) for one in shown.tools)
        for message in part.messages:
            yield from _message(message)


def turns_page(found: TurnPage) -> Iterator[Text | str]:
    """Yield a line for each turn, the newest first, and which page it is."""
    for line in found.lines:
        yield _turn(line)
    yield Text(f"page {found.page} of {found.pages}", style="dim")


def efforts_page(found: Mapping[str, Any]) -> Iterator[Text | str]:
    """Yield a line for each effort, and how many more there are."""
    for effort in found["efforts"]:
        yield _effort(effort)
    if not found["efforts"]:
        yield Text("no efforts yet; /open NAME begins one", style="dim")
    if more := found.get("more"):
        yield Text(f"{more} more; /search WORDS finds them", style="dim")


def found_page(found: Mapping[str, Any]) -> Iterator[Text | str]:
    """Yield two lines for each result of a search: where it is, and what it says."""
    for one in found["results"]:
        where = one.get("id") or one.get("session") or "outside of efforts"
        yield Text(in_line(f"turn {one['turn']}, {one['at']}, {where}"), style="cyan")
        yield f"  {' '.join(one['excerpt'].split())}"
    if more := found.get("more"):
        yield Text(f"{more} more", style="dim")
    if not found["results"]:
        yield Text(printable(found.get("why", "nothing found")), style="dim")


def erasure_page(report: ErasureReport) -> Iterator[Text | str]:
    """Yield what was erased, what says the same, and what could not be erased."""
    branches = ", ".join(report.branches) or "no branch"
    yield Text(in_line(f"turn {report.turn} erased on {branches}"))
    said = {
        "not touched, though they say some of the same": [
            f"turn {t} on {b}" for b, t in report.quoted
        ],
        "summarised again": report.resummarised,
        "summary still to be written again, by erasing again": report.stale,
        "not erased": report.not_erased,
    }
    yield from (in_line(f"{what}: {'; '.join(names)}") for what, names in said.items() if names)


def _head(part: Part) -> str:
    turn = "" if part.turn is None else f", turn {part.turn}"
    return f"== {part.name}{turn}: {part.tokens:,} tokens"


def _message(message: Message) -> Iterator[Text | str]:
    """Yield who speaks, what is said, and each call, as they are sent."""
    data, kind = message["data"], str(message["type"])
    role = _ROLES.get(kind, kind)
    names = [str(data[key]) for key in ("name", "tool_call_id") if data.get(key)]
    yield Text(in_line(" ".join(["--", role, *names])), style="dim")
    content = data.get("content")
    if content:
        yield content if isinstance(content, str) else _json(content)
    for call in calls(message):
        yield in_line(f"{call['id']} {call['name']} {_json(call['args'])}")


def _turn(line: TurnLine) -> str:
    efforts = ", ".join(line.efforts) or "-"
    aborted = "" if line.status == "done" else f" ({line.status})"
    at = line.at[:16].replace("T", " ")
    return in_line(f"{line.turn:>5}  {at} UTC  {efforts}  {line.said}{aborted}")


def _effort(effort: Mapping[str, Any]) -> str:
    marks = [effort["status"], *(mark for mark in ("active", "expanded") if effort[mark])]
    said = f": {' '.join(effort['summary'].split())}" if effort["summary"] else ""
    turns = f" turns {effort['turns']}," if effort["turns"] else ""
    return f"{effort['id']} ({', '.join(marks)}){turns} {effort['raw_tokens']:,} tokens{said}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
