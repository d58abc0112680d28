"""Attention in a run: where it is kept, and what happens when that fails: a warning, no more."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from langgraph.runtime import Runtime

from ...memory.attention.law import Attention
from ...memory.attention.surfacing import Attended
from ...memory.efforts import EffortState
from ...memory.errors import AttentionError
from ...memory.record import Owner
from ...memory.settings import Settings, resolve
from ...memory.view import ArchiveView
from .parts import AgentParts

_log = logging.getLogger("ebbtide.attention")


def attention_of(owner: Owner, parts: AgentParts, settings: Settings) -> Attention | None:
    """Return the attention of an owner, the agent's or the archive's; None for nobody."""
    if owner.anonymous:
        return None
    archived = parts.archive.attention(settings.attention_threshold)
    return parts.attention or archived


def surface(
    state: EffortState,
    view: ArchiveView,
    said: str,
    runtime: Runtime[Settings],
    parts: AgentParts,
) -> EffortState:
    """Return the state of a first turn with what is in its user's attention."""
    try:
        attended = _attended(view, runtime, parts)
        return state if attended is None else attended.surfaced(state, said)
    except AttentionError as error:
        _log.warning("session %r begins without memories: %s", view.owner.thread, error)
        return state


def related(
    view: ArchiveView, said: str, runtime: Runtime[Settings], parts: AgentParts
) -> Sequence[str]:
    """Return the memories that a text is about."""
    try:
        attended = _attended(view, runtime, parts)
        return () if attended is None else attended.related(said)
    except AttentionError as error:
        _log.warning("session %r has no related memories: %s", view.owner.thread, error)
        return ()


def changed(owner: Owner, parts: AgentParts) -> bool:
    """Tell the agent's own attention, a cache, that an owner's memories changed.

    Returns False if it could not be told.
    """
    if parts.attention is None or owner.anonymous:
        return True
    try:
        return parts.attention.changed(owner.user)
    except AttentionError as error:
        _log.warning("attention of %r may be a day old: %s", owner.user, error)
        return False


def _attended(view: ArchiveView, runtime: Runtime[Settings], parts: AgentParts) -> Attended | None:
    settings = resolve(runtime.context, parts.settings)
    attention = attention_of(view.owner, parts, settings)
    return None if attention is None else Attended(attention, view, settings, datetime.now(UTC))
