"""Checking a session from the bytes of its files alone, without the index."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..archive.protocol import Finding
from ..manifest import Entry, Manifest, ManifestError, entries, lacking, parse, unknown
from ..messages import digest
from ..record import Record
from . import erasures
from .ancestry import ancestry_found
from .folder import Folder, logs
from .lines import Line, Reference
from .log import Stored, read

Excused: TypeAlias = Mapping[tuple[str, int, str], str]
"""For records that lost text, by branch, turn and digest, the digest of what is left of it."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A line as it was found: in which file, on which line, whether its digest is right."""

    file: str
    number: int
    stored: Stored
    sound: bool

    @property
    def where(self) -> str:
        """The file and the number of the line in it."""
        return f"{self.file}:{self.number}"


@dataclass(frozen=True, slots=True)
class Kept:
    """A record without its messages, and where it stands."""

    where: str
    file: str
    record: Record


def verify(folder: Folder) -> tuple[Finding, ...]:
    """Return what is wrong with a session, file by file, then record by record."""
    excused = erasures.excused(folder)
    lines = [seen for name in sorted(folder.sizes()) for seen in _seen(folder, name, excused)]
    kept = _first(lines)
    places = {held.where: held.record for held in kept.values()}
    return (
        *_lines_found(lines),
        *_doubled_found(lines, kept),
        *ancestry_found(places),
        *_references_found(lines, kept),
        *erasures.found(folder, [*places.items()]),
        *_manifest_found(folder, kept.values()),
        *_held_found(folder),
    )


def _seen(folder: Folder, name: str, excused: Excused) -> Iterator[Seen]:
    for number, stored in enumerate(read(folder.path / name), start=1):
        sound = _sound(stored.line, excused)
        yield Seen(name, number, replace(stored, line=_light(stored.line)), sound)


def _light(line: Line | None) -> Line | None:
    return replace(line, messages=()) if isinstance(line, Record) else line


def _sound(line: Line | None, excused: Excused) -> bool:
    if not isinstance(line, Record):
        return True
    if line.status == "erased":
        return not line.messages
    try:
        wanted = excused.get((line.branch, line.turn, line.digest)) or line.digest
        return digest(line.messages) in {line.digest, wanted}
    except (LookupError, TypeError, AttributeError):
        return False


def _lines_found(lines: Iterable[Seen]) -> Iterator[Finding]:
    for seen in lines:
        if not seen.stored.ended:
            yield Finding(seen.where, "torn line: it is cut off at the next opening", fatal=False)
        elif seen.stored.line is None:
            yield Finding(seen.where, "damaged line: it is no record")
        elif not seen.sound:
            yield Finding(seen.where, "the digest does not match the messages")


def _first(lines: Iterable[Seen]) -> dict[tuple[str, int], Kept]:
    """Return the first record of each place."""
    kept: dict[tuple[str, int], Kept] = {}
    for seen in lines:
        if isinstance(record := seen.stored.line, Record):
            kept.setdefault((record.branch, record.turn), Kept(seen.where, seen.file, record))
    return kept


def _doubled_found(
    lines: Iterable[Seen], kept: Mapping[tuple[str, int], Kept]
) -> Iterator[Finding]:
    for seen in lines:
        if not isinstance(record := seen.stored.line, Record):
            continue
        first = kept[record.branch, record.turn].where
        if first != seen.where:
            what = f"turn {record.turn} of {record.branch!r} stands in {first} already"
            yield Finding(seen.where, what)


def _references_found(
    lines: Iterable[Seen], kept: Mapping[tuple[str, int], Kept]
) -> Iterator[Finding]:
    present: set[tuple[str, Reference]] = set()
    for seen in lines:
        if isinstance(reference := seen.stored.line, Reference):
            present.add((seen.file, reference))
            held = kept.get((reference.branch, reference.turn))
            if held is None or held.file != reference.file:
                what = f"turn {reference.turn} of {reference.branch!r} is not in {reference.file}"
                yield Finding(seen.where, what)
    for held in kept.values():
        record = held.record
        for name in logs(record.efforts)[1:]:
            if (name, Reference(record.branch, record.turn, held.file)) not in present:
                yield Finding(held.where, f"{name} does not refer to it", fatal=False)


def _manifest_found(folder: Folder, kept: Iterable[Kept]) -> Iterator[Finding]:
    name = folder.manifest.name
    known = [entry for held in kept for entry in entries(held.record)]
    try:
        manifest = parse(folder.manifest.read_bytes())
    except FileNotFoundError:
        manifest = Manifest(())
    except ManifestError as error:
        yield Finding(name, f"cannot be read: {error}", fatal=False)
        return
    if manifest.strange:
        yield Finding(name, f"{manifest.strange} items are no entries", fatal=False)
    for entry in unknown(known, manifest):
        yield Finding(name, f"no record says {_said(entry)}", fatal=False)
    for entry in lacking(known, manifest):
        yield Finding(name, f"lacks {_said(entry)}", fatal=False)


def _said(entry: Entry) -> str:
    effort = entry.effort
    return f"{effort.id!r} {effort.status} in turn {effort.turn} of {entry.branch!r}"


def _held_found(folder: Folder) -> Iterator[Finding]:
    if folder.held.exists():
        what = "the thread was left without a state while a turn was erased: it goes on from here"
        yield Finding(folder.held.name, what, fatal=False)
