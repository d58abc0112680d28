"""Commit the turn and its events to the archive, once."""

import logging
from dataclasses import replace
from typing import Any

from langgraph.runtime import Runtime

from ..memory.archive.memories import accessed
from ..memory.archive.protocol import Archive
from ..memory.archive.records import left_by
from ..memory.errors import ArchiveError, EmbeddingError
from ..memory.meaning import Embedder
from ..memory.metrics import cost
from ..memory.record import Owner
from ..memory.settings import Settings, resolve
from .attending import changed
from .by_hand import by_hand
from .collaborators import Collaborators
from .session import committed, group, owner_of, running, tip_of
from .settling import commit, commit_again
from .state import TurnState

_log = logging.getLogger("ebbtide.embeddings")


def persist(
    state: TurnState, runtime: Runtime[Settings], *, collaborators: Collaborators
) -> dict[str, Any]:
    """Commit the running turn; a failed archive raises after retries and nothing changes.

    With an embedder the turn's vectors are stored with it, then a bounded number that is missing.
    """
    settings = resolve(runtime.context, collaborators.settings)
    messages = running(state)
    owner = owner_of(state, runtime, settings, collaborators.archive)
    turn, tip = group(state, messages), tip_of(state)
    if "context_report" in state and not by_hand(messages):
        spent = cost(state["context_report"]["tokens"], turn.messages, collaborators.count)
        turn = replace(turn, events=(*turn.events, spent))
    if turn.turn > tip.turn:
        record = commit(collaborators.archive, owner, tip, turn, collaborators.embedder)
    else:
        record = commit_again(collaborators.archive, owner, tip, turn)
    if collaborators.embedder is not None:
        _embed(collaborators.archive, owner, collaborators.embedder, settings.embedded_turns)
    if left_by(record) or accessed(record.events) or record.origin is not None:
        changed(owner, collaborators)
    return committed(record, str(messages[-1].id))


def _embed(archive: Archive, owner: Owner, embedder: Embedder, limit: int) -> None:
    """Compute up to `limit` missing vectors; a failure is logged, and mended by the next turn."""
    try:
        archive.embed(owner, embedder, limit)
    except (EmbeddingError, ArchiveError, OSError) as error:
        _log.warning("session %r has turns without a vector: %s", owner.thread, error)
