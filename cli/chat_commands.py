"""The slash commands of `ebbtide chat`."""

import json
import re
import sqlite3
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from ..graph import commands
from ..graph.commands.look import PAGE
from ..graph.erase.erase import aerase
from ..memory.dates import minute_of
from ..memory.errors import CommandError, TurnNotFoundError
from ..memory.messages import call_id, calls
from ..memory.transcript import role
from ..memory.turn import SHORT_ID
from .conversation import Conversation
from .printable import in_line, printable
from .reports import attention_table, explanation_page, stats_tables
from .screen import PARTS, banner

Page: TypeAlias = Iterator[RenderableType]
"""The output of a command, part by part.

A `str` is printed as it is, the lines of a `Text` break between words at a terminal.
"""

Action: TypeAlias = Callable[[Conversation, str], Page]
"""Runs a command on a thread, with the words that follow the command's name."""

_WIDE = 90
"""Columns from which on /help has two of them: half go to the longest usage."""

_IN_VIEW = "anchor rebuilt from the newest state block in view"

_SOURCES: Mapping[tuple[str, bool], str] = {
    ("block", False): _IN_VIEW,
    ("block", True): f"no state block from the model: {_IN_VIEW}",
    ("model", True): "anchor rebuilt by a call of the model",
    ("none", False): "no state block in view: the anchor is as it was",
    ("none", True): "no state block from the model and none in view: the anchor is as it was",
}
"""Notices of /context rebuild, by the anchor's source and whether --model was given."""

_MEMORY_COMMANDS = {
    "explain": commands.aexplain,
    "suppress": commands.asuppress,
    "unsuppress": commands.aunsuppress,
    "forget": commands.aforget,
}
"""The verbs of /attention that take a memory."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A command; `bare` takes no words, `warning` returns a text that the user must confirm.

    With words that begin with `paged` it fills more than a screen.
    """

    usage: str
    help: str
    run: Action
    warning: Callable[[Conversation, str], str] | None = None
    bare: bool = False
    paged: str = ""


COMMANDS: dict[str, Entry] = {}
"""The commands by name, in the order in which /help lists them."""


def _command(usage: str, help_line: str, **fields: Any) -> Callable[[Action], Action]:
    """Register a function as the command that a usage begins with."""

    def register(run: Action) -> Action:
        COMMANDS[usage.split(maxsplit=1)[0]] = Entry(usage, help_line, run, **fields)
        return run

    return register


def _effort_command(
    usage: str,
    help_line: str,
    function: Callable[..., Coroutine[Any, Any, commands.CommandResult]],
    pattern: str = "(.*)",
) -> None:
    """Register a command that calls a tool; each group of the pattern is one of its arguments."""

    @_command(usage, help_line)
    def run(talk: Conversation, words: str) -> Page:
        match = re.fullmatch(pattern, words, re.DOTALL)
        groups = match.groups("") if match else (words,)
        outcome = talk.command(function, *(group.strip() for group in groups))
        yield from map(banner, outcome.banners)
        if not outcome.banners:
            result = outcome.result
            effort = result.get("effort_id")
            yield _note(f"{effort}: {result['status']}" if effort else "no effort is active")


@_command(
    "/context show [MESSAGE] | window N | rebuild [--model]",
    "show what the next call would send; set the ambient turns to keep; rebuild the anchor",
    paged="show",
)
def _context(talk: Conversation, words: str) -> Page:
    verb, _, argument = words.partition(" ")
    if verb == "show":
        yield from _context_page(talk, argument.strip() or None)
    elif verb == "window":
        window = _whole_number(argument, "/context window")
        talk.command(commands.aset_window, window)
        yield _note(f"ambient window: {window or 'all'} turns, on this thread")
    elif words in {"rebuild", "rebuild --model"}:
        rebuilt = talk.command(commands.arebuild_anchor, model=words != "rebuild")
        yield _note(_SOURCES[rebuilt.source, words != "rebuild"])
        for name, text in rebuilt.anchor.items():
            yield Text(printable(f"{name}: {text}" if name else text))
    else:
        raise CommandError(f"write {COMMANDS['/context'].usage}")


def _context_page(talk: Conversation, question: str | None) -> Page:
    """Yield every character of the next call's context: a line for each part, then its messages."""
    context = talk.command(commands.ashow_context, question)
    resumed = ", what resuming it sends" if context.unfinished else ""
    total = f"turn {context.turn}{resumed}: {context.total:,} of {talk.budget:,} tokens"
    yield Text(total, style="bold")
    if context.missing:
        yield _note(f"not shown: {context.missing}")
    table = Table("Part", Column("Turn", justify="right"), Column("Tokens", justify="right"))
    for part in context.parts:
        turn = "" if part.turn is None else str(part.turn)
        table.add_row(Text(part.name, PARTS[part.name].style), turn, f"{part.tokens:,}")
    yield table
    for part in context.parts:
        turn = "" if part.turn is None else f", turn {part.turn}"
        heading = f"== {part.name}{turn}: {part.tokens:,} tokens"
        yield Text(heading, f"bold {PARTS[part.name].style}")
        if part.name == "tools":
            yield from map(_json, context.tools)
        for message in part.messages:
            names = filter(None, (message.name, call_id(message)))
            yield _note(in_line(" ".join(["--", role(message), *names])))
            if content := message.content:
                yield content if isinstance(content, str) else _json(content)
            for call in calls(message):
                yield in_line(f"{call['id']} {call['name']} {_json(call['args'])}")


@_command("/messages [PAGE]", "the turns so far, the newest first")
def _messages(talk: Conversation, words: str) -> Page:
    """Yield a line for each turn, the newest first, then the page's number."""
    page = talk.command(commands.amessages, _whole_number(words, "/messages") if words else 1)
    for line in page.lines:
        efforts = ", ".join(line.efforts) or "-"
        status = "" if line.status == "done" else f" ({line.status})"
        start = f"{line.turn:>5}  {minute_of(line.at)}  {efforts}"
        yield Text(in_line(f"{start}  {line.said}{status}"))
    yield _note(f"page {page.page} of {page.pages}" if page.lines else "no turn is finished yet")


def _turn_to_remove(words: str) -> int:
    verb, _, turn = words.partition(" ")
    if verb != "remove":
        raise CommandError(f"write {COMMANDS['/message'].usage}")
    return _whole_number(turn, "/message remove")


def _removal_warning(talk: Conversation, words: str) -> str:
    """Quote the turn that would be erased; raises `TurnNotFoundError`."""
    turn = _turn_to_remove(words)
    newest = talk.command(commands.amessages).lines
    last = newest[0].turn if newest else 0
    if not 1 <= turn <= last:
        raise TurnNotFoundError(turn, last)
    page = talk.command(commands.amessages, (last - turn) // PAGE + 1)
    line = next((line for line in page.lines if line.turn == turn), None)
    if line is None:
        quote = "missing"
    else:
        quote = "erased before" if line.status == "erased" else f'"{line.said}"'
    return (
        f"Erase turn {turn} ({quote}) for good? Nothing brings it back; older states of the "
        "thread and the input history go as well."
    )


@_command(
    "/message remove TURN [--yes]",
    "erase a turn for good; asks first, without --yes",
    warning=_removal_warning,
)
def _remove(talk: Conversation, words: str) -> Page:
    """Yield what was erased, which turns say the same, and what could not be erased."""
    turn = _turn_to_remove(words)
    try:
        report = talk.command(aerase, turn)
    except (KeyboardInterrupt, OSError, sqlite3.Error):
        warning = f"Turn {turn} may be erased in part: /message remove {turn} finishes it."
        yield Text(warning, style="yellow")
        raise
    talk.history.unlink(missing_ok=True)  # arrow up would bring the turn's words back
    yield Text(in_line(f"turn {report.turn} erased"))
    outcomes = {
        "not touched, though they say some of the same": [
            f"turn {tip.turn} ({tip.id[:SHORT_ID]})" for tip in report.quoted
        ],
        "summarised again": report.resummarised,
        "summary still to be written again, by erasing again": report.stale,
        "not archived, so lost, the edit of": [f"turn {turn}" for turn in report.lost_edits],
        "not erased": report.not_erased,
    }
    for title, names in outcomes.items():
        if names:
            yield Text(in_line(f"{title}: {'; '.join(names)}"))


@_command("/efforts", "the efforts and where they stand", bare=True)
def _efforts(talk: Conversation, _words: str) -> Page:
    """Yield a line for each effort, then how many are not listed."""
    page = talk.command(commands.aefforts)
    for effort in page["efforts"]:
        marks = [effort["status"], *(mark for mark in ("active", "expanded") if effort[mark])]
        about = ""
        if effort["summary"]:
            about = f": {effort['summary']}"
        elif effort.get("goal"):
            about = f"; goal: {effort['goal']}"
        turns = f" turns {effort['turns']}," if effort["turns"] else ""
        size = f"{effort['raw_tokens']:,} tokens"
        line = f"{effort['id']} ({', '.join(marks)}){turns} {size}{about}"
        yield Text(printable(" ".join(line.split())))
    if not page["efforts"]:
        yield _note("no efforts yet; /open NAME begins one")
    if unlisted := page.get("more"):
        yield _note(f"{unlisted} more; /search WORDS finds them")


_effort_command("/open NAME[: GOAL]", "begin an effort", commands.aopen_effort, "([^:]*):?(.*)")
_effort_command(
    "/close [EFFORT]", "conclude an effort, by default the active one", commands.aclose_effort
)
_effort_command(
    "/switch [EFFORT]",
    "make another open effort active; without a name, none",
    commands.aswitch_effort,
)
_effort_command("/reopen EFFORT", "open a concluded effort again", commands.areopen_effort)
_effort_command(
    "/expand EFFORT [TURNS]",
    "bring the log of an effort back into the context",
    commands.aexpand_effort,
    r"(.*?)(?:\s+([0-9][0-9,\s–-]*))?",
)
_effort_command("/collapse EFFORT", "remove that log again", commands.acollapse_effort)


@_command("/search WORDS", "search efforts and turns")
def _search(talk: Conversation, words: str) -> Page:
    """Yield two lines for each passage that a search finds: its place, and its text."""
    page = talk.command(commands.asearch, words)
    for entry in page["results"]:
        place = entry.get("id") or entry.get("session") or "outside of efforts"
        if not entry["passages"]:
            yield Text(in_line(f"{place}: {entry.get('summary', '')}"), style="cyan")
        for passage in entry["passages"]:
            where = f"turn {passage['turn']}, {passage['at']}, {place}"
            who = f", {passage['speaker']}" if "speaker" in passage else ""
            weak = ", little in common" if passage.get("weak") else ""
            yield Text(in_line(f"{where}{who}{weak}"), style="cyan")
            yield Text(printable(f"  {' '.join(passage['text'].split())}"))
    if unlisted := page.get("more"):
        yield _note(f"{unlisted} more")
    if unmatched := page.get("unmatched"):
        yield _note(f"nothing says {', '.join(unmatched)}")
    if not page["results"]:
        yield _note(page.get("why", "nothing found"))


@_command(
    "/attention [explain|suppress|unsuppress|forget MEMORY]",
    "list memories of earlier sessions; explain, hide, show or delete one",
)
def _attention(talk: Conversation, words: str) -> Page:
    verb, _, memory = words.partition(" ")
    if not verb:
        yield attention_table(talk.command(commands.aattention))
    elif verb in _MEMORY_COMMANDS and memory.strip():
        yield from map(Text, explanation_page(talk.command(_MEMORY_COMMANDS[verb], memory.strip())))
    else:
        raise CommandError(f"write {COMMANDS['/attention'].usage}")


@_command("/stats", "what the memory did, and what the context cost", bare=True)
def _stats(talk: Conversation, _words: str) -> Page:
    yield from stats_tables(talk.session.thread, talk.command(commands.astats))


@_command("/undo", "go back one turn or one command; nothing is lost", bare=True)
def _undo(talk: Conversation, _words: str) -> Page:
    was_unfinished, before = talk.unfinished() is not None, talk.turn
    turn = talk.command(commands.aundo)
    if was_unfinished:
        undone = "the unfinished turn"
    else:
        undone = f"turn {before}" if turn < before else "the last command"
    back = f"back at turn {turn}" if turn else "back at the beginning"
    yield _note(f"{undone} undone, {back}; it stays in the archive, on a branch of its own")


@_command("/help", "show this")
def _help(_talk: Conversation, _words: str) -> Page:
    yield _note("Say what you want; the memory manages itself.")
    yield _Usages()
    yield _note("Ctrl-C stops the running turn, Enter then resumes it.")
    yield _note("Tab completes commands and names of efforts, Alt-Enter begins a new line.")
    yield _note("To send a message that begins with a slash, put a space before it.")


class _Usages:
    """The commands with their help: beside it where there is room, else above it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay the lines out."""
        entries = COMMANDS.values()
        if not console.is_terminal:
            width = max(len(entry.usage) for entry in entries)
            yield _note("\n".join(f"{entry.usage:<{width}}  {entry.help}" for entry in entries))
        elif options.max_width < _WIDE:
            for entry in entries:
                yield _note(entry.usage)
                yield Padding(_note(entry.help), (0, 0, 0, 2), expand=False)
        else:
            table = Table.grid(padding=(0, 2))
            for entry in entries:
                table.add_row(_note(entry.usage), _note(entry.help))
            yield table


@_command("/quit", "leave the chat (also Ctrl-D); the conversation is saved")
def _quit(_talk: Conversation, _words: str) -> Page:
    raise EOFError


def _whole_number(text: str, command: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text.strip()):
        raise CommandError(f"{command} takes a whole number, got {text!r}")
    return int(text)


def _note(text: str) -> Text:
    return Text(printable(text), style="dim")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


COMPLETED: Sequence[str] = (
    *("/context show", "/context window", "/context rebuild", "/message remove"),
    *(name for name in COMMANDS if name not in {"/context", "/message"}),
    *(f"/attention {verb}" for verb in _MEMORY_COMMANDS),
)
"""What Tab completes: of /context and /message the forms, since alone they do nothing."""

_ON_EFFORTS: Mapping[bool, Sequence[str]] = {
    True: ("/close", "/switch"),
    False: ("/reopen", "/expand", "/collapse"),
}
"""Commands on efforts, by whether the effort must be open."""


def with_efforts(names: Mapping[str, bool]) -> Iterator[str]:
    """Yield the commands on efforts, with each name; the names map to whether they are open."""
    return (
        f"{command} {name}" for name, is_open in names.items() for command in _ON_EFFORTS[is_open]
    )
