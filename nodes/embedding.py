"""Computing the vectors that a session lacks, once its turn is committed."""

import logging

from ..memory.archive.protocol import Archive
from ..memory.errors import ArchiveError, EmbeddingError
from ..memory.meaning import Embedder
from ..memory.record import Owner

_log = logging.getLogger("ebbtide.embeddings")


def embed(archive: Archive, owner: Owner, embedder: Embedder, limit: int) -> None:
    """Compute up to `limit` missing vectors; a failure is logged, and mended by the next turn."""
    try:
        archive.embed(owner, embedder, limit)
    except (EmbeddingError, ArchiveError, OSError) as error:
        _log.warning("session %r has turns without a vector: %s", owner.thread, error)
