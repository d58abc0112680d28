"""Export a session: to a folder of files that people can read, or as a page of Markdown.

`session.json` names the session. `raw.jsonl` has the ambient turns, `efforts/<name>.jsonl`
the turns of an effort: a line of JSON for each turn, which is in the file of each of its efforts. A
command by hand is a line without messages, in the files of the efforts that its events name.
Beside them are the compressions, the log of the extractions, a manifest of the efforts, and large
attachments as files in `attachments`, named by the digests with which messages refer to them.

The page has the turns that a tip sees, in order. Every text of the session stands in a fence longer
than any run of backticks in it, so that none of it is taken for the page's own Markdown.
"""

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from sqlalchemy import Connection, select

from ..attachments import Texts, named_files
from ..compressions import Compression, as_data, from_data
from ..dates import minute_of
from ..efforts import left_by
from ..errors import ArchiveError, SessionNotFoundError
from ..messages import calls
from ..names import is_qualified, ranges, safe_name
from ..recalled import recalled
from ..spans import kept, narrowed
from ..transcript import speaker, visible_text
from ..turn import SHORT_ID, Session, StoredTurn, Tip
from .attachments import of_turns
from .erasures import scope_of
from .load import Past, SessionRow
from .protocol import Archive
from .rows import packed, state_of, turn_of, unzipped
from .schema import compressions, facts, memories, turns, users
from .sql import SqlArchive

_MEMORY = [column for column in memories.columns if column.name not in {"owner", "session"}]
_FACT = [column for column in facts.columns if column.name not in {"owner", "session"}]
"""Columns of memories and facts; the numbers of user and session differ by archive."""

_AFTER = (turns.c.run == compressions.c.run) & (turns.c.place == compressions.c.place)

_RAW, _EFFORTS, _ATTACHMENTS = "raw.jsonl", "efforts", "attachments"


@dataclass(frozen=True, slots=True)
class WholeSession:
    """All data of a session, its turns in the order of their commit.

    A compression comes with the id of the turn after which it was made. `attention` has the rows
    of its memories, `facts` those of its turns that said facts of the user.
    """

    session: Session
    turns: tuple[StoredTurn, ...]
    compressions: tuple[tuple[str, Compression], ...]
    extractions: tuple[Mapping[str, Any], ...]
    attention: tuple[Mapping[str, Any], ...]
    facts: tuple[Mapping[str, Any], ...]
    attachments: Texts
    reseed: Tip | None
    hidden: bool


def read(archive: SqlArchive, session: Session) -> WholeSession:
    """Return all data of a session, read in one transaction; raises `SessionNotFoundError`."""
    if not archive.database.exists():
        raise SessionNotFoundError(session.thread)
    with archive.database.reading() as connection:
        scope = scope_of(connection, SessionRow.of(connection, session), session)
        number = scope.row.id
        made = select(turns.c.hash, compressions.c.made).join(turns, _AFTER)
        made = made.where(turns.c.session == number).order_by(turns.c.id, compressions.c.effort)
        said = select(*_FACT).where(facts.c.session == number)
        said = said.order_by(facts.c.memory, facts.c.hash)
        of_facts = select(facts.c.memory).where(facts.c.session == number)
        own = (memories.c.session == number) | memories.c.memory.in_(of_facts)
        with Past(archive.database.reading, scope.row).parsing():
            return WholeSession(
                session,
                tuple(replace(turn_of(row), state=state_of(row)) for row in scope.turns()),
                tuple(
                    (row.hash, from_data(json.loads(unzipped(row.made))))
                    for row in connection.execute(made)
                ),
                tuple(json.loads(unzipped(row.entry)) for row in scope.logged()),
                of_memories(connection, own, users.c.id == scope.row.user),
                tuple(map(dict, connection.execute(said).mappings())),
                of_turns(connection, select(turns.c.id).where(turns.c.session == number)),
                scope.row.reseed,
                scope.row.hidden,
            )


def of_memories(connection: Connection, *conditions: Any) -> tuple[Mapping[str, Any], ...]:
    """Return the rows of memories that meet conditions, which may name columns of `users`."""
    query = select(*_MEMORY).join(users, users.c.id == memories.c.owner).where(*conditions)
    rows = connection.execute(query.order_by(memories.c.memory)).mappings()
    return tuple(map(dict, rows))


def export_folder(archive: SqlArchive, session: Session, folder: str | os.PathLike[str]) -> None:
    """Write a session to a new or empty folder; raises `ArchiveError` for any other.

    `session.json` is written last: a folder without it is not complete.
    """
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ArchiveError(f"{str(target)!r} is not empty: name a new folder to export to")
    whole = read(archive, session)
    (target / _EFFORTS).mkdir(parents=True, exist_ok=True)
    files = defaultdict[str, list[Mapping[str, Any]]](list, {_RAW: []})
    for turn in whole.turns:
        efforts = _efforts_of(turn)
        for effort in efforts:
            name = f"{_EFFORTS}/{safe_name(effort)}.jsonl"
            files[name].append(_exported(narrowed(turn, effort)))
        if not efforts or any(not name for name, _, _ in kept(turn)):
            files[_RAW].append(_exported(narrowed(turn, "")))
    files["compressed.jsonl"] = [
        {"id": turn_id, **as_data(compression)} for turn_id, compression in whole.compressions
    ]
    files["extractions.jsonl"] = [*whole.extractions]
    for name, lines in files.items():
        text = "".join(f"{packed(line)}\n" for line in lines)
        (target / name).write_text(text, "utf-8", newline="\n")
    contents = (message.content for turn in whole.turns for message in turn.messages)
    for name, data in named_files(whole.attachments, contents).items():
        (target / _ATTACHMENTS).mkdir(exist_ok=True)
        (target / _ATTACHMENTS / name).write_bytes(data)
    efforts = manifest(whole.turns)
    (target / "manifest.yaml").write_text(efforts, "utf-8", newline="\n")
    names = json.dumps(asdict(session), ensure_ascii=False, indent=1) + "\n"
    # As JSON writes it: UTF-8 has no lone surrogates, which a name may have.
    (target / "session.json").write_bytes(names.encode("utf-8", "backslashreplace"))


def _efforts_of(turn: StoredTurn) -> Sequence[str]:
    """Return the efforts of a turn, and those that a command by hand did something with."""
    if turn.status != "command":
        return turn.efforts
    named = dict.fromkeys(str(event.get("effort", "")) for event in turn.events)
    return [name for name in named if name and not is_qualified(name)]


def _exported(turn: StoredTurn) -> Mapping[str, Any]:
    """Return a turn as a line; branches are told by `id` and `parent`."""
    return {
        "turn": turn.number,
        "id": turn.id,
        "parent": turn.parent,
        "origin": turn.origin,
        "efforts": turn.efforts,
        "status": turn.status,
        "at": turn.at,
        "messages": turn.messages,
        "events": turn.events,
    }


# Characters that YAML takes for the end of a line, or refuses.
_REFUSED = re.compile("[\x7f-\x9f\u2028\u2029\ufdd0-\ufdef\ufeff\ufffe\uffff]")


class _Dumper(yaml.SafeDumper):
    """Escapes the characters that YAML would take for a line end, which PyYAML fails to do."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        style = '"' if _REFUSED.search(data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)


_Dumper.add_representer(str, _Dumper.represent_str)


def manifest(stored_turns: Sequence[StoredTurn]) -> str:
    """Return the efforts of a session as YAML, an entry for each, in the order of their opening.

    An effort stands there as the newest branch left it, one that only other branches have as those
    did. The turns are in the order of their commit.
    """
    by_id = {turn.id: turn for turn in stored_turns}
    branch: list[StoredTurn] = []
    turn = stored_turns[-1] if stored_turns else None
    while turn is not None:
        branch.append(turn)
        turn = by_id.get(turn.parent)
    newest = branch[::-1]
    ids = {turn.id for turn in newest}
    entries: dict[str, dict[str, Any]] = {e.id: {} for one in stored_turns for e in left_by(one)}
    for branch in ([turn for turn in stored_turns if turn.id not in ids], newest):
        turns: dict[str, list[int]] = {}
        for turn in branch:
            for name in turn.efforts:
                turns.setdefault(name, []).append(turn.number)
        for turn in branch:
            for effort in left_by(turn):
                entry = {**asdict(effort), "turns": ranges(sorted({*turns.get(effort.id, ())}))}
                del entry["turn"]
                if not effort.stale:  # so in nearly all: a reader need not see it there
                    del entry["stale"]
                entries[effort.id] = {**entry, "commit": turn.id, "at": turn.at}
    return yaml.dump(
        [*entries.values()], Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=100
    )


_CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Characters that a terminal could take for a command, and that UTF-8 cannot hold."""

_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Characters that turn the direction of the text after them, so a name could look like another."""

_TICKS = re.compile("`+")
"""Runs of backticks, which could end a fence that is no longer than they are."""


def export_markdown(
    archive: Archive, session: Session, tip: Tip, path: str | os.PathLike[str]
) -> None:
    """Write the turns that a tip sees to a new file.

    Raises `SessionNotFoundError`, and `ArchiveError` if the file exists.
    """
    past = archive.load(session, tip)
    if past.tip is None:
        raise SessionNotFoundError(session.thread)
    namespace = f", namespace {inline(session.namespace)}" if session.namespace else ""
    whose = f"User {inline(session.user_label)}{namespace}."
    parts = [
        f"# Session {inline(session.thread)}",
        f"{whose} Up to turn {tip.turn} (`{tip.id[:SHORT_ID]}`).",
    ]
    if efforts := past.every_effort():
        lines = (f"- {inline(effort.id)}: {effort.status}" for effort in reversed(efforts))
        parts.append("\n".join(lines))
    for turn in past.every_commit():
        parts += _command(turn) if turn.status == "command" else _turn(turn)
    try:
        with Path(path).open("x", encoding="utf-8", newline="\n") as file:
            file.write("\n\n".join(parts) + "\n")
    except FileExistsError as error:
        raise ArchiveError(f"{str(path)!r} already exists: name a new file") from error


def fenced(content: str) -> str:
    """Return text in a Markdown fence that nothing in the text can end.

    >>> print(fenced("```"))
    ````text
    ```
    ````
    """
    plain = _without_controls(content)
    ticks = "`" * max(3, _fence_length(plain))
    return f"{ticks}text\n{plain}\n{ticks}"


def inline(name: str) -> str:
    """Return a name as Markdown code within a line.

    >>> inline("auth-bug"), inline("`a` b")
    ('`auth-bug`', '`` `a` b ``')
    """
    plain = _TURNING.sub("\ufffd", " ".join(_without_controls(name).split())) or " "
    ticks = "`" * _fence_length(plain)
    space = " " if "`" in plain else ""
    return f"{ticks}{space}{plain}{space}{ticks}"


def _command(turn: StoredTurn) -> Iterator[str]:
    """Yield what was done by hand: its events, and the texts of efforts that they changed."""
    named = (f"{e['type']} {inline(str(e.get('effort', '')))}" for e in turn.events)
    time = inline(minute_of(turn.at))
    yield f"**By hand** ({time}): {'; '.join(named) or 'nothing changed'}"
    yield from _changes(turn)


def _changes(turn: StoredTurn) -> Iterator[str]:
    for effort in left_by(turn):
        yield f"**Effort {inline(effort.id)}: {effort.status}**"
        yield fenced(effort.summary if effort.status == "concluded" else effort.goal)


def _turn(turn: StoredTurn) -> Iterator[str]:
    yield f"## Turn {turn.number}"
    names = ", ".join(map(inline, turn.efforts)) or "none"
    yield f"{inline(minute_of(turn.at))}. Efforts: {names}."
    if turn.status == "erased":
        yield "*This turn was erased.*"
    for message in turn.messages:
        content = visible_text(message)
        who = inline(speaker(message))
        content = "; ".join(map(str, recalled(message))) or content
        if content or not calls(message):
            yield f"**{who}**"
            yield fenced(content)
        for call in calls(message):
            args = call.get("args")
            yield f"**{who} calls {inline(str(call.get('name')))}**"
            yield fenced(
                args if isinstance(args, str) else json.dumps(args, ensure_ascii=False, indent=1)
            )
    yield from _changes(turn)
    if turn.is_aborted:
        yield "*This turn was not finished.*"


def _without_controls(content: str) -> str:
    return _CONTROLS.sub("\ufffd", content.replace("\r\n", "\n").replace("\r", "\n"))


def _fence_length(plain: str) -> int:
    return 1 + max(map(len, _TICKS.findall(plain)), default=0)
