"""Embedding what has no vector yet: read, embedded without a lock, kept if it is still the same."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..manifest import entries
from ..meaning import Embedder, Vector, Vectors
from ..record import Record
from ..sayings import sayings
from .index import Place
from .schema import transaction
from .session import Opened, Session
from .vectors import begin, fits, places, put, waiting

Read: TypeAlias = Callable[[Opened, Sequence[Place]], tuple[Record, ...]]


@dataclass(frozen=True, slots=True)
class Texts:
    """What of a record is embedded: what was said, and by effort the heading that it left."""

    record: Record
    said: str
    headings: Mapping[str, str]

    @property
    def all(self) -> tuple[str, ...]:
        """The text of the record, then those of its headings."""
        return (self.said, *self.headings.values())


def embed(session: Session, embedder: Embedder, limit: int, read: Read) -> int:
    """Embed up to `limit` records, the newest first; return how many have their vectors now.

    The vectors of another model are thrown away first. Raises `EmbeddingError` if the model fails;
    nothing is then kept.
    """
    if not session.exists:
        return 0
    probe = embedder.probe()

    def unembedded(opened: Opened) -> tuple[Record, ...]:
        return read(opened, waiting(opened.connection, limit))

    if not session.read(lambda opened: fits(opened.connection, probe), True):  # noqa: FBT003
        session.write((), lambda opened: _begun(opened.connection, probe))
    records: tuple[Record, ...] = ()
    texts = [texts_of(record) for record in session.read(unembedded, records)]
    vectors = embedder.documents([text for one in texts for text in one.all])
    if not texts:
        return 0

    def keep(opened: Opened) -> int:
        there = read(opened, places(opened.connection, [one.record for one in texts]))
        return _kept(opened.connection, probe, _embedded(texts, vectors), there)

    return session.write((), keep)


def texts_of(record: Record) -> Texts:
    """Return the texts of a record; of several changes of an effort the last one counts."""
    headings = {item.effort.id: item.effort for item in entries(record)}
    written = {
        name: " ".join((name, effort.summary or effort.goal, *effort.keywords))
        for name, effort in headings.items()
    }
    return Texts(record, "\n".join(sayings(record.messages)), written)


def _begun(connection: sqlite3.Connection, probe: Vector) -> None:
    with transaction(connection):
        begin(connection, probe)


def _embedded(texts: Sequence[Texts], vectors: Vectors) -> Iterator[tuple[Texts, Vectors]]:
    """Yield each record's texts with their vectors."""
    at = 0
    for one in texts:
        yield one, vectors[at : at + len(one.all)]
        at += len(one.all)


def _kept(
    connection: sqlite3.Connection,
    probe: Vector,
    embedded: Iterable[tuple[Texts, Vectors]],
    there: Sequence[Record],
) -> int:
    """Keep the vectors of what is still there as it was read, unless the model is another now."""
    same = {(record.branch, record.turn): record for record in there}
    kept = 0
    with transaction(connection):
        if not fits(connection, probe):
            return 0
        for one, (said, *rest) in embedded:
            if same.get((one.record.branch, one.record.turn)) == one.record:
                headings = dict(zip(one.headings, rest, strict=True))
                kept += put(connection, one.record, said, headings)
    return kept
