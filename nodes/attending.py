"""Attention in a run: where it is kept, and what happens when that fails: a warning, no more."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore

from ..memory.attending import attend, remember, renew_as_of
from ..memory.attention import Attention
from ..memory.errors import AttentionError
from ..memory.record import Owner, Record
from ..memory.settings import Settings, resolve
from ..memory.store_attention import StoreAttention
from ..memory.surfacing import Attended
from ..memory.view import View
from ..memory.workspace import Workspace
from .collaborators import Collaborators
from .state import TurnState

_log = logging.getLogger("ebbtide.attention")

_AT_ONCE = 500
"""Turns that attention is told of in one turn, if it was away for long."""


def attention_of(
    owner: Owner, store: BaseStore | None, collaborators: Collaborators, settings: Settings
) -> Attention | None:
    """Return the attention of an owner, None for one without a name.

    It is the agent's own, else it is kept in the store that the graph runs with, else in one beside
    the archive. Raises `AttentionError` if that cannot be opened.
    """
    if owner.anonymous or collaborators.attention is not None:
        return None if owner.anonymous else collaborators.attention
    if store is None and collaborators.own_store is not None:
        store = collaborators.own_store()
    if store is None:
        return None
    threshold, capacity = settings.attention_threshold, settings.attention_capacity
    return StoreAttention(store, threshold=threshold, capacity=capacity)


def surface(
    space: Workspace,
    view: View,
    said: str,
    runtime: Runtime[Settings],
    collaborators: Collaborators,
) -> Workspace:
    """Return the workspace of a first turn with what is in its user's attention."""
    try:
        here = _attended(view, runtime, collaborators)
        return space if here is None else here.surfaced(space, said)
    except AttentionError as error:
        _log.warning("session %r begins without memories: %s", view.owner.thread, error)
        return space


def related(
    view: View, said: str, runtime: Runtime[Settings], collaborators: Collaborators
) -> Sequence[str]:
    """Return the memories that a text is about."""
    try:
        here = _attended(view, runtime, collaborators)
        return () if here is None else here.related(said)
    except AttentionError as error:
        _log.warning("session %r has no related memories: %s", view.owner.thread, error)
        return ()


def remembered(owner: Owner, store: BaseStore | None, collaborators: Collaborators) -> None:
    """Let attention know what a session concluded, where it does not."""
    try:
        attention = attention_of(owner, store, collaborators, collaborators.settings)
        if attention is not None:
            remember(attention, collaborators.archive, owner, datetime.now(UTC))
    except AttentionError as error:
        _log.warning("attention is not told of session %r: %s", owner.thread, error)


def attended(
    state: TurnState,
    owner: Owner,
    record: Record,
    runtime: Runtime[Settings],
    collaborators: Collaborators,
) -> dict[str, Any]:
    """Tell attention of the turns up to a record that it was not told of; return what state says.

    What it cannot be told of now it is told of at the end of the next turn. If a crash comes before
    the checkpoint, an access is counted twice.
    """
    settings = resolve(runtime.context, collaborators.settings)
    told = min(state.get("attended", 0), record.turn - 1)
    try:
        attention = attention_of(owner, runtime.store, collaborators, settings)
        if attention is None:
            return {}
        turns = range(told + 1, record.turn + 1)[:_AT_ONCE]
        for one in collaborators.archive.turns(owner, record.tip, turns):
            if one.origin is not None:  # attention was told of a branch that was left
                renew_as_of(attention, collaborators.archive, owner, one.tip, datetime.now(UTC))
            attend(attention, owner, one, datetime.now(UTC))
            told = one.turn
        told = turns[-1]
    except AttentionError as error:
        _log.warning("attention is told later of session %r: %s", owner.thread, error)
    return {"attended": told}


def _attended(
    view: View, runtime: Runtime[Settings], collaborators: Collaborators
) -> Attended | None:
    settings = resolve(runtime.context, collaborators.settings)
    attention = attention_of(view.owner, runtime.store, collaborators, settings)
    return None if attention is None else Attended(attention, view, settings, datetime.now(UTC))
