"""Archives whose disk fails, for tests."""

from ebbtide import DiskArchive
from ebbtide.memory.compressions import Compression, ExtractionEntry
from ebbtide.memory.search.embeddings import Embedder
from ebbtide.memory.turn import Session, StoredTurn, Tip


class FullDisk(DiskArchive):
    """An archive whose disk is full for the next `failures` commits."""

    failures = 0

    def commit(
        self, session: Session, tip: Tip, turn: StoredTurn, embedder: Embedder | None = None
    ) -> StoredTurn:
        """Fail as a full disk does, or commit."""
        if self.failures:
            self.failures -= 1
            raise OSError(28, "No space left on device")
        return super().commit(session, tip, turn, embedder)


class NoRoomToCompress(DiskArchive):
    """An archive that has room for turns, but not for a compression while it is `full`."""

    full = False

    def commit_compression(
        self, session: Session, entry: ExtractionEntry, made: Compression | None
    ) -> Compression | None:
        """Fail as a full disk does, or store it."""
        if self.full:
            raise OSError(28, "No space left on device")
        return super().commit_compression(session, entry, made)
