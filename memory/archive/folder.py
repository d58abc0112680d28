"""Sessions as files that people read: a folder that can be read back, or one page of Markdown.

A folder has `session.json`, which says whose it is, a line of JSON for each turn in `raw.jsonl`
(ambient turns) or `efforts/<name>.jsonl`, what was made of them, and the manifest for people alone.
Archives were once kept in such folders, so these are read as well.
"""

import json
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ..errors import ArchiveError, ArchiveFormatError
from ..messages import broken
from ..names import parted, safe_name, session_name
from ..record import Owner, Record, Tip
from ..salience import Compression, as_data, from_data
from .page import as_yaml, entries
from .protocol import Finding
from .records import FORMAT, decoded, encoded, left_by, packed
from .sql import SqlArchive
from .transfer import DAMAGED, Moved, Told, Turn, Whole, each, read, write

SESSION, MANIFEST, RAW = "session.json", "manifest.yaml", "raw.jsonl"
COMPRESSED, EXTRACTIONS = "compressed.jsonl", "extractions.jsonl"
_STATES = "states.jsonl"
"""The turns in the order of their commit, each with the memory's state after it."""
_ATTENTION = "attention.jsonl"
_ERASED = "erased.json"
"""Which turns lost text: what is left of them has another digest than they have."""

_ERASING = "erasing.json"
_EFFORTS, _SUFFIX = "efforts", ".jsonl"
_NAMES = ("user", "thread", "namespace")
"""What names a session in its manifest."""

_LAST = 2**31 - 1
"""The last turn that the tables can number."""
_GAP = "?"
"""Stands for the parent that an archive in folders did not hold."""

T = TypeVar("T")
_Place: TypeAlias = tuple[str, int]
_Number: TypeAlias = Annotated[int, Field(ge=0, le=_LAST)]
_Time: TypeAlias = Annotated[str, Field(pattern="^[0-9]{4}[^\0]*$")]


class _Said(BaseModel):
    """What a line must have to be taken for what it is; others may have more."""

    model_config = ConfigDict(strict=True)
    v: Literal[1]


class _OfTurn(_Said):
    branch: Annotated[str, Field(pattern="^[^\0]*$")]
    turn: Annotated[int, Field(ge=1, le=_LAST)]


class _Line(_OfTurn):
    parent: str
    digest: Annotated[str, Field(pattern="^[^\0]*$")]
    efforts: list[str]
    status: Literal["done", "aborted", "erased"]
    at: _Time
    origin: Annotated[list[str | _Number] | None, Field(alias="from", min_length=2, max_length=2)]
    messages: list[dict[str, Any]]
    events: list[dict[str, Any]]


class _Change(BaseModel):
    model_config = ConfigDict(strict=True)
    id: str
    goal: str
    summary: str
    keywords: tuple[str, ...]
    constraints: tuple[str, ...]
    importance: _Number
    tokens: _Number


class _State(_OfTurn):
    state: dict[str, Any] | None


class _Kept(_Said):
    memory: str
    created: _Time
    base: _Number
    accesses: _Number
    keywords: list[str]


class _Noted(BaseModel):
    model_config = ConfigDict(strict=True)
    branch: str
    turn: int
    digest: str
    content: str


_NOTED = TypeAdapter(list[_Noted] | None)


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
        lines = "".join(f"{packed(line)}\n" for line in listed)
        (target / name).write_text(lines, "utf-8", newline="\n")
    changes = [entry for turn in whole.turns for entry in entries(turn.record)]
    (target / MANIFEST).write_text(as_yaml(changes), "utf-8", newline="\n")
    _write_json(target / _ERASED, [*_erased(whole.turns)])
    names = {name: getattr(owner, name) for name in _NAMES}
    reseed = None if whole.reseed is None else astuple(whole.reseed)
    _write_json(target / SESSION, {"format": FORMAT, **names, "reseed": reseed})


def import_folder(
    archive: SqlArchive, folder: str | os.PathLike[str], told: Told | None = None
) -> tuple[Moved, ...]:
    """Read the sessions of a folder into an archive: a session, those of a user, or of all users.

    A session is there afterwards as it was, or not at all; one that is there already with the same
    records stays as it is. Raises `ArchiveError` at the end if one could not be taken over.
    """
    folders = [*_sessions(Path(folder))]
    if not folders:
        raise ArchiveError(
            f"{str(folder)!r} holds no session: name a folder with {SESSION}, or one of such"
        )

    def take(path: Path) -> Moved:
        session = _Folder(path)
        try:
            whole = session.whole()
        except OSError as error:
            raise ArchiveError(f"{str(path)!r} cannot be read: {error}") from error
        fresh = write(archive, whole)
        return Moved(whole.owner, len(whole.turns), fresh, tuple(session.findings))

    return each(folders, take, told)


def _files(whole: Whole) -> dict[str, list[Any]]:
    """Return by file what stands there line by line; a turn of several efforts stands in one."""
    files: dict[str, list[Any]] = {RAW: []}
    for turn in whole.turns:
        record = turn.record
        own, *others = _logs(record)
        files.setdefault(own, []).append(encoded(record))
        for name in others:
            ref = {"branch": record.branch, "turn": record.turn, "file": own}
            files.setdefault(name, []).append({"v": FORMAT, "ref": ref})
    files[_STATES] = [
        {"v": FORMAT, "branch": turn.record.branch, "turn": turn.record.turn, "state": turn.state}
        for turn in whole.turns
    ]
    files[COMPRESSED] = [
        {"v": FORMAT, "branch": branch, "compressed": as_data(compression)}
        for branch, compression in whole.compressions
    ]
    files[EXTRACTIONS] = [*whole.extractions]
    files[_ATTENTION] = [{"v": FORMAT, **memory} for memory in whole.attention or ()]
    return files


def _logs(record: Record) -> list[str]:
    """Return the files of a turn, its own one first."""
    return [f"{_EFFORTS}/{safe_name(effort)}{_SUFFIX}" for effort in record.efforts] or [RAW]


def _erased(turns: Iterable[Turn]) -> Iterator[dict[str, Any]]:
    for turn in turns:
        record = turn.record
        if turn.content is not None or record.status == "erased":
            place = {"branch": record.branch, "turn": record.turn, "digest": record.digest}
            yield {**place, "content": turn.content or ""}


def _write_json(path: Path, body: Any) -> None:
    text = json.dumps(body, ensure_ascii=False, indent=1) + "\n"
    path.write_bytes(text.encode("utf-8", "backslashreplace"))  # a lone surrogate as JSON has it


def _sessions(folder: Path) -> Iterator[Path]:
    """Yield the folders of sessions: this one, those in it, or those in folders of users."""
    if not folder.is_dir():
        raise ArchiveError(f"{str(folder)!r} is no folder")
    if _is_session(folder):
        yield folder
        return
    inside = _folders(folder)
    for path in inside:
        yield from [path] if _is_session(path) else _folders(path)


def _folders(folder: Path) -> list[Path]:
    """Return the folders in a folder, those left out that hold no logs."""
    listed = (path for path in sorted(folder.iterdir()) if not path.name.startswith("."))
    return [path for path in listed if path.is_dir() and any(path.rglob(f"*{_SUFFIX}"))]


def _is_session(folder: Path) -> bool:
    return (folder / SESSION).is_file() or (folder / RAW).is_file()


@dataclass(frozen=True, slots=True)
class _Reference:
    """A line that says in which file the turn stands."""

    where: str
    place: _Place
    file: str


@dataclass(frozen=True, slots=True)
class _Folder:
    """A session's folder that is read, and what was found there that is no error."""

    path: Path
    findings: list[Finding] = field(default_factory=list)

    def whole(self) -> Whole:
        """Return the session; raises `ArchiveFormatError` that names file and line of damage."""
        owner, reseed = _described(self.path / SESSION, self._json(SESSION))
        if (self.path / _ERASING).exists():
            raise ArchiveFormatError(
                f"{str(self.path / _ERASING)!r}: a turn was being erased when the folder was left: "
                "open the session once with the version that wrote it, which finishes that"
            )
        turns = self._turns()
        compressed = tuple(self._decoded(COMPRESSED, _compressed))
        logged = tuple(self._decoded(EXTRACTIONS, _pass))
        memories = tuple(self._decoded(_ATTENTION, lambda _, line: _memory(line, owner)))
        if reseed is not None and (reseed.branch, reseed.turn) not in [
            turn.place for turn in turns
        ]:
            raise _damaged(self.path / SESSION, f"{reseed} is none of its turns")
        attention = memories if (self.path / _ATTENTION).exists() else None
        return Whole(owner, turns, compressed, logged, attention, reseed)

    def _turns(self) -> tuple[Turn, ...]:
        """Return the turns in the order of their commit as far as it is known, parents first."""
        found = self._logged()
        states = dict(self._decoded(_STATES, _state))
        for place in states.keys() - found.keys():
            raise _damaged(self.path / _STATES, f"turn {place[1]} of {place[0]!r} is in no log")
        by_time = sorted(found, key=lambda one: (found[one].record.at, one[1], one[0]))
        left = self._left(found)
        turns: dict[_Place, Turn] = {}
        for place, before in _parents_first(found, dict.fromkeys([*states, *by_time])):
            turn = found[place]
            if turn.record.parent == _GAP:
                parent = turns[before].record.digest if before in turns else ""
                turn = replace(turn, record=replace(turn.record, parent=parent))
                what = f"the turn before turn {place[1]} was missing: it follows what there is"
                self.findings.append(Finding(turn.where, what, fatal=False))
            turns[place] = replace(turn, state=states.get(place), content=left.get(place))
        return tuple(turns.values())

    def _logged(self) -> dict[_Place, Turn]:
        """Return the turns of all logs by their places, each there once."""
        found: dict[_Place, Turn] = {}
        references: list[_Reference] = []
        efforts = sorted((self.path / _EFFORTS).glob(f"*{_SUFFIX}"))
        for name in (RAW, *(f"{_EFFORTS}/{path.name}" for path in efforts)):
            for one in self._decoded(name, _line):
                if isinstance(one, _Reference):
                    references.append(one)
                elif found.setdefault(one.place, one) is not one:
                    raise _damaged(one.where, f"it stands in {found[one.place].where} already")
        for reference in references:
            turn = found.get(reference.place)
            if turn is None or turn.where.rpartition(":")[0] != str(self.path / reference.file):
                raise _damaged(reference.where, f"the turn is not in {reference.file!r}")
        there = {branch for branch, _ in found}
        for one in found.values():
            if one.record.origin is not None and one.record.origin[0] not in there:
                raise _damaged(one.where, f"there is no branch {one.record.origin[0]!r}")
        return found

    def _left(self, found: Mapping[_Place, Turn]) -> dict[_Place, str]:
        """Return the digests of what is left of turns that lost a copy of something erased."""
        left: dict[_Place, str] = {}
        for place, digest, content in self._noted():
            turn = found.get(place)
            if turn is None or turn.record.digest != digest:
                continue
            if content:
                left[place] = content
            elif turn.record.status != "erased":
                raise _damaged(turn.where, "the turn was erased, and is here with its text")
        return left

    def _noted(self) -> list[tuple[_Place, str, str]]:
        try:
            listed = _NOTED.validate_python(self._json(_ERASED)) or ()
            return [((noted.branch, noted.turn), noted.digest, noted.content) for noted in listed]
        except DAMAGED as error:
            raise _damaged(self.path / _ERASED, error) from error

    def _json(self, name: str) -> Any:
        """Return what a file says as a whole, None if there is none."""
        try:
            return json.loads((self.path / name).read_bytes())
        except FileNotFoundError:
            return None
        except DAMAGED as error:
            raise _damaged(self.path / name, error) from error

    def _decoded(self, name: str, decode: Callable[[str, Any], T]) -> Iterator[T]:
        """Yield what the lines of a file say; a torn last one is left out and noted.

        Only the logs of such archives grew line by line; an export is written as a whole.
        """
        path = self.path / name
        if not path.exists():
            return
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                where = f"{path}:{number}"
                try:
                    yield decode(where, _body(raw))
                except DAMAGED as error:
                    if raw.endswith(b"\n") or (self.path / _STATES).exists():
                        raise _damaged(where, error) from error
                    what = "torn last line: it is left out"
                    self.findings.append(Finding(where, what, fatal=False))


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
        there = numbers.get(parent)
        # A branch may leave another before that one's first turn, which must be there even so.
        return (parent, there[max(bisect_right(there, upto), 1) - 1]) if there else None

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
    try:
        version, names = body["format"], [body[name] for name in _NAMES]
        reseed = None if body.get("reseed") is None else Tip(*body["reseed"])
        if version == FORMAT and all(isinstance(name, str) for name in names):
            return Owner(*names), reseed
        newer = version > FORMAT
    except DAMAGED:
        newer = False
    if newer:
        raise ArchiveFormatError(f"{str(path)!r} is of a newer format: install a newer ebbtide")
    raise ArchiveFormatError(
        f"{str(path)!r} is damaged or missing: restore it, or write "
        f'{{"format": {FORMAT}, "user": ..., "thread": ..., "namespace": ...}} there'
    )


def _damaged(where: object, why: object) -> ArchiveFormatError:
    if isinstance(why, ValidationError):
        first = why.errors()[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']} (got {first['input']!r:.80})"
    said = why if isinstance(why, str) else f"it cannot be read ({why!r:.200})"
    return ArchiveFormatError(f"{where}: damaged: {said}; nothing of this session was taken over")


def _body(raw: bytes) -> Any:
    body = json.loads(raw.decode())
    if body["v"] != FORMAT or broken(body):
        raise ValueError(f"version {body['v']!r}")
    return body


def _line(where: str, body: Any) -> Turn | _Reference:
    if "ref" in body:
        ref = body["ref"]
        return _Reference(where, (ref["branch"], ref["turn"]), str(ref["file"]))
    _Line.model_validate(body)
    record = decoded(body)
    entries(record)  # its events are such as can be read
    for effort in left_by(record):
        _Change.model_validate(asdict(effort))
    return Turn(replace(record, parent=_GAP) if body.get("gap") else record, where)


def _state(_where: str, body: Any) -> tuple[_Place, Mapping[str, Any] | None]:
    line = _State.model_validate(body)
    return (line.branch, line.turn), line.state


def _compressed(_where: str, body: Any) -> tuple[str, Compression]:
    made = from_data(body["compressed"])
    _OfTurn.model_validate({**body, "turn": made.turn})
    return body["branch"], made


def _pass(_where: str, body: Any) -> Mapping[str, Any]:
    _OfTurn.model_validate(body)
    return {**body, "effort": str(body["effort"])}


def _memory(body: Any, owner: Owner) -> Mapping[str, Any]:
    line = _Kept.model_validate(body)
    if parted(line.memory)[0] != session_name(owner):
        raise ValueError(f"{line.memory!r} is of another session")
    flags = {name: body[name] is True for name in ("suppressed", "withdrawn", "attended")}
    return {**line.model_dump(exclude={"v"}), **flags}
