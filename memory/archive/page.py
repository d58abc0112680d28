"""What people read of a session: one page of Markdown, and the manifest of an export.

The page has what the newest turn of a branch sees, in order. Whatever somebody said stands in a
fence longer than any run of backticks in it, so that nothing of it is taken for the page's own.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

import yaml

from ..errors import ArchiveError, SessionNotFoundError
from ..messages import Message, calls, text
from ..record import Owner, Record, Tip
from ..state_blocks import cut_content
from ..transcript import recalled
from .protocol import Archive, every_effort
from .records import left_by

# What YAML takes for the end of a line, or does not take at all.
_REFUSED = re.compile("[\x7f-\x9f\u2028\u2029\ufdd0-\ufdef\ufeff\ufffe\uffff]")


class _Dumper(yaml.SafeDumper):
    """Writes what YAML would take for a line end as an escape, which PyYAML fails to do."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        style = '"' if _REFUSED.search(data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)


_Dumper.add_representer(str, _Dumper.represent_str)


def manifest(records: Iterable[Record]) -> str:
    """Return as YAML how each change of its status left an effort, oldest first, and when."""
    entries = [
        {**asdict(effort), "branch": record.branch, "at": record.at}
        for record in records
        for effort in left_by(record)
    ]
    for entry in entries:
        if not entry["stale"]:
            del entry["stale"]
    return yaml.dump(entries, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=100)


# Other messages are named by their type, as a tool's result is.
_SPEAKERS = {"human": "User", "ai": "Assistant", "system": "System"}
_CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""What an editor or a terminal could take for a command, and what no file can hold."""

_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Turn the direction of what follows, so a name could seem to be another."""

_TICKS = re.compile("`+")
"""What could close a fence of Markdown: the fence around a text is longer than any in it."""

_AT_ONCE = 200
"""Turns that are read at once."""


def export_markdown(archive: Archive, owner: Owner, tip: Tip, path: str | os.PathLike[str]) -> None:
    """Write what `tip` sees of a session to a new file.

    Raises `SessionNotFoundError`, and `ArchiveError` if the file is there.
    """
    if not archive.holds(owner, tip):
        raise SessionNotFoundError(owner.thread)
    whose = f"User {inline(owner.user)}"
    whose += f", namespace {inline(owner.namespace)}" if owner.namespace else ""
    whose += f". Branch {inline(tip.branch)} up to turn {tip.turn}."
    parts = [f"# Session {inline(owner.thread)}", whose]
    if listed := every_effort(archive, owner, tip):
        parts.append("\n".join(f"- {inline(one.id)}: {one.status}" for one in reversed(listed)))
    for first in range(1, tip.turn + 1, _AT_ONCE):
        numbers = range(first, min(first + _AT_ONCE, tip.turn + 1))
        for record in archive.turns(owner, tip, numbers):
            parts += _turn(record)
    try:
        with Path(path).open("x", encoding="utf-8", newline="\n") as file:
            file.write("\n\n".join(parts) + "\n")
    except FileExistsError as error:
        raise ArchiveError(f"{str(path)!r} is there already: name a new file") from error


def fenced(content: str) -> str:
    """Return text as a block that nothing in it can end.

    >>> print(fenced("```"))
    ````text
    ```
    ````
    """
    plain = _plain(content)
    ticks = "`" * max(3, _enough(plain))
    return f"{ticks}text\n{plain}\n{ticks}"


def inline(name: str) -> str:
    """Return a name as code within a line.

    >>> inline("auth-bug"), inline("`a` b")
    ('`auth-bug`', '`` `a` b ``')
    """
    plain = _TURNING.sub("\ufffd", " ".join(_plain(name).split())) or " "
    ticks = "`" * _enough(plain)
    room = " " if "`" in plain else ""
    return f"{ticks}{room}{plain}{room}{ticks}"


def _turn(record: Record) -> Iterator[str]:
    yield f"## Turn {record.turn}"
    names = ", ".join(map(inline, record.efforts)) or "none"
    yield f"{inline(record.at[:19].replace('T', ' '))} UTC. Efforts: {names}."
    if record.status == "erased":
        yield "*This turn was erased.*"
    for message in record.messages:
        yield from _message(message)
    for effort in left_by(record):
        yield f"**Effort {inline(effort.id)}: {effort.status}**"
        yield fenced(effort.summary if effort.status == "concluded" else effort.goal)
    if record.status == "aborted":
        yield "*This turn was not finished.*"


def _message(message: Message) -> Iterator[str]:
    data, kind = message["data"], message["type"]
    content = data.get("content")
    shown = cut_content(content) if kind == "ai" and content else content
    said = text({"data": {"content": shown}})
    speaker = _SPEAKERS.get(kind) or inline(kind)
    if kind == "tool":
        speaker = f"Result of {inline(str(data.get('name') or 'a tool'))}"
        said = "; ".join(map(str, recalled(message))) or said
    if said or not calls(message):
        yield f"**{speaker}**"
        yield fenced(said)
    for call in calls(message):
        args = call.get("args")
        yield f"**{speaker} calls {inline(str(call.get('name')))}**"
        yield fenced(
            args if isinstance(args, str) else json.dumps(args, ensure_ascii=False, indent=1)
        )


def _plain(content: str) -> str:
    return _CONTROLS.sub("\ufffd", content.replace("\r\n", "\n").replace("\r", "\n"))


def _enough(plain: str) -> int:
    return 1 + max(map(len, _TICKS.findall(plain)), default=0)
