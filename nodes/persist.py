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
from ..memory.embeddings import EMBEDDED_TURNS, Embedder
from ..memory.errors import ArchiveError, EmbeddingError
from ..memory.messages import Message
from ..memory.metrics import cost, without_calls
from ..memory.record import Event, Owner
from ..memory.settings import Settings, resolve
from ..memory.tools.toolbox import NAMES
from .turn.attention import changed
from .turn.parts import AgentParts
from .turn.settling import by_hand, commit, commit_again
from .turn.state import TurnState
from .turn.values import committed, group, owner_of, running, tip_of, turn_at_rest, view_after

_log = logging.getLogger("ebbtide.embeddings")
_context_log = logging.getLogger("ebbtide.context")


def persist(state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts) -> dict[str, Any]:
    """Commit the running turn; a failed archive raises after retries and nothing changes.

    With an embedder the turn's vectors are stored with it, then a bounded number that is missing.
    """
    settings = resolve(runtime.context, parts.settings)
    messages = running(state)
    owner = owner_of(state, runtime, settings, parts.archive)
    # A tool that answers directly and structured output end a turn with a result.
    turn, tip = replace(group(state, messages), status="done"), tip_of(state)
    if "context_report" in state and not by_hand(messages):
        spent = _spent(state["context_report"]["tokens"], turn.messages, parts)
        turn = replace(turn, events=(*turn.events, spent))
    with parts.archive.together():
        if turn.turn > tip.turn:
            record = commit(parts.archive, owner, tip, turn, parts.embedder)
        else:
            record = commit_again(parts.archive, owner, tip, turn)
        if parts.embedder is not None:
            _embed(parts.archive, owner, parts.embedder, EMBEDDED_TURNS)
        if left_by(record) or accessed(record.events) or record.origin is not None:
            changed(owner, parts)
        after = committed(record, str(messages[-1].id))
        return {**after, **_view(cast("TurnState", {**state, **after}), runtime, parts)}


def _view(state: TurnState, runtime: Runtime[Settings], parts: AgentParts) -> dict[str, Any]:
    """Return what the context shows from now on, or that an effort is to be compressed first.

    The turn is committed by now, so what the archive raises is logged, and nothing changes.
    """
    try:
        work = turn_at_rest(state, runtime, parts)
        if not by_hand(running(state)) and is_due(work):
            return {"due": True}
        return view_after(work, running(state))
    except (OSError, ArchiveError) as error:
        _context_log.warning("it stays as it is: %s: %s", type(error).__name__, error)
        return {}


def _spent(tokens: Mapping[str, int], messages: Sequence[Message], parts: AgentParts) -> Event:
    """Return what the turn cost, beside what the application would send without a memory."""
    count, own = parts.count, parts.own_schema_tokens
    alone = sum(part.tokens for part in fixed_parts(parts.system, own, count))
    return cost(tokens, [*without_calls(shown(messages), NAMES)], alone, count)


def _embed(archive: Archive, owner: Owner, embedder: Embedder, limit: int) -> None:
    """Compute up to `limit` missing vectors; a failure is logged, and mended by the next turn."""
    try:
        archive.embed(owner, embedder, limit)
    except (EmbeddingError, ArchiveError, OSError) as error:
        _log.warning("session %r has turns without a vector: %s", owner.thread, error)
