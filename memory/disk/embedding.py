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
from .vectors import begin, fits, known, places, put, waiting

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

    With the first of them the vectors of another model are thrown away. Raises `EmbeddingError` if
    the model fails; nothing is then changed.
    """
    if not session.exists:
        return 0
    probe = embedder.probe()

    def unembedded(opened: Opened) -> tuple[bytes | None, tuple[Record, ...]]:
        found = waiting(opened.connection, probe, limit)
        return known(opened.connection), read(opened, found)

    nothing: tuple[bytes | None, tuple[Record, ...]] = (None, ())
    before, records = session.read(unembedded, nothing)
    texts = [texts_of(record) for record in records]
    vectors = embedder.documents([text for one in texts for text in one.all])
    if not texts:
        return 0

    def keep(opened: Opened) -> int:
        there = read(opened, places(opened.connection, [one.record for one in texts]))
        with transaction(opened.connection):
            if not _ready(opened.connection, probe, before):
                return 0
            return _kept(opened.connection, _embedded(texts, vectors), there)

    return session.write((), keep)


def texts_of(record: Record) -> Texts:
    """Return the texts of a record; of several changes of an effort the last one counts."""
    headings = {item.effort.id: item.effort for item in entries(record)}
    written = {
        name: " ".join((name, effort.summary or effort.goal, *effort.keywords))
        for name, effort in headings.items()
    }
    return Texts(record, "\n".join(sayings(record.messages)), written)


def _ready(connection: sqlite3.Connection, probe: Vector, before: bytes | None) -> bool:
    """Begin anew if the vectors are of another model; False if it is not the one from before."""
    if not fits(connection, probe):
        if known(connection) != before:
            return False
        begin(connection, probe)
    return True


def _embedded(texts: Sequence[Texts], vectors: Vectors) -> Iterator[tuple[Texts, Vectors]]:
    """Yield each record's texts with their vectors."""
    at = 0
    for one in texts:
        yield one, vectors[at : at + len(one.all)]
        at += len(one.all)


def _kept(
    connection: sqlite3.Connection,
    embedded: Iterable[tuple[Texts, Vectors]],
    there: Sequence[Record],
) -> int:
    """Keep the vectors of what is still there as it was read; return of how many records."""
    same = {(record.branch, record.turn): record for record in there}
    kept = 0
    for one, (said, *rest) in embedded:
        if same.get((one.record.branch, one.record.turn)) == one.record:
            headings = dict(zip(one.headings, rest, strict=True))
            kept += put(connection, one.record, said, headings)
    return kept
