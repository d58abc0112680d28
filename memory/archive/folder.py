"""Export a session to a folder of files that people can read, and import such folders.

A folder has `session.json`, which names the session's owner, a line of JSON for each turn in
`raw.jsonl` (ambient turns) or `efforts/<name>.jsonl`, the compressions, extractions and memories
made of the turns, and a manifest that only people read. The first build of Ebbtide kept its
archives in such folders, so these can be imported too.
"""

import json
import os
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, Strict, TypeAdapter, ValidationError

from ..errors import ArchiveError, ArchiveFormatError
from ..messages import broken
from ..names import qualified, safe_name
from ..record import Owner, Record, Tip
from ..salience import Compression, as_data, from_data
from .page import manifest
from .protocol import Finding
from .records import left_by, packed
from .sql import SqlArchive
from .transfer import DAMAGED, Moved, Report, StoredTurn, WholeSession, move_each, read

_FORMAT = 1
"""The version of a line; the first build wrote the same."""

_SESSION, _MANIFEST, _RAW = "session.json", "manifest.yaml", "raw.jsonl"
_COMPRESSED, _EXTRACTIONS = "compressed.jsonl", "extractions.jsonl"
_STATES = "states.jsonl"
"""The turns in the order of their commit, each with the memory's state after it."""
_ATTENTION = "attention.jsonl"
_ERASED = "erased.json"
"""The turns that lost text: the digest of their messages is no longer the turn's."""

_EFFORTS, _SUFFIX = "efforts", ".jsonl"

_LAST = 2**31 - 1
"""The last turn that the tables can number."""
_GAP = "?"
"""Stands for the digest of a parent that the first build had lost."""

T = TypeVar("T")
_Place: TypeAlias = tuple[str, int]
_Number: TypeAlias = Annotated[int, Field(ge=0, le=_LAST)]
_Name: TypeAlias = Annotated[str, Field(pattern="^[^\0]*$")]
_Time: TypeAlias = Annotated[str, Field(pattern="^[0-9]{4}[^\0]*$")]
_Origin: TypeAlias = Annotated[tuple[str, _Number], Strict(strict=False)]
_List: TypeAlias = Annotated[tuple[T, ...], Strict(strict=False)]
"""A list in JSON, read as a tuple; its items are checked strictly."""


class _Line(BaseModel):
    """The fields that a line must have; it may have more."""

    model_config = ConfigDict(strict=True)


class _OfTurn(_Line):
    branch: _Name
    turn: Annotated[int, Field(ge=1, le=_LAST)]


class _TurnLine(_OfTurn):
    """The fields of a record, in the order in which they are written."""

    origin: Annotated[_Origin | None, Field(alias="from")]
    parent: str
    digest: _Name
    efforts: _List[str]
    status: Literal["done", "aborted", "erased"]
    at: _Time
    messages: _List[dict[str, Any]]
    events: _List[dict[str, Any]]


class _Message(_Line):
    type: str
    data: dict[str, Any]


class _Change(_Line):
    """The fields of an effort after an event."""

    id: str
    goal: str
    summary: str
    keywords: tuple[str, ...]
    constraints: tuple[str, ...]
    importance: _Number
    tokens: _Number


class _Reference(_OfTurn):
    file: str


class _StateLine(_OfTurn):
    state: dict[str, Any] | None


class _MemoryLine(_Line):
    memory: str
    created: _Time
    base: _Number
    accesses: _Number
    keywords: list[str]
    suppressed: bool
    withdrawn: bool
    attended: bool


class _Loss(_OfTurn):
    """A turn that lost text; `content` is the digest of what remains, "" for a tombstone."""

    digest: str
    content: str


_LOSSES = TypeAdapter(list[_Loss])


def export(archive: SqlArchive, owner: Owner, folder: str | os.PathLike[str]) -> None:
    """Write a session to a new or empty folder; raises `ArchiveError` for any other.

    `session.json` is written last: a folder without it is not complete.
    """
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ArchiveError(f"{str(target)!r} is not empty: name a new folder to export to")
    session = read(archive, owner)
    (target / _EFFORTS).mkdir(parents=True, exist_ok=True)
    for name, lines in _files(session).items():
        text = "".join(f"{packed({'v': _FORMAT, **line})}\n" for line in lines)
        (target / name).write_text(text, "utf-8", newline="\n")
    changes = manifest(turn.record for turn in session.turns)
    (target / _MANIFEST).write_text(changes, "utf-8", newline="\n")
    losses = [
        {**_place(turn), "digest": turn.record.digest, "content": turn.content or ""}
        for turn in session.turns
        if turn.content is not None or turn.record.status == "erased"
    ]
    _write_json(target / _ERASED, losses)
    reseed = None if session.reseed is None else astuple(session.reseed)
    _write_json(target / _SESSION, {"format": _FORMAT, **asdict(owner), "reseed": reseed})


def import_folder(
    archive: SqlArchive, folder: str | os.PathLike[str], report: Report | None = None
) -> tuple[Moved, ...]:
    """Read a folder into an archive: of one session, of a user's sessions, or of all users.

    Each session is imported completely or not at all; one that the archive has already with the
    same records stays as it is. Raises `ArchiveError` at the end if one could not be imported.
    """
    is_folder = Path(folder).is_dir()
    folders = [*_sessions(Path(folder))] if is_folder else []
    if not folders:
        fault = "holds no session" if is_folder else "is no folder"
        raise ArchiveError(
            f"{str(folder)!r} {fault}: name a folder with {_SESSION}, or one of such"
        )

    def import_session(path: Path) -> Moved:
        reader = _Reader(path)
        try:
            session = reader.session()
        except OSError as error:
            raise ArchiveError(
                f"{str(path)!r} cannot be read: {error}; make it readable, then import it again"
            ) from error
        fresh = session.write(archive)
        return Moved(session.owner, len(session.turns), fresh, tuple(reader.findings))

    return move_each(folders, import_session, report)


def _files(session: WholeSession) -> dict[str, list[Mapping[str, Any]]]:
    """Return the lines of each file; a turn is in its first effort's, which the others refer to."""
    files = defaultdict[str, list[Mapping[str, Any]]](list, {_RAW: []})
    for turn in session.turns:
        efforts = [f"{_EFFORTS}/{safe_name(effort)}{_SUFFIX}" for effort in turn.record.efforts]
        home, *further = efforts or [_RAW]
        fields = _TurnLine.model_fields.items()
        files[home].append(
            {info.alias or name: getattr(turn.record, name) for name, info in fields}
        )
        for name in further:
            files[name].append({"ref": {**_place(turn), "file": home}})
        files[_STATES].append({**_place(turn), "state": turn.state})
    files[_COMPRESSED] = [
        {"branch": branch, "compressed": as_data(compression)}
        for branch, compression in session.compressions
    ]
    files[_EXTRACTIONS] = [*session.extractions]
    files[_ATTENTION] = [*(session.attention or ())]
    return files


def _place(turn: StoredTurn) -> dict[str, Any]:
    return {"branch": turn.record.branch, "turn": turn.record.turn}


def _write_json(path: Path, body: Any) -> None:
    text = json.dumps(body, ensure_ascii=False, indent=1) + "\n"
    path.write_bytes(text.encode("utf-8", "backslashreplace"))  # a lone surrogate as JSON has it


def _sessions(folder: Path, depth: int = 2) -> Iterator[Path]:
    """Yield the folders of sessions: this one, those in it, or those in folders of users."""
    if not depth or (folder / _SESSION).is_file() or (folder / _RAW).is_file():
        yield folder
        return
    for path in sorted(folder.iterdir()):
        # A folder that is hidden, or holds no logs, is none of ours.
        if path.is_dir() and path.name[0] != "." and any(path.rglob(f"*{_SUFFIX}")):
            yield from _sessions(path, depth - 1)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads a session's folder; `findings` are faults there that are no errors."""

    path: Path
    findings: list[Finding] = field(default_factory=list)

    def session(self) -> WholeSession:
        """Return the session; raises `ArchiveFormatError` that names file and line of damage."""
        owner, reseed = _owner_and_reseed(
            self.path / _SESSION, self._json(_SESSION, lambda body: body)
        )
        erasing = self.path / "erasing.json"
        if erasing.exists():
            raise ArchiveFormatError(
                f"{str(erasing)!r}: a turn was being erased when the folder was left: "
                "open the session once with the version that wrote it, which finishes that"
            )
        turns = self._turns()
        if reseed and (reseed.branch, reseed.turn) not in [turn.place for turn in turns]:
            raise _damaged(self.path / _SESSION, f"{reseed} is none of its turns")
        memories = tuple(memory for _, memory in self._decoded(_ATTENTION, partial(_memory, owner)))
        return WholeSession(
            owner,
            turns,
            compressions=tuple(entry for _, entry in self._decoded(_COMPRESSED, _compression)),
            extractions=tuple(entry for _, entry in self._decoded(_EXTRACTIONS, _extraction)),
            attention=memories if (self.path / _ATTENTION).exists() else None,
            reseed=reseed,
        )

    def _turns(self) -> tuple[StoredTurn, ...]:
        """Return the turns, parents first, as `states.jsonl` orders them, others by their time."""
        logged = self._logged()
        states = {
            (line.branch, line.turn): line.state
            for _, line in self._decoded(_STATES, _StateLine.model_validate)
        }
        for branch, number in states.keys() - logged.keys():
            raise _damaged(self.path / _STATES, f"turn {number} of {branch!r} is in no log")
        by_time = sorted(logged, key=lambda place: (logged[place].record.at, place[1], place[0]))
        contents = self._contents(logged)
        turns: dict[_Place, StoredTurn] = {}
        for place, parent in _parents_first(logged, dict.fromkeys([*states, *by_time])):
            turn = logged[place]
            if turn.record.parent == _GAP:
                digest = turns[parent].record.digest if parent in turns else ""
                turn = replace(turn, record=replace(turn.record, parent=digest))
                gap = f"the turn before turn {place[1]} was missing: it follows what there is"
                self.findings.append(Finding(turn.source, gap, fatal=False))
            turns[place] = replace(turn, state=states.get(place), content=contents.get(place))
        return tuple(turns.values())

    def _contents(self, logged: Mapping[_Place, StoredTurn]) -> dict[_Place, str | None]:
        """Return the digests of the remaining messages of turns that lost text."""
        contents: dict[_Place, str | None] = {}
        for loss in self._json(_ERASED, _LOSSES.validate_python) or ():
            turn = logged.get((loss.branch, loss.turn))
            if turn is None or turn.record.digest != loss.digest:
                continue
            if not loss.content and turn.record.status != "erased":
                raise _damaged(turn.source, "the turn was erased, and is here with its text")
            contents[turn.place] = loss.content or None
        return contents

    def _logged(self) -> dict[_Place, StoredTurn]:
        """Return the turns of all logs by their places; raises if a turn is in two logs."""
        logged: dict[_Place, StoredTurn] = {}
        references: list[tuple[str, _Reference]] = []
        efforts = sorted((self.path / _EFFORTS).glob(f"*{_SUFFIX}"))
        for name in (_RAW, *(f"{_EFFORTS}/{path.name}" for path in efforts)):
            for source, line in self._decoded(name, _logged_line):
                if isinstance(line, _Reference):
                    references.append((source, line))
                    continue
                place = (line.branch, line.turn)
                if place in logged:
                    raise _damaged(source, f"it stands in {logged[place].source} already")
                logged[place] = StoredTurn(line, source)
        for source, reference in references:
            turn = logged.get((reference.branch, reference.turn))
            if turn is None or turn.source.rpartition(":")[0] != str(self.path / reference.file):
                raise _damaged(source, f"the turn is not in {reference.file!r}")
        branches = {branch for branch, _ in logged}
        for turn in logged.values():
            if turn.record.origin is not None and turn.record.origin[0] not in branches:
                raise _damaged(turn.source, f"there is no branch {turn.record.origin[0]!r}")
        return logged

    def _json(self, name: str, decode: Callable[[Any], T]) -> T | None:
        """Return the decoded content of a file of JSON, None if there is no such file."""
        try:
            return decode(json.loads((self.path / name).read_bytes()))
        except FileNotFoundError:
            return None
        except DAMAGED as error:
            raise _damaged(self.path / name, error) from error

    def _decoded(self, name: str, decode: Callable[[Any], T]) -> Iterator[tuple[str, T]]:
        """Yield the place and the decoded content of each line of a file.

        A torn last line is no error in a folder of the first build, whose logs grew line by line:
        it is left out, and is among the findings.
        """
        path = self.path / name
        if not path.exists():
            return
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                source = f"{path}:{number}"
                try:
                    body = json.loads(raw.decode())
                    if body["v"] != _FORMAT or broken(body):
                        raise ValueError(f"version {body['v']!r}")
                    decoded = decode(body)
                except DAMAGED as error:
                    if raw.endswith(b"\n") or (self.path / _STATES).exists():
                        raise _damaged(source, error) from error
                    torn = Finding(source, "torn last line: it is left out", fatal=False)
                    self.findings.append(torn)
                else:
                    yield source, decoded


def _parents_first(
    turns: Mapping[_Place, StoredTurn], order: Iterable[_Place]
) -> Iterator[tuple[_Place, _Place | None]]:
    """Yield the places with those of their parents, in this order, but parents first."""
    numbers: dict[str, list[int]] = {}
    for branch, number in sorted(turns):
        numbers.setdefault(branch, []).append(number)

    def parent_of(place: _Place) -> _Place | None:
        branch, number = place
        index = bisect_left(numbers[branch], number)
        if index:
            return branch, numbers[branch][index - 1]
        origin, last = turns[place].record.origin or ("", 0)
        of_origin = numbers.get(origin)
        # A branch may leave another before that one's first turn, which must be there even so.
        return (origin, of_origin[max(bisect_right(of_origin, last), 1) - 1]) if of_origin else None

    yielded: set[_Place] = set()
    for place in order:
        chain: list[tuple[_Place, _Place | None]] = []
        next_place: _Place | None = place
        while next_place is not None and next_place not in yielded:
            yielded.add(next_place)
            chain.append((next_place, parent_of(next_place)))
            next_place = chain[-1][1]
        yield from reversed(chain)


def _owner_and_reseed(path: Path, body: Any) -> tuple[Owner, Tip | None]:
    """Return the session's owner, and the turn from which its thread goes on if one is noted."""
    names = ", ".join(f'"{name}": ...' for name in Owner.__slots__)
    advice = f'is damaged or missing: restore it, or write {{"format": {_FORMAT}, {names}}} there'
    with suppress(*DAMAGED):
        values = [body[name] for name in Owner.__slots__]
        reseed = None if body.get("reseed") is None else Tip(*body["reseed"])
        if body["format"] == _FORMAT and all(isinstance(value, str) for value in values):
            return Owner(*values), reseed
        if body["format"] > _FORMAT:
            advice = "is of a newer format: install a newer ebbtide"
    raise ArchiveFormatError(f"{str(path)!r} {advice}")


def _damaged(source: object, cause: str | Exception) -> ArchiveFormatError:
    """Return the error for damage in a file or a line; of a failed validation its first finding."""
    if isinstance(cause, ValidationError):
        first = cause.errors()[0]
        cause = f"{first['msg']} (got {first['input']!r:.80})"
        if first["loc"]:
            cause = f"{'.'.join(map(str, first['loc']))}: {cause}"
    reason = cause if isinstance(cause, str) else f"it cannot be read ({cause!r:.200})"
    return ArchiveFormatError(
        f"{source}: damaged: {reason}; nothing of this session was taken over: restore it from a "
        "backup"
    )


def _logged_line(body: Any) -> Record | _Reference:
    """Return a line as a turn, or as a reference to a turn in another log; raises if it is none."""
    if "ref" in body:
        return _Reference.model_validate(body["ref"])
    record = Record(**dict(_TurnLine.model_validate(body)))
    for message in record.messages:
        _Message.model_validate(message)
    for effort in left_by(record):
        _Change.model_validate(asdict(effort))
    return replace(record, parent=_GAP) if body.get("gap") else record


def _compression(body: Any) -> tuple[str, Compression]:
    compression = from_data(body["compressed"])
    return _OfTurn.model_validate({**body, "turn": compression.turn}).branch, compression


def _extraction(body: Any) -> Mapping[str, Any]:
    _OfTurn.model_validate(body)
    return {**body, "effort": str(body["effort"])}


def _memory(owner: Owner, body: Any) -> Mapping[str, Any]:
    memory = dict(_MemoryLine.model_validate(body))
    if not memory["memory"].startswith(qualified(owner, "")):
        raise ValueError(f"{memory['memory']!r} is of another session")
    return memory
