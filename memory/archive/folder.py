"""Export a session to a folder of files that people can read.

`session.json` names the session. `raw.jsonl` has the ambient turns, `efforts/<name>.jsonl`
the turns of an effort: a line of JSON for each turn, which is in the file of each of its efforts. A
command by hand is a line without messages, in the files of the efforts that its events name.
Beside them are the compressions, the log of the extractions, a manifest of the efforts, and large
attachments as files in `attachments`, named by the digests with which messages refer to them.
"""

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..attachments import named_files
from ..compressions import as_data
from ..errors import ArchiveError
from ..names import is_qualified, safe_name
from ..spans import kept, narrowed
from ..turn import Session, StoredTurn
from .page import manifest
from .rows import packed
from .sql import SqlArchive
from .transfer import WholeSession, read

_RAW, _EFFORTS, _ATTACHMENTS = "raw.jsonl", "efforts", "attachments"


def export(archive: SqlArchive, session: Session, folder: str | os.PathLike[str]) -> None:
    """Write a session to a new or empty folder; raises `ArchiveError` for any other.

    `session.json` is written last: a folder without it is not complete.
    """
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ArchiveError(f"{str(target)!r} is not empty: name a new folder to export to")
    whole = read(archive, session)
    (target / _EFFORTS).mkdir(parents=True, exist_ok=True)
    for name, lines in _files(whole).items():
        text = "".join(f"{packed(line)}\n" for line in lines)
        (target / name).write_text(text, "utf-8", newline="\n")
    for name, data in named_files(whole.attachments, _contents(whole)).items():
        (target / _ATTACHMENTS).mkdir(exist_ok=True)
        (target / _ATTACHMENTS / name).write_bytes(data)
    efforts = manifest(whole.turns)
    (target / "manifest.yaml").write_text(efforts, "utf-8", newline="\n")
    names = json.dumps(asdict(session), ensure_ascii=False, indent=1) + "\n"
    # As JSON writes it: UTF-8 has no lone surrogates, which a name may have.
    (target / "session.json").write_bytes(names.encode("utf-8", "backslashreplace"))


def _files(session: WholeSession) -> dict[str, list[Mapping[str, Any]]]:
    """Return the lines of each file by its name."""
    files = defaultdict[str, list[Mapping[str, Any]]](list, {_RAW: []})
    for turn in session.turns:
        efforts = _efforts_of(turn)
        for effort in efforts:
            name = f"{_EFFORTS}/{safe_name(effort)}.jsonl"
            files[name].append(_exported(narrowed(turn, effort)))
        if not efforts or any(not name for name, _, _ in kept(turn)):
            files[_RAW].append(_exported(narrowed(turn, "")))
    files["compressed.jsonl"] = [
        {"id": turn_id, **as_data(compression)} for turn_id, compression in session.compressions
    ]
    files["extractions.jsonl"] = [*session.extractions]
    return files


def _efforts_of(turn: StoredTurn) -> Sequence[str]:
    """Return the efforts of a turn, and those that a command by hand did something with."""
    if turn.status != "command":
        return turn.efforts
    named = dict.fromkeys(str(event.get("effort", "")) for event in turn.events)
    return [name for name in named if name and not is_qualified(name)]


def _contents(session: WholeSession) -> Iterator[Any]:
    """Yield the content of each message."""
    for turn in session.turns:
        for message in turn.messages:
            yield message.content


def _exported(turn: StoredTurn) -> Mapping[str, Any]:
    """Return a turn as a line; branches are told by `id` and `parent`."""
    return {
        "turn": turn.number,
        "id": turn.id,
        "parent": turn.parent,
        "efforts": turn.efforts,
        "status": turn.status,
        "at": turn.at,
        "messages": turn.messages,
        "events": turn.events,
    }
