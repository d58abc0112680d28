"""The slash commands of `ebbtide chat`: what each is called, takes and does, and what it shows."""

import difflib
import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rich.text import Text

from ..graph import commands
from ..graph.commands.look import ShownContext
from ..graph.erase.erase import ErasureReport
from ..memory.errors import CommandError, TurnNotFoundError
from ..memory.messages import Message, calls
from ..memory.metrics import TurnLine, TurnPage, page_of
from .attention import attention_table, explanation_page
from .conversation import Conversation
from .printable import in_line, printable
from .reports import metrics, series
from .screen import STYLES, Screen

Action: TypeAlias = Callable[[Conversation, Screen, str], None]
"""Takes the thread, where to show things, and what stands after the command's name."""

Question: TypeAlias = Callable[[Conversation, str], str]
"""Returns what must be confirmed, given the thread and what stands after the command's name."""

_TOOL = re.compile(r"\b(open|close|switch|reopen|expand|collapse)_effort\b")
_OTHERS = {"effort_status": "/efforts", "search_efforts": "/search"}
"""The tools that errors name, for the commands to stand in their place."""

_TURNS = re.compile(r"\s+([0-9][0-9,\s–-]*)$")
"""The turns after the id of an effort."""

_NEEDS = re.compile(r"/\w+ [A-Z]")
"""The usage of a command that needs something after it."""

_ALONE = frozenset({"/efforts", "/stats", "/undo"})
"""Commands with nothing after them; /help and /quit do what they do whatever stands there."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A command: how it is written, what it does in a few words, how, and what is asked before."""

    usage: str
    does: str
    act: Action
    question: Question | None = None


def obeyed(talk: Conversation, screen: Screen, line: str, confirm: Callable[[str], bool]) -> None:
    """Do what a line that begins with a slash says; raises `CommandError` if there is no such.

    `confirm` asks the user about what cannot be taken back.
    """
    words = line.split(maxsplit=1)
    name, rest = words[0], words[1].strip() if len(words) > 1 else ""
    if name not in COMMANDS:
        raise CommandError(_unknown(name))
    entry = COMMANDS[name]
    if not rest and _NEEDS.match(entry.usage):
        raise CommandError(f"write {entry.usage}")
    if rest and name in _ALONE:
        raise CommandError(f"{name} takes nothing after it; {rest!r} was given")
    if entry.question is None or confirm(entry.question(talk, rest)):
        entry.act(talk, screen, rest)


def in_commands(error: str) -> str:
    """Return an error of a tool in the words of the commands.

    >>> in_commands("use reopen_effort to go on; effort_status lists them")
    'use /reopen to go on; /efforts lists them'
    """
    error = _TOOL.sub(r"/\1", error)
    for tool, command in _OTHERS.items():
        error = error.replace(tool, command)
    return error


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name, COMMANDS, n=1)
    meant = f"did you mean {close[0]}? " if close else ""
    return (
        f"{name} is no command here; {meant}/help lists them. "
        "To send such a line as a message, begin it with a space"
    )


def _context(talk: Conversation, screen: Screen, rest: str) -> None:
    verb, _, more = rest.partition(" ")
    if verb == "show":
        shown = talk.command(commands.ashow_context, more.strip() or None)
        screen.page(*_context_page(shown, screen.budget))
    elif verb == "window":
        window = _whole(more, "/context window")
        talk.command(commands.aset_window, window)
        screen.notice(f"ambient window: {window or 'all'} turns, on this thread")
    elif rest in {"rebuild", "rebuild --model"}:
        done = talk.command(commands.arebuild_anchor, model=rest != "rebuild")
        screen.notice(_SOURCES[done.source, rest != "rebuild"])
        screen.page(*(f"{name}: {text}" if name else text for name, text in done.anchor.items()))
    else:
        raise CommandError(f"write {COMMANDS['/context'].usage}")


def _messages(talk: Conversation, screen: Screen, rest: str) -> None:
    page = _whole(rest, "/messages") if rest else 1
    screen.page(*_turns_page(talk.command(commands.amessages, page)))


def _removed(rest: str) -> int:
    verb, _, turn = rest.partition(" ")
    if verb != "remove":
        raise CommandError(f"write {COMMANDS['/message'].usage}")
    return _whole(turn, "/message remove")


def _removal(talk: Conversation, rest: str) -> str:
    turn = _removed(rest)
    newest = talk.command(commands.amessages).lines
    last = newest[0].turn if newest else 0
    if not 1 <= turn <= last:
        raise TurnNotFoundError(turn, last)
    page = talk.command(commands.amessages, page_of(turn, last))
    quote = next((_known_by(line) for line in page.lines if line.turn == turn), "missing")
    return (
        f"Erase turn {turn} ({quote}) for good? Nothing brings it back; older states of the "
        "thread and the input history go as well."
    )


def _known_by(line: commands.TurnLine) -> str:
    return "erased before" if line.status == "erased" else f'"{line.said}"'


def _remove(talk: Conversation, screen: Screen, rest: str) -> None:
    turn = _removed(rest)
    try:
        report = talk.command(commands.aerase, turn)
    except (KeyboardInterrupt, OSError, sqlite3.Error):
        warning = f"Turn {turn} may be erased in part: /message remove {turn} finishes it."
        screen.notice(warning, "yellow")
        raise
    talk.history.unlink(missing_ok=True)
    screen.page(*_erasure_page(report))


def _efforts(talk: Conversation, screen: Screen, _rest: str) -> None:
    screen.page(*_efforts_page(talk.command(commands.aefforts)))


def _search(talk: Conversation, screen: Screen, rest: str) -> None:
    screen.page(*_found_page(talk.command(commands.asearch, rest)))


def _attention(talk: Conversation, screen: Screen, rest: str) -> None:
    verb, _, memory = rest.partition(" ")
    if not verb:
        screen.page(attention_table(talk.command(commands.aattention)))
    elif verb in _ON_MEMORIES and memory.strip():
        screen.page(*explanation_page(talk.command(_ON_MEMORIES[verb], memory.strip())))
    else:
        raise CommandError(f"write {COMMANDS['/attention'].usage}")


def _stats(talk: Conversation, screen: Screen, _rest: str) -> None:
    report = talk.command(commands.astats)
    screen.page(metrics(talk.owner.thread, report), series(report))


def _undo(talk: Conversation, screen: Screen, _rest: str) -> None:
    turn = talk.command(commands.aundo)
    back = f"back at turn {turn}" if turn else "back at the beginning"
    screen.notice(f"{back}; what was undone stays in the archive, on a branch of its own")


def _open(talk: Conversation, screen: Screen, rest: str) -> None:
    name, _, goal = rest.partition(":")
    _told(screen, talk.command(commands.aopen_effort, name.strip(), goal.strip()))


def _expand(talk: Conversation, screen: Screen, rest: str) -> None:
    turns = _TURNS.search(rest)
    effort = rest[: turns.start()] if turns else rest
    _told(screen, talk.command(commands.aexpand_effort, effort, turns[1] if turns else ""))


def _on_effort(function: Callable[..., Any]) -> Action:
    """Return the action that calls this function with an effort."""

    def act(talk: Conversation, screen: Screen, rest: str) -> None:
        _told(screen, talk.command(function, rest))

    return act


_close, _switch = _on_effort(commands.aclose_effort), _on_effort(commands.aswitch_effort)
_reopen, _collapse = _on_effort(commands.areopen_effort), _on_effort(commands.acollapse_effort)


def _help(_talk: Conversation, screen: Screen, _rest: str) -> None:
    width = max(len(entry.usage) for entry in COMMANDS.values())
    listed = [f"{entry.usage:<{width}}  {entry.does}" for entry in COMMANDS.values()]
    screen.notice("\n".join(["Say what you want; the memory manages itself.", *listed, *_KEYS]))


def _quit(_talk: Conversation, _screen: Screen, _rest: str) -> None:
    raise EOFError


def _told(screen: Screen, done: commands.CommandResult) -> None:
    """Show what a tool did."""
    for text in done.banners:
        screen.show("custom", {"banner": text})
    if not done.banners:
        screen.notice(f"{done.result.get('effort_id', 'no effort')}: {done.result['status']}")


def _whole(written: str, command: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", written.strip()):
        raise CommandError(f"{command} takes a whole number; {written!r} was given")
    return int(written)


_IN_VIEW = "anchor rebuilt from the newest state block in view"

_SOURCES: Mapping[tuple[str, bool], str] = {
    ("block", False): _IN_VIEW,
    ("block", True): f"no state block from the model: {_IN_VIEW}",
    ("model", True): "anchor rebuilt by a call of the model",
    ("none", False): "no state block in view: the anchor is as it was",
    ("none", True): "no state block from the model and none in view: the anchor is as it was",
}
"""What is said of where an anchor is from, and whether the model was to be asked."""

_KEYS = (
    "Ctrl-C stops the running turn, Enter then resumes it. Tab completes a command.",
    "A line that begins with a space is sent as it is, also if a slash follows.",
)

_ON_MEMORIES = {
    "explain": commands.aexplain,
    "suppress": commands.asuppress,
    "unsuppress": commands.aunsuppress,
    "forget": commands.aforget,
}
"""What /attention does to a memory, by how it is called."""

_ENTRIES = (
    Entry(
        "/context show [MESSAGE] | window N | rebuild [--model]",
        "what the next call would send; ambient turns to keep, 0 = all; the anchor anew",
        _context,
    ),
    Entry("/messages [PAGE]", "the turns so far, the newest first", _messages),
    Entry("/message remove TURN", "erase a turn for good; asks first", _remove, _removal),
    Entry("/efforts", "the efforts and where they stand", _efforts),
    Entry("/open NAME[: GOAL]", "begin an effort", _open),
    Entry("/close [EFFORT]", "conclude one, by default the active one", _close),
    Entry("/switch [EFFORT]", "make another open one active; without a name, pause", _switch),
    Entry("/reopen EFFORT", "go on with a concluded one", _reopen),
    Entry("/expand EFFORT [TURNS]", "put its log back into the context", _expand),
    Entry("/collapse EFFORT", "take its log out again", _collapse),
    Entry("/search WORDS", "search efforts and turns", _search),
    Entry(
        "/attention [explain|suppress|unsuppress|forget MEMORY]",
        "what earlier sessions left in attention; why; take it out",
        _attention,
    ),
    Entry("/stats", "what the memory did, and what the context cost", _stats),
    Entry("/undo", "go back one turn; nothing is lost", _undo),
    Entry("/help", "show this", _help),
    Entry("/quit", "leave, as does Ctrl-D; the conversation goes on where it was", _quit),
)

COMMANDS: Mapping[str, Entry] = {entry.usage.split()[0]: entry for entry in _ENTRIES}
"""The commands by name, in the order in which /help lists them."""

_VERBS = ("/context show", "/context window", "/context rebuild", "/message remove")
"""What Tab completes of the commands that take a second word: neither does anything alone."""

COMPLETED: Sequence[str] = (
    *_VERBS,
    *(name for name in COMMANDS if name not in {"/context", "/message"}),
)
"""What Tab completes."""


_ROLES = {"human": "user", "ai": "assistant"}
"""What providers call those whom LangChain calls otherwise."""


def _context_page(shown: ShownContext, budget: int) -> Iterator[Text | str]:
    """Yield a working context, every character of it: a line for each part, then what it sends."""
    rest = ", what resuming it sends" if shown.unfinished else ""
    total = f"turn {shown.turn}{rest}: {shown.total:,} of {budget:,} tokens"
    yield Text(total, style="bold")
    for part in shown.parts:
        turn = "" if part.turn is None else f", turn {part.turn}"
        head = f"== {part.name}{turn}: {part.tokens:,} tokens"
        yield Text(head, style=f"bold {STYLES[part.name]}")
        if part.name == "tools":
            yield from (_json(tool) for tool in shown.tools)
        for message in part.messages:
            yield from _message_lines(message)


def _turns_page(page: TurnPage) -> Iterator[Text | str]:
    """Yield a line for each turn, the newest first, and which page it is."""
    for line in page.lines:
        yield _turn_line(line)
    yield Text(f"page {page.page} of {page.pages}", style="dim")


def _efforts_page(page: Mapping[str, Any]) -> Iterator[Text | str]:
    """Yield a line for each effort, and how many more there are."""
    for effort in page["efforts"]:
        yield _effort_line(effort)
    if not page["efforts"]:
        yield Text("no efforts yet; /open NAME begins one", style="dim")
    if more := page.get("more"):
        yield Text(f"{more} more; /search WORDS finds them", style="dim")


def _found_page(page: Mapping[str, Any]) -> Iterator[Text | str]:
    """Yield two lines for each result of a search: where it is, and what it says."""
    for entry in page["results"]:
        where = entry.get("id") or entry.get("session") or "outside of efforts"
        yield Text(in_line(f"turn {entry['turn']}, {entry['at']}, {where}"), style="cyan")
        yield f"  {' '.join(entry['excerpt'].split())}"
    if more := page.get("more"):
        yield Text(f"{more} more", style="dim")
    if not page["results"]:
        yield Text(printable(page.get("why", "nothing found")), style="dim")


def _erasure_page(report: ErasureReport) -> Iterator[Text | str]:
    """Yield what was erased, what says the same, and what could not be erased."""
    branches = ", ".join(report.branches) or "no branch"
    yield Text(in_line(f"turn {report.turn} erased on {branches}"))
    outcomes = {
        "not touched, though they say some of the same": [
            f"turn {t} on {b}" for b, t in report.quoted
        ],
        "summarised again": report.resummarised,
        "summary still to be written again, by erasing again": report.stale,
        "not erased": report.not_erased,
    }
    yield from (in_line(f"{what}: {'; '.join(names)}") for what, names in outcomes.items() if names)


def _message_lines(message: Message) -> Iterator[Text | str]:
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


def _turn_line(line: TurnLine) -> str:
    efforts = ", ".join(line.efforts) or "-"
    aborted = "" if line.status == "done" else f" ({line.status})"
    at = line.at[:16].replace("T", " ")
    return in_line(f"{line.turn:>5}  {at} UTC  {efforts}  {line.said}{aborted}")


def _effort_line(effort: Mapping[str, Any]) -> str:
    marks = [effort["status"], *(mark for mark in ("active", "expanded") if effort[mark])]
    summary = f": {' '.join(effort['summary'].split())}" if effort["summary"] else ""
    turns = f" turns {effort['turns']}," if effort["turns"] else ""
    return f"{effort['id']} ({', '.join(marks)}){turns} {effort['raw_tokens']:,} tokens{summary}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
