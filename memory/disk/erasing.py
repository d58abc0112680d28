"""Erasing a turn from a session: what it touches is found out, then done under the lock."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from ..anchor import written
from ..clock import stamp
from ..efforts import Effort
from ..erasing import (
    Erased,
    Redaction,
    Target,
    TurnPlace,
    changed,
    redaction,
    retelling,
    wording,
)
from ..errors import TurnNotFoundError
from ..manifest import fields
from ..record import Record, Tip
from ..wording import Sought, held, leaves
from .erasures import Filed, Noted, Plan, begin, done, mend, rewrite
from .folder import Folder
from .forgetting import Made, made_from
from .index import Index, Place
from .log import read
from .projection import read_manifest
from .reading import records
from .records_cache import RecordsCache
from .schema import delete
from .session import Opened, Session
from .tracing import holding

Told: TypeAlias = tuple[str, str]
"""An effort and what a summary says of it."""


@dataclass(frozen=True, slots=True)
class Quotes:
    """Which other turns say some of what is erased, and what of it they say."""

    places: tuple[TurnPlace, ...]
    said: frozenset[str]


def erase(session: Session, tip: Tip, turn: int) -> Erased:
    """Erase a turn that `tip` sees; see `Archive.erase`."""
    erased = session.write(_logs(session), lambda one: _begun(session.folder, one, tip, turn))
    session.write((), lambda _: None)  # what was written down is finished when opening
    files = (path for path in session.folder.files() if path != session.folder.held)
    left = holding(files, erased.gone)
    names = (path.relative_to(session.folder.path).as_posix() for path in left)
    return replace(erased, left=tuple(names))


def resummarised(session: Session, tip: Tip, effort: Effort) -> None:
    """Store a summary that was written again; see `Archive.resummarised`.

    The manifest says it first: cut off there, it counts as edited by hand.
    """

    def write(opened: Opened) -> None:
        for place in opened.index.places(tip, [effort.turn]):
            for record in _read(session.folder, opened, [place]):
                _replace(session, place.file, record, _with_summary(record, effort))

    session.write(_logs(session), write)
    session.write((), lambda _: None)


def _replace(session: Session, name: str, record: Record, after: Record) -> None:
    if after == record:
        return
    folder = session.folder
    session.close()
    delete(folder.index)
    mend(folder, [after], [(after.branch, after.turn)])
    path = folder.path / name
    rewrite(path, lambda one: after if one == record else one, durable=folder.durable)


def _logs(session: Session) -> tuple[str, ...]:
    return tuple(session.folder.sizes())


def _begun(folder: Folder, opened: Opened, tip: Tip, turn: int) -> Erased:
    """Find out what erasing a turn touches, and write it down."""
    record = _visible(folder, opened, tip, turn)
    known = [(one.branch, one.turn) for one in done(folder) if _is(one, record)]
    if record.status == "erased":
        return Erased(turn, record.digest, tuple(known))
    target = _target(folder, opened, record)
    filed, redacted = _redactions(folder, target)
    summaries = sorted({text for _, text in redacted})
    quotes = _quotes(folder, filed, target.sought)
    edited = _edited(folder, filed, (*target.sought, *summaries))
    aside = folder.manifest.with_name(f"{folder.manifest.name}.damaged")
    dropped = tuple(path.name for path in holding([aside], (*summaries, *target.sought)))
    made = made_from(folder, turn, lambda place: _made_from(opened, record, place))
    begin(folder, Plan(turn, stamp(), (*filed, *edited), dropped, made))
    return Erased(
        turn=turn,
        digest=record.digest,
        places=tuple(one.redaction.place for one in filed if one.redaction.buried),
        quoted=quotes.places,
        stale=tuple(sorted({effort for effort, _ in redacted})),
        named=_named(record),
        sought=target.sought,
        gone=tuple(piece for piece in target.sought if piece not in quotes.said),
        summaries=tuple(summaries),
        wrote=target.wrote,
    )


def _visible(folder: Folder, opened: Opened, tip: Tip, turn: int) -> Record:
    found = _read(folder, opened, opened.index.places(tip, [turn]))
    if not found:
        raise TurnNotFoundError(turn, tip.turn)
    return found[0]


def _read(folder: Folder, opened: Opened, places: Sequence[Place]) -> tuple[Record, ...]:
    """Return the records of places, none of them from a cache and none another than was indexed."""
    return records(folder, places, RecordsCache(0), opened.generation)


def _target(folder: Folder, opened: Opened, record: Record) -> Target:
    index, before = opened.index, Tip(record.branch, record.turn - 1)

    def sees(other: Record) -> bool:
        return other.turn > record.turn and _in_past(index, record, other.tip)

    past = {part.branch: part.upto for part in index.lineage(before)}
    wrote = written([record]) - written(
        one for _, one in _records(folder) if one.turn <= past.get(one.branch, 0)
    )
    pieces = wording(record, wrote)
    return Target(record, lambda name: index.effort(before, name), sees, pieces, wrote)


def _in_past(index: Index, record: Record, tip: Tip) -> bool:
    """Tell whether a tip sees the turn, or a copy of it."""
    return any(
        (slot := index.slot(part.branch, record.turn)) is not None
        and slot.digest == record.digest
        and part.upto >= record.turn
        for part in index.lineage(tip)
    )


def _made_from(opened: Opened, record: Record, place: Made) -> bool:
    effort, branch, turn = place
    return effort in record.efforts and _in_past(opened.index, record, Tip(branch, turn))


def _records(folder: Folder) -> Iterator[tuple[str, Record]]:
    for name in sorted(folder.sizes()):
        for stored in read(folder.path / name):
            if isinstance(stored.line, Record):
                yield name, stored.line


def _redactions(folder: Folder, target: Target) -> tuple[list[Filed], frozenset[Told]]:
    """Return what changes, and the summaries that are redacted.

    A turn that retells one of these is a part of another log perhaps: its summary goes as well.
    """
    while True:
        filed = [
            Filed(name, changes)
            for name, one in _records(folder)
            if (changes := redaction(one, target)) is not None
        ]
        redacted = frozenset(_redacted(folder, filed))
        copies = partial(_goes, redacted=redacted, pieces=target.sought)
        filed = [*_with_copies(folder, filed, copies)]
        logs = _retelling_logs(folder, filed)
        if logs == target.retelling:
            return filed, redacted
        target = replace(target, retelling=logs)


def _retelling_logs(folder: Folder, filed: Iterable[Filed]) -> dict[str, int]:
    """Return from which turn on the logs of efforts retell a redacted summary."""
    places = {one.redaction.place for one in filed if one.redaction.retold}
    found: dict[str, int] = {}
    for _, record in _records(folder):
        if (record.branch, record.turn) in places:
            for name in record.efforts:
                found[name] = min(record.turn, found.get(name, record.turn))
    return found


def _redacted(folder: Folder, filed: Iterable[Filed]) -> Iterator[Told]:
    """Yield the summaries that are redacted: results of tools in other turns may retell them."""
    redactions = {one.redaction.place: one.redaction for one in filed}
    for _, record in _records(folder):
        found = redactions.get((record.branch, record.turn))
        for number, names in found.blanks.items() if found else ():
            event = record.events[number]
            if "summary" in names:
                yield event["effort"], event["summary"]


def _goes(effort: str, text: str, *, redacted: Collection[Told], pieces: Sought) -> bool:
    return (effort, text) in redacted or bool(held(text, pieces))


def _with_copies(
    folder: Folder, filed: Iterable[Filed], copies: Callable[[str, str], bool]
) -> Iterator[Filed]:
    """Yield the redactions with what tools in all other turns retell of redacted summaries."""
    redactions = {one.redaction.place: one.redaction for one in filed}
    for name, record in _records(folder):
        found = redactions.get((record.branch, record.turn))
        if found is None or not found.buried:
            found = retelling(record, found, copies)
        if found is not None:
            yield Filed(name, found)


def _quotes(folder: Folder, filed: Iterable[Filed], pieces: Sought) -> Quotes:
    """Return which turns still say some of the pieces when all is done."""
    redactions = {one.redaction.place: one.redaction for one in filed}
    places: list[TurnPlace] = []
    said: frozenset[str] = frozenset()
    for _, record in _records(folder):
        found = redactions.get((record.branch, record.turn))
        kept = record if found is None else changed(record, found)
        texts = leaves([message["data"] for message in kept.messages])
        here = held("\n".join(texts), pieces)
        said |= here
        places += [(record.branch, record.turn)] if here else []
    return Quotes(tuple(sorted(places)), said)


def _edited(folder: Folder, filed: Iterable[Filed], pieces: Sought) -> list[Filed]:
    """Return further turns of which the manifest says, edited by hand, what is to be erased."""
    known = {one.redaction.place for one in filed}
    entries = read_manifest(folder).entries
    texts: dict[TurnPlace, list[str]] = {}
    for entry in entries:
        said = texts.setdefault((entry.branch, entry.effort.turn), [])
        said += leaves(fields(entry), ("id", "status", "branch", "at"))
    places = {place for place, said in texts.items() if held("\n".join(said), pieces)} - known
    return [
        Filed(name, Redaction(record.branch, record.turn, record.digest, {}))
        for name, record in (_records(folder) if places else ())
        if (record.branch, record.turn) in places
    ]


def _named(record: Record) -> tuple[str, ...]:
    """Return the efforts that a turn opened: their names stay."""
    return tuple(event["effort"] for event in record.events if event["type"] == "opened")


def _with_summary(record: Record, effort: Effort) -> Record:
    said = {
        "summary": effort.summary,
        "keywords": [*effort.keywords],
        "importance": effort.importance,
    }
    events = tuple(
        {**{key: event[key] for key in event if key != "stale"}, **said}
        if event.get("stale") and event.get("effort") == effort.id and event["type"] == "concluded"
        else event
        for event in record.events
    )
    return replace(record, events=events)


def _is(noted: Noted, record: Record) -> bool:
    return (noted.turn, noted.digest, noted.content) == (record.turn, record.digest, "")
