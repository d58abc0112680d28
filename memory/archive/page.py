"""What people read of a session: one page of Markdown, and the manifest of an export.

The page has what the newest turn of a branch sees, in order. Whatever somebody said stands in a
fence longer than any run of backticks in it, so that nothing of it is taken for the page's own.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator
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
        {
            "id": effort.id,
            "status": effort.status,
            "summary": effort.summary,
            "keywords": [*effort.keywords],
            "importance": effort.importance,
            "goal": effort.goal,
            "constraints": [*effort.constraints],
            "tokens": effort.tokens,
            "turn": effort.turn,
            "branch": record.branch,
            "at": record.at,
            **({"stale": True} if effort.stale else {}),
        }
        for record in records
        for effort in left_by(record)
    ]
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
"""Turns that are read at once, so that a page of a long session is written as it is read."""


def export_markdown(archive: Archive, owner: Owner, tip: Tip, path: str | os.PathLike[str]) -> None:
    """Write what `tip` sees of a session to a new file.

    Raises `SessionNotFoundError`, and `ArchiveError` if the file is there.
    """
    if not archive.holds(owner, tip):
        raise SessionNotFoundError(owner.thread)
    written = "\n\n".join(_page(archive, owner, tip)) + "\n"
    try:
        with Path(path).open("x", encoding="utf-8", newline="\n") as file:
            file.write(written)
    except FileExistsError as error:
        raise ArchiveError(f"{str(path)!r} is there already: name a new file") from error


def fenced(said: str) -> str:
    """Return text as a block that nothing in it can end.

    >>> print(fenced("```"))
    ````text
    ```
    ````
    """
    plain = _plain(said)
    ticks = "`" * max(3, 1 + _longest(plain))
    return f"{ticks}text\n{plain}\n{ticks}"


def inline(said: str) -> str:
    """Return a name as code within a line.

    >>> inline("auth-bug"), inline("`a` b")
    ('`auth-bug`', '`` `a` b ``')
    """
    plain = _TURNING.sub("\ufffd", " ".join(_plain(said).split())) or " "
    ticks = "`" * (1 + _longest(plain))
    room = " " if "`" in plain else ""
    return f"{ticks}{room}{plain}{room}{ticks}"


def _page(archive: Archive, owner: Owner, tip: Tip) -> Iterator[str]:
    yield f"# Session {inline(owner.thread)}"
    whose = f"User {inline(owner.user)}"
    whose += f", namespace {inline(owner.namespace)}" if owner.namespace else ""
    yield f"{whose}. Branch {inline(tip.branch)} up to turn {tip.turn}."
    listed = every_effort(archive, owner, tip)
    if listed:
        yield "\n".join(f"- {inline(effort.id)}: {effort.status}" for effort in reversed(listed))
    for first in range(1, tip.turn + 1, _AT_ONCE):
        numbers = range(first, min(first + _AT_ONCE, tip.turn + 1))
        for record in archive.turns(owner, tip, numbers):
            yield from _turn(record)


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
    said = text(
        {"data": {"content": cut_content(content) if kind == "ai" and content else content}}
    )
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


def _plain(said: str) -> str:
    return _CONTROLS.sub("\ufffd", said.replace("\r\n", "\n").replace("\r", "\n"))


def _longest(said: str) -> int:
    return max(map(len, _TICKS.findall(said)), default=0)
