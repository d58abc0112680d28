"""A session as a folder of files that people read, and that can be read back.

A folder has `session.json`, which says whose it is, a line of JSON for each turn in `raw.jsonl`
(ambient turns) or `efforts/<name>.jsonl`, what was made of them, and the manifest for people alone.
Archives were once kept in such folders, so these are read as well.
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
from ..names import parted, safe_name, session_name
from ..record import Owner, Record, Tip
from ..salience import Compression, as_data, from_data
from .page import manifest
from .protocol import Finding
from .records import left_by, packed
from .sql import SqlArchive
from .transfer import DAMAGED, Moved, Report, Turn, Whole, each, read

_FORMAT = 1
"""The version of a line; archives that were kept in folders have the same."""

_SESSION, _MANIFEST, _RAW = "session.json", "manifest.yaml", "raw.jsonl"
_COMPRESSED, _EXTRACTIONS = "compressed.jsonl", "extractions.jsonl"
_STATES = "states.jsonl"
"""The turns in the order of their commit, each with the memory's state after it."""
_ATTENTION = "attention.jsonl"
_ERASED = "erased.json"
"""Which turns lost text: what is left of them has another digest than they have."""

_EFFORTS, _SUFFIX = "efforts", ".jsonl"

_LAST = 2**31 - 1
"""The last turn that the tables can number."""
_GAP = "?"
"""Stands for the parent that an archive in folders did not hold."""

T = TypeVar("T")
_Place: TypeAlias = tuple[str, int]
_Number: TypeAlias = Annotated[int, Field(ge=0, le=_LAST)]
_Name: TypeAlias = Annotated[str, Field(pattern="^[^\0]*$")]
_Time: TypeAlias = Annotated[str, Field(pattern="^[0-9]{4}[^\0]*$")]
_Origin: TypeAlias = Annotated[tuple[str, _Number], Strict(strict=False)]
_List: TypeAlias = Annotated[tuple[T, ...], Strict(strict=False)]
"""A list in JSON; its items must be what they are all the same."""


class _Line(BaseModel):
    """What a line must have to be taken for what it is; it may have more."""

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
    """How an event may leave an effort."""

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
    """A turn that lost text, with the digest of what is left of it; a tombstone has none."""

    digest: str
    content: str


_LOSSES = TypeAdapter(list[_Loss])


def export(archive: SqlArchive, owner: Owner, folder: str | os.PathLike[str]) -> None:
    """Write a session to a new or empty folder; raises `ArchiveError` if it is another one.

    What says whose it is comes last: a folder without it was not finished.
    """
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ArchiveError(f"{str(target)!r} is not empty: name a new folder to export to")
    whole = read(archive, owner)
    (target / _EFFORTS).mkdir(parents=True, exist_ok=True)
    for name, listed in _files(whole).items():
        lines = "".join(f"{packed({'v': _FORMAT, **line})}\n" for line in listed)
        (target / name).write_text(lines, "utf-8", newline="\n")
    changes = manifest(turn.record for turn in whole.turns)
    (target / _MANIFEST).write_text(changes, "utf-8", newline="\n")
    losses = [
        {**_place(turn), "digest": turn.record.digest, "content": turn.content or ""}
        for turn in whole.turns
        if turn.content is not None or turn.record.status == "erased"
    ]
    _write_json(target / _ERASED, losses)
    reseed = None if whole.reseed is None else astuple(whole.reseed)
    _write_json(target / _SESSION, {"format": _FORMAT, **asdict(owner), "reseed": reseed})


def import_folder(
    archive: SqlArchive, folder: str | os.PathLike[str], report: Report | None = None
) -> tuple[Moved, ...]:
    """Read the sessions of a folder into an archive: a session, those of a user, or of all users.

    A session is there afterwards as it was, or not at all; one that is there already with the same
    records stays as it is. Raises `ArchiveError` at the end if one could not be taken over.
    """
    if not Path(folder).is_dir():
        raise ArchiveError(f"{str(folder)!r} is no folder")
    folders = [*_sessions(Path(folder))]
    if not folders:
        raise ArchiveError(
            f"{str(folder)!r} holds no session: name a folder with {_SESSION}, or one of such"
        )

    def take(path: Path) -> Moved:
        session = _Folder(path)
        try:
            whole = session.whole()
        except OSError as error:
            raise ArchiveError(f"{str(path)!r} cannot be read: {error}") from error
        fresh = whole.write(archive)
        return Moved(whole.owner, len(whole.turns), fresh, tuple(session.findings))

    return each(folders, take, report)


def _files(whole: Whole) -> dict[str, list[Mapping[str, Any]]]:
    """Return by file what stands there line by line; a turn of several efforts stands in one."""
    files = defaultdict[str, list[Mapping[str, Any]]](list, {_RAW: []})
    for turn in whole.turns:
        efforts = [f"{_EFFORTS}/{safe_name(effort)}{_SUFFIX}" for effort in turn.record.efforts]
        own, *others = efforts or [_RAW]
        fields = _TurnLine.model_fields.items()
        files[own].append({info.alias or name: getattr(turn.record, name) for name, info in fields})
        for name in others:
            files[name].append({"ref": {**_place(turn), "file": own}})
        files[_STATES].append({**_place(turn), "state": turn.state})
    files[_COMPRESSED] = [
        {"branch": branch, "compressed": as_data(compression)}
        for branch, compression in whole.compressions
    ]
    files[_EXTRACTIONS] = [*whole.extractions]
    files[_ATTENTION] = [*(whole.attention or ())]
    return files


def _place(turn: Turn) -> dict[str, Any]:
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
        # What is hidden, or holds no logs, is somebody else's.
        if path.is_dir() and path.name[0] != "." and any(path.rglob(f"*{_SUFFIX}")):
            yield from _sessions(path, depth - 1)


@dataclass(frozen=True, slots=True)
class _Folder:
    """A session's folder that is read, and what was found there that is no error."""

    path: Path
    findings: list[Finding] = field(default_factory=list)

    def whole(self) -> Whole:
        """Return the session; raises `ArchiveFormatError` that names file and line of damage."""
        owner, reseed = _described(self.path / _SESSION, self._json(_SESSION, lambda body: body))
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
        return Whole(
            owner,
            turns,
            compressions=tuple(made for _, made in self._decoded(_COMPRESSED, _compression)),
            extractions=tuple(entry for _, entry in self._decoded(_EXTRACTIONS, _pass)),
            attention=memories if (self.path / _ATTENTION).exists() else None,
            reseed=reseed,
        )

    def _turns(self) -> tuple[Turn, ...]:
        """Return the turns in the order of their commit as far as it is known, parents first."""
        logged = self._logged()
        states = {
            (line.branch, line.turn): line.state
            for _, line in self._decoded(_STATES, _StateLine.model_validate)
        }
        for branch, number in states.keys() - logged.keys():
            raise _damaged(self.path / _STATES, f"turn {number} of {branch!r} is in no log")
        by_time = sorted(logged, key=lambda place: (logged[place].record.at, place[1], place[0]))
        contents: dict[_Place, str | None] = {}
        for loss in self._json(_ERASED, _LOSSES.validate_python) or ():
            turn = logged.get((loss.branch, loss.turn))
            if turn is None or turn.record.digest != loss.digest:
                continue
            if not loss.content and turn.record.status != "erased":
                raise _damaged(turn.where, "the turn was erased, and is here with its text")
            contents[turn.place] = loss.content or None
        turns: dict[_Place, Turn] = {}
        for place, before in _parents_first(logged, dict.fromkeys([*states, *by_time])):
            turn = logged[place]
            if turn.record.parent == _GAP:
                parent = turns[before].record.digest if before in turns else ""
                turn = replace(turn, record=replace(turn.record, parent=parent))
                what = f"the turn before turn {place[1]} was missing: it follows what there is"
                self.findings.append(Finding(turn.where, what, fatal=False))
            turns[place] = replace(turn, state=states.get(place), content=contents.get(place))
        return tuple(turns.values())

    def _logged(self) -> dict[_Place, Turn]:
        """Return the turns of all logs by their places, each there once."""
        logged: dict[_Place, Turn] = {}
        references: list[tuple[str, _Reference]] = []
        efforts = sorted((self.path / _EFFORTS).glob(f"*{_SUFFIX}"))
        for name in (_RAW, *(f"{_EFFORTS}/{path.name}" for path in efforts)):
            for where, line in self._decoded(name, _logged_line):
                if isinstance(line, _Reference):
                    references.append((where, line))
                    continue
                place = (line.branch, line.turn)
                if place in logged:
                    raise _damaged(where, f"it stands in {logged[place].where} already")
                logged[place] = Turn(line, where)
        for where, reference in references:
            turn = logged.get((reference.branch, reference.turn))
            if turn is None or turn.where.rpartition(":")[0] != str(self.path / reference.file):
                raise _damaged(where, f"the turn is not in {reference.file!r}")
        branches = {branch for branch, _ in logged}
        for turn in logged.values():
            if turn.record.origin is not None and turn.record.origin[0] not in branches:
                raise _damaged(turn.where, f"there is no branch {turn.record.origin[0]!r}")
        return logged

    def _json(self, name: str, decode: Callable[[Any], T]) -> T | None:
        """Return what a file says as a whole, None if there is none."""
        try:
            return decode(json.loads((self.path / name).read_bytes()))
        except FileNotFoundError:
            return None
        except DAMAGED as error:
            raise _damaged(self.path / name, error) from error

    def _decoded(self, name: str, decode: Callable[[Any], T]) -> Iterator[tuple[str, T]]:
        """Yield where each line of a file is, and what it says; a torn last one is noted alone.

        Only the logs of such archives grew line by line; an export is written as a whole.
        """
        path = self.path / name
        if not path.exists():
            return
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                where = f"{path}:{number}"
                try:
                    body = json.loads(raw.decode())
                    if body["v"] != _FORMAT or broken(body):
                        raise ValueError(f"version {body['v']!r}")
                    decoded = decode(body)
                except DAMAGED as error:
                    if raw.endswith(b"\n") or (self.path / _STATES).exists():
                        raise _damaged(where, error) from error
                    what = "torn last line: it is left out"
                    self.findings.append(Finding(where, what, fatal=False))
                else:
                    yield where, decoded


def _parents_first(
    turns: Mapping[_Place, Turn], order: Iterable[_Place]
) -> Iterator[tuple[_Place, _Place | None]]:
    """Yield places in this order, but each after the one before it, which is with it."""
    numbers: dict[str, list[int]] = {}
    for branch, number in sorted(turns):
        numbers.setdefault(branch, []).append(number)

    def before(place: _Place) -> _Place | None:
        branch, number = place
        at = bisect_left(numbers[branch], number)
        if at:
            return branch, numbers[branch][at - 1]
        parent, upto = turns[place].record.origin or ("", 0)
        of_parent = numbers.get(parent)
        # A branch may leave another before that one's first turn, which must be there even so.
        return (parent, of_parent[max(bisect_right(of_parent, upto), 1) - 1]) if of_parent else None

    seen: set[_Place | None] = {None}
    for place in order:
        chain: list[tuple[_Place, _Place | None]] = []
        at: _Place | None = place
        while at is not None and at not in seen:
            seen.add(at)
            chain.append((at, before(at)))
            at = chain[-1][1]
        yield from reversed(chain)


def _described(path: Path, body: Any) -> tuple[Owner, Tip | None]:
    """Return whose session it is, and from which turn its thread goes on if that is noted."""
    names = ", ".join(f'"{name}": ...' for name in Owner.__slots__)
    why = f'is damaged or missing: restore it, or write {{"format": {_FORMAT}, {names}}} there'
    with suppress(*DAMAGED):
        values = [body[name] for name in Owner.__slots__]
        reseed = None if body.get("reseed") is None else Tip(*body["reseed"])
        if body["format"] == _FORMAT and all(isinstance(value, str) for value in values):
            return Owner(*values), reseed
        if body["format"] > _FORMAT:
            why = "is of a newer format: install a newer ebbtide"
    raise ArchiveFormatError(f"{str(path)!r} {why}")


def _damaged(where: object, why: object) -> ArchiveFormatError:
    if isinstance(why, ValidationError):
        first = why.errors()[0]
        what = f"{first['msg']} (got {first['input']!r:.80})"
        why = f"{'.'.join(map(str, first['loc']))}: {what}" if first["loc"] else what
    reason = why if isinstance(why, str) else f"it cannot be read ({why!r:.200})"
    return ArchiveFormatError(f"{where}: damaged: {reason}; nothing of this session was taken over")


def _logged_line(body: Any) -> Record | _Reference:
    if "ref" in body:
        return _Reference.model_validate(body["ref"])
    record = Record(**dict(_TurnLine.model_validate(body)))
    for message in record.messages:
        _Message.model_validate(message)
    for effort in left_by(record):
        _Change.model_validate(asdict(effort))
    return replace(record, parent=_GAP) if body.get("gap") else record


def _compression(body: Any) -> tuple[str, Compression]:
    made = from_data(body["compressed"])
    return _OfTurn.model_validate({**body, "turn": made.turn}).branch, made


def _pass(body: Any) -> Mapping[str, Any]:
    _OfTurn.model_validate(body)
    return {**body, "effort": str(body["effort"])}


def _memory(owner: Owner, body: Any) -> Mapping[str, Any]:
    memory = dict(_MemoryLine.model_validate(body))
    if parted(memory["memory"])[0] != session_name(owner):
        raise ValueError(f"{memory['memory']!r} is of another session")
    return memory
