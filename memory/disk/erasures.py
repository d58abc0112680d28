"""Erasures as a session's folder keeps them: the one under way, and those that are done.

What is to be done is written down first, without any text. Whoever opens the session next, under
its lock, does what is left of it; every step can be repeated.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

from ..archive.protocol import Finding
from ..erasing import Redaction, TurnPlace, changed
from ..errors import ArchiveFormatError
from ..manifest import Entry, ManifestError, entries, line, parse
from ..record import Record
from . import user_index
from .folder import Folder
from .forgetting import Made, forget
from .lines import encode
from .log import UNFINISHED, read, replace_file, replace_lines, sync_folder
from .schema import delete


@dataclass(frozen=True, slots=True)
class Filed:
    """A redaction, and the log that the record stands in."""

    file: str
    redaction: Redaction


@dataclass(frozen=True, slots=True)
class Noted:
    """A record that was erased or, if there is a digest of its `content`, lost some copies."""

    branch: str
    turn: int
    digest: str
    content: str
    at: str

    @property
    def key(self) -> tuple[str, int, str]:
        """Branch, turn and digest of the record."""
        return self.branch, self.turn, self.digest


@dataclass(frozen=True, slots=True)
class Plan:
    """An erasure under way: what it changes, and which other files it deletes.

    `made` are the compressions, and the passes in the log of extractions, that saw the turn.
    """

    turn: int
    at: str
    filed: tuple[Filed, ...]
    dropped: tuple[str, ...] = ()
    made: tuple[Made, ...] = ()

    @property
    def noted(self) -> tuple[Noted, ...]:
        """The records whose messages do not match their digest any more."""
        redactions = (one.redaction for one in self.filed)
        return tuple(
            Noted(done.branch, done.turn, done.digest, done.content, self.at)
            for done in redactions
            if done.buried or done.content
        )


Step: TypeAlias = Callable[[Folder, Plan], None]


def begin(folder: Folder, plan: Plan) -> None:
    """Write down what is to be done."""
    cuts = [{"file": one.file, **_fields(one.redaction)} for one in plan.filed]
    said = {"v": 1, "turn": plan.turn, "at": plan.at, "cuts": cuts, "dropped": [*plan.dropped]}
    said["made"] = [*plan.made]
    replace_file(folder.erasing, json.dumps(said).encode(), durable=folder.durable)


def finish(folder: Folder) -> None:
    """Do what is left of an erasure, if one is under way; needs the lock, and no open index."""
    plan = under_way(folder)
    if plan is None:
        return
    for step in STEPS:
        step(folder, plan)
    folder.erasing.unlink()
    if folder.durable:
        sync_folder(folder.path)


def under_way(folder: Folder) -> Plan | None:
    """Return the erasure that is under way, None if there is none."""
    try:
        said = json.loads(folder.erasing.read_bytes())
        filed = tuple(Filed(item["file"], _redaction(item)) for item in said["cuts"])
        made = tuple((effort, branch, turn) for effort, branch, turn in said.get("made", ()))
        return Plan(said["turn"], said["at"], filed, tuple(said["dropped"]), made)
    except FileNotFoundError:
        return None
    except (ValueError, LookupError, TypeError) as error:
        raise ArchiveFormatError(
            f"{str(folder.erasing)!r} is damaged: delete it, and erase the turn again"
        ) from error


def done(folder: Folder) -> tuple[Noted, ...]:
    """Return what was erased so far, oldest first."""
    try:
        return tuple(Noted(**item) for item in json.loads(folder.erased.read_bytes()))
    except FileNotFoundError:
        return ()
    except (ValueError, TypeError) as error:
        raise ArchiveFormatError(f"{str(folder.erased)!r} is damaged: restore it") from error


def excused(folder: Folder) -> dict[tuple[str, int, str], str]:
    """Return for records that lost text the digest of what is left of it, "" for nothing."""
    plan = under_way(folder)
    noted = (*done(folder), *(plan.noted if plan else ()))
    return {one.key: one.content for one in noted}


def mend(folder: Folder, records: Iterable[Record], places: Iterable[TurnPlace]) -> None:
    """Put what these records say into the manifest, in the place of what it says of these turns.

    A manifest that cannot be read is deleted: it is made again from the records.
    """
    try:
        manifest = parse(folder.manifest.read_bytes())
    except FileNotFoundError:
        return
    except ManifestError:
        folder.manifest.unlink()
        return
    fresh = dict.fromkeys(places, ()) | {_place(one): entries(one) for one in records}
    listed = "".join(map(line, _with(manifest.entries, fresh)))
    replace_file(folder.manifest, listed.encode(), durable=folder.durable)


def rewrite(path: Path, change: Callable[[Record], Record], *, durable: bool) -> None:
    """Write a log again with some of its records changed; other lines stay as they are."""

    def lines() -> Iterator[bytes]:
        with path.open("rb") as file:
            for stored in read(path):
                raw = file.read(stored.length)
                record = stored.line
                after = change(record) if isinstance(record, Record) else None
                yield raw if after is None or after is record else encode(after)

    replace_lines(path, lines(), durable=durable)


def found(folder: Folder, records: Iterable[tuple[str, Record]]) -> Iterator[Finding]:
    """Yield what is wrong with erased turns among records, and how many there are."""
    plan, known = under_way(folder), excused(folder)
    if plan is not None:
        what = f"turn {plan.turn} is being erased: it is finished at the next opening"
        yield Finding(folder.erasing.name, what, fatal=False)
    tombs = 0
    for where, record in records:
        content = known.get((record.branch, record.turn, record.digest))
        tombs += record.status == "erased" and content == ""
        if record.status == "erased" and content != "":
            yield Finding(where, f"turn {record.turn} has no text, and nobody erased it")
        elif record.status != "erased" and content == "" and plan is None:
            yield Finding(where, f"turn {record.turn} was erased, and is here with its text")
    if tombs:
        what = f"{tombs} turn{'' if tombs == 1 else 's'} erased"
        yield Finding(folder.erased.name, what, fatal=False)


def _forget_index(folder: Folder, _plan: Plan) -> None:
    """Delete the index first: who has it open notices, and waits for the lock."""
    delete(folder.index)


def _rewrite_logs(folder: Folder, plan: Plan) -> None:
    by_file, there = attrgetter("file"), folder.sizes()
    filed = sorted((one for one in plan.filed if one.file in there), key=by_file)
    for name, group in groupby(filed, key=by_file):
        redactions = {filed.redaction.place: filed.redaction for filed in group}

        def change(record: Record, known: dict[TurnPlace, Redaction] = redactions) -> Record:
            found = known.get((record.branch, record.turn))
            return record if found is None else changed(record, found)

        rewrite(folder.path / name, change, durable=folder.durable)


def _mend_manifest(folder: Folder, plan: Plan) -> None:
    places = {filed.redaction.place for filed in plan.filed}
    names = sorted({filed.file for filed in plan.filed}.intersection(folder.sizes()))
    lines = (stored.line for name in names for stored in read(folder.path / name))
    records = (one for one in lines if isinstance(one, Record) and _place(one) in places)
    mend(folder, records, places)


def _forget_user_index(folder: Folder, _plan: Plan) -> None:
    """Delete what is searched from other sessions, now that it cannot be read anew as it was."""
    user_index.forget(folder.path.parent)


def _forget(folder: Folder, plan: Plan) -> None:
    forget(folder, plan.turn, plan.made)


def _sweep(folder: Folder, plan: Plan) -> None:
    """Delete what else holds the text: files set aside, files that a crash left half written."""
    unfinished = [path for path in folder.files() if path.name.endswith(UNFINISHED)]
    for path in (*(folder.path / name for name in plan.dropped), *unfinished):
        path.unlink(missing_ok=True)


def _note(folder: Folder, plan: Plan) -> None:
    """Note which turns were erased, for those who verify the session."""
    listed = {one.key: asdict(one) for one in (*done(folder), *plan.noted)}
    text = json.dumps([*listed.values()], indent=1)
    replace_file(folder.erased, text.encode(), durable=folder.durable)


STEPS: tuple[Step, ...] = (
    _forget_index,
    _rewrite_logs,
    _mend_manifest,
    _forget_user_index,
    _forget,
    _sweep,
    _note,
)
"""What is done in a session's folder to erase a turn; the index is built again afterwards."""


def _with(listed: Sequence[Entry], fresh: dict[TurnPlace, tuple[Entry, ...]]) -> Iterator[Entry]:
    """Yield entries, those of some turns replaced where the first of each stood."""
    put = set[TurnPlace]()
    for entry in listed:
        place = (entry.branch, entry.effort.turn)
        if place not in fresh:
            yield entry
        elif place not in put:
            put.add(place)
            yield from fresh[place]


def _fields(found: Redaction) -> dict[str, Any]:
    places = {"blanks": [*found.blanks.items()], "retold": [*found.retold.items()]}
    return {**asdict(found), **places}


def _redaction(item: Mapping[str, Any]) -> Redaction:
    said = {key: value for key, value in item.items() if key != "file"}
    places = {
        key: {number: tuple(names) for number, names in said[key]} for key in ("blanks", "retold")
    }
    return Redaction(**{**said, **places})


def _place(record: Record) -> TurnPlace:
    return record.branch, record.turn
