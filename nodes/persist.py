"""Commit the turn and its events to the archive, once."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from langgraph.runtime import Runtime

from ..memory.anchor import shown
from ..memory.archive.memories import accessed
from ..memory.archive.protocol import Archive
from ..memory.archive.records import left_by
from ..memory.compression.due import is_due
from ..memory.context.assemble import fixed_parts
from ..memory.embeddings import Embedder
from ..memory.errors import ArchiveError, EmbeddingError
from ..memory.messages import Message
from ..memory.metrics import cost, without_calls
from ..memory.record import Event, Owner
from ..memory.settings import Settings, resolve
from ..memory.tools.toolbox import NAMES
from .turn.attention import changed
from .turn.parts import Collaborators
from .turn.settling import by_hand, commit, commit_again
from .turn.state import TurnState
from .turn.values import committed, desk_at_rest, group, owner_of, running, tip_of, view_after

_log = logging.getLogger("ebbtide.embeddings")
_context_log = logging.getLogger("ebbtide.context")


def persist(
    state: TurnState, runtime: Runtime[Settings], *, collaborators: Collaborators
) -> dict[str, Any]:
    """Commit the running turn; a failed archive raises after retries and nothing changes.

    With an embedder the turn's vectors are stored with it, then a bounded number that is missing.
    """
    settings = resolve(runtime.context, collaborators.settings)
    messages = running(state)
    owner = owner_of(state, runtime, settings, collaborators.archive)
    # A tool that answers directly and structured output end a turn with a result.
    turn, tip = replace(group(state, messages), status="done"), tip_of(state)
    if "context_report" in state and not by_hand(messages):
        spent = _spent(state["context_report"]["tokens"], turn.messages, collaborators)
        turn = replace(turn, events=(*turn.events, spent))
    with collaborators.archive.together():
        if turn.turn > tip.turn:
            record = commit(collaborators.archive, owner, tip, turn, collaborators.embedder)
        else:
            record = commit_again(collaborators.archive, owner, tip, turn)
        if collaborators.embedder is not None:
            _embed(collaborators.archive, owner, collaborators.embedder, settings.embedded_turns)
        if left_by(record) or accessed(record.events) or record.origin is not None:
            changed(owner, collaborators)
        after = committed(record, str(messages[-1].id))
        return {**after, **_view(cast("TurnState", {**state, **after}), runtime, collaborators)}


def _view(
    state: TurnState, runtime: Runtime[Settings], collaborators: Collaborators
) -> dict[str, Any]:
    """Return what the context shows from now on, or that an effort is to be compressed first.

    The turn is committed by now, so what the archive raises is logged, and nothing changes.
    """
    try:
        desk = desk_at_rest(state, runtime, collaborators)
        if not by_hand(running(state)) and is_due(desk):
            return {"due": True}
        return view_after(desk, running(state))
    except (OSError, ArchiveError) as error:
        _context_log.warning("it stays as it is: %s: %s", type(error).__name__, error)
        return {}


def _spent(
    parts: Mapping[str, int], messages: Sequence[Message], collaborators: Collaborators
) -> Event:
    """Return what the turn cost, beside what the application would send without a memory."""
    count, own = collaborators.count, collaborators.own_schema_tokens
    alone = sum(part.tokens for part in fixed_parts(collaborators.system, own, count))
    return cost(parts, [*without_calls(shown(messages), NAMES)], alone, count)


def _embed(archive: Archive, owner: Owner, embedder: Embedder, limit: int) -> None:
    """Compute up to `limit` missing vectors; a failure is logged, and mended by the next turn."""
    try:
        archive.embed(owner, embedder, limit)
    except (EmbeddingError, ArchiveError, OSError) as error:
        _log.warning("session %r has turns without a vector: %s", owner.thread, error)
