"""What commands show of a thread, as text: its context, its turns, its efforts, what was found."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from ..graph.erasing import ErasureReport
from ..graph.show_context import ShownContext
from ..memory.context.timeline import Part
from ..memory.messages import Message, calls
from ..memory.turn_lines import TurnLine, TurnPage
from .budget import STYLES
from .printable import in_line, printable

_ROLES = {"human": "user", "ai": "assistant"}


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
