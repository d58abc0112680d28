"""The slash commands of `ebbtide chat`: those of the registry, each with the page of its result."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from pydantic_core import to_jsonable_python
from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from ..graph import all_commands as commands
from ..graph.all_commands import COMMANDS
from ..graph.commands.look import PAGE
from ..graph.commands.registry import Command
from ..memory.dates import minute_of
from ..memory.errors import CommandError, SettingsError, TurnNotFoundError
from ..memory.messages import call_id, calls
from ..memory.settings import meant
from ..memory.transcript import role
from ..memory.turn import SHORT_ID
from .conversation import Conversation
from .printable import in_line, printable
from .reports import attention_table, explanation_page, finding_line, stats_page
from .screen import PARTS, banner

Page: TypeAlias = Iterator[RenderableType]
"""The output of a command, part by part.

A `str` is printed as it is, the lines of a `Text` break between words at a terminal.
"""

OWN: Mapping[str, str] = {
    "/help": "Show this list; /help WORD shows the lines about a word.",
    "/quit": "Leave the chat (also Ctrl-D); the conversation is saved.",
}
"""The commands of the chat alone, with their help."""

_SOURCES: Mapping[str, str] = {
    "block": "anchor rebuilt from the newest state block in view",
    "model": "anchor rebuilt by a call of the model",
    "none": "no state block in view: the anchor is as it was",
}
"""Notices of /context rebuild by the anchor's source."""


def slashes() -> dict[str, Command]:
    """Return the commands that the chat has, by their names there."""
    written = sorted(COMMANDS.values(), key=lambda command: command.usage)
    return {command.slash: command for command in written if command.usage}


def parsed(line: str) -> tuple[Command, str]:
    """Return the command of a line, and the words after it; raises `CommandError`."""
    known = slashes()
    for size in (2, 1):
        words = line.split(maxsplit=size)
        if command := known.get(" ".join(words[:size])):
            return command, " ".join(words[size:])
    name = words[0]
    suggested = meant(name, [*known, *OWN])
    if usages := [one.usage for slash, one in known.items() if slash.startswith(f"{name} ")]:
        raise CommandError("; ".join(filter(None, (f"write {' | '.join(usages)}", suggested))))
    suggested = suggested or meant(name, [slash.partition(" ")[0] for slash in known])
    told = " ".join(filter(None, (suggested, "/help lists them.")))
    hint = "To send such a line as a message, begin it with a space"
    raise CommandError(f"{name} is no command here; {told} {hint}")


def arguments(command: Command, words: str) -> dict[str, Any]:
    """Return the arguments that words give; raises `CommandError`."""
    fields = command.parameters.model_fields
    if words and not fields:
        longer = [slash for slash in slashes() if slash.startswith(f"{command.slash} ")]
        question = meant(f"{command.slash} {words}", longer)
        state = f"{command.slash} takes no argument, got {words!r}"
        raise CommandError(f"{state}; {question}" if question else state)
    match = re.fullmatch(command.words, words, re.DOTALL)
    texts = zip(fields, map(str.strip, match.groups("") if match else (words,)), strict=False)
    try:
        return command.arguments(
            {name: text == f"--{name}" or text for name, text in texts if text}
        )
    except SettingsError as error:
        raise CommandError(f"write {command.usage} ({error})") from None


def completions(efforts: Mapping[str, bool]) -> list[str]:
    """Return what Tab completes; the names of efforts map to whether they are open."""
    known = slashes()
    named = (
        f"{slash} {name}"
        for slash, command in known.items()
        if "effort_id" in command.parameters.model_fields
        for name, is_open in efforts.items()
        if command.states and ("open" in command.states) == is_open
    )
    return [*known, *OWN, *named]


def question(talk: Conversation, command: Command, given: Mapping[str, Any]) -> str:
    """Return what to ask before a turn is erased; raises `TurnNotFoundError`."""
    turn = given["turn"]
    newest = talk.command(commands.amessages).lines
    last = newest[0].turn if newest else 0
    if not 1 <= turn <= last:
        raise TurnNotFoundError(turn, last)
    page = talk.command(commands.amessages, (last - turn) // PAGE + 1)
    line = next((line for line in page.lines if line.turn == turn), None)
    said = "erased before" if line is None or line.status == "erased" else f'"{line.said}"'
    asked = command.action.question.format(**given) if command.action else f"{command.help}?"
    return f"{asked} It says: {said}. The input history goes as well."


def page_of(talk: Conversation, command: Command, result: Any, given: Mapping[str, Any]) -> Page:
    """Yield the page of a result; one without a page of its own is shown as its data."""
    page = _PAGES.get(command.name)
    if page is None:
        yield json.dumps(to_jsonable_python(result), ensure_ascii=False, indent=1)
    else:
        yield from page(talk, result, given)


def help_page(word: str = "") -> Page:
    """Yield the usage of each command with its help, or of those about a word."""
    table = Table.grid(Column(no_wrap=True), "", padding=(0, 2))
    for usage, told in usages(word).items():
        table.add_row(_note(usage), _note(told))
    yield table
    if not word:
        yield _note("Say what you want; the memory manages itself.")
        yield _note("Ctrl-C stops the running turn, Enter then resumes it.")
        yield _note("Tab completes commands and names of efforts, Alt-Enter begins a new line.")
        yield _note("To send a message that begins with a slash, put a space before it.")


def usages(word: str = "") -> dict[str, str]:
    """Return how the commands about a word are written, with their help; raises `CommandError`."""
    every = {command.usage: command.help for command in slashes().values()} | {**OWN}
    shown = {u: told for u, told in every.items() if word.lower() in f"{u} {told}".lower()}
    if not shown:
        told = meant(f"/{word.removeprefix('/')}", [*slashes(), *OWN]) or "/help lists all commands"
        raise CommandError(f"no command is about {word!r}; {told}")
    return shown


def _context(talk: Conversation, context: commands.ShownContext, _given: Any) -> Page:
    """Yield every character of the next call's context: a line for each part, then its messages."""
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


def _window(_talk: Any, window: commands.Window, _given: Any) -> Page:
    yield _note(f"ambient window: {window.turns or 'all'} turns, on this thread")


def _anchor(_talk: Any, rebuilt: commands.Rebuilt, given: Mapping[str, Any]) -> Page:
    failed = given["model"] and rebuilt.source != "model"
    yield _note(f"{'no state block from the model: ' if failed else ''}{_SOURCES[rebuilt.source]}")
    for name, text in rebuilt.anchor.items():
        yield Text(printable(f"{name}: {text}" if name else text))


def _messages(_talk: Any, page: commands.TurnPage, _given: Any) -> Page:
    """Yield a line for each turn, the newest first, then the page's number."""
    for line in page.lines:
        efforts = ", ".join(line.efforts) or "-"
        status = "" if line.status == "done" else f" ({line.status})"
        start = f"{line.turn:>5}  {minute_of(line.at)}  {efforts}"
        yield Text(in_line(f"{start}  {line.said}{status}"))
    yield _note(f"page {page.page} of {page.pages}" if page.lines else "no turn is finished yet")


def _erased(_talk: Any, report: Any, _given: Any) -> Page:
    """Yield what was erased, which turns say the same, and what could not be erased."""
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


def _efforts(_talk: Any, page: commands.EffortPage, _given: Any) -> Page:
    """Yield a line for each effort, then how many are not listed."""
    for effort in page.efforts:
        marks = [effort.status, *(mark for mark in ("active", "expanded") if getattr(effort, mark))]
        about = f"; goal: {effort.goal}" if effort.goal else ""
        about = f": {effort.summary}" if effort.summary else about
        turns = f" turns {effort.turns}," if effort.turns else ""
        line = f"{effort.id} ({', '.join(marks)}){turns} {effort.raw_tokens:,} tokens{about}"
        yield Text(printable(" ".join(line.split())))
    if not page.efforts:
        yield _note("no efforts yet; /open NAME begins one")
    if page.more:
        yield _note(f"{page.more} more; /search WORDS finds them")


def _by_hand(_talk: Any, outcome: commands.CommandResult, _given: Any) -> Page:
    yield from map(banner, outcome.banners)
    if not outcome.banners:
        effort = outcome.result.get("effort_id")
        yield _note(f"{effort}: {outcome.result['status']}" if effort else "no effort is active")


def _search(_talk: Any, page: commands.SearchPage, _given: Any) -> Page:
    """Yield two lines for each passage that a search finds: its place, and its text."""
    for found in page.results:
        place = found.id or found.session or "outside of efforts"
        if not found.passages:
            yield Text(in_line(f"{place}: {found.summary}"), style="cyan")
        for passage in found.passages:
            who = f", {passage.speaker}" if passage.speaker else ""
            words = ", ".join(passage.newest_with)
            newest = f", the newest with {words}" if words else ""
            weak = ", little in common" if passage.weak else ""
            where = f"turn {passage.turn}, {passage.at}, {place}{who}{newest}{weak}"
            yield Text(in_line(where), style="cyan")
            yield Text(printable(f"  {' '.join(passage.text.split())}"))
    if page.more:
        yield _note(f"{page.more} more")
    if page.unmatched:
        yield _note(f"nothing says {', '.join(page.unmatched)}")
    for note in filter(None, (page.note, page.why)):
        yield _note(note)


def _findings(_talk: Any, findings: tuple[commands.Finding, ...], _given: Any) -> Page:
    yield from map(Text, map(finding_line, findings))
    if not any(finding.fatal for finding in findings):
        yield _note("intact")


def _undone(_talk: Any, position: commands.Position, _given: Any) -> Page:
    back = f"back at turn {position.turn}" if position.turn else "back at the beginning"
    yield _note(f"undone, {back}; it stays in the archive, on a branch of its own")


_PAGES: Mapping[str, Callable[[Conversation, Any, Mapping[str, Any]], Page]] = {
    "show_context": _context,
    "set_window": _window,
    "rebuild_anchor": _anchor,
    "messages": _messages,
    "erase": _erased,
    "efforts": _efforts,
    "search": _search,
    "attention": lambda _talk, memories, _given: iter([attention_table(memories)]),
    "stats": lambda talk, figures, _given: stats_page(talk.session.thread, figures),
    "undo": _undone,
    "verify": _findings,
    **{name: _by_hand for name in COMMANDS if name.endswith("_effort")},
    **dict.fromkeys(
        ("explain", "suppress", "unsuppress", "forget"),
        lambda _talk, memory, _given: map(Text, explanation_page(memory)),
    ),
}
"""The pages of results, by the names of their commands."""


def _note(text: str) -> Text:
    return Text(printable(text), style="dim")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
