"""Erase a turn of a thread for good: from the archive, the state and the checkpoints."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.store.base import BaseStore

from ..memory.archive.protocol import Archive
from ..memory.attending import renew
from ..memory.erasing import Erased, TurnPlace
from ..memory.errors import (
    AttentionError,
    SessionNotFoundError,
    SettingsError,
    TurnArrivedError,
    TurnRunningError,
)
from ..memory.messages import clean
from ..memory.record import DEFAULT_USER, Owner, Tip
from ..memory.view import past
from ..nodes.attending import attention_of
from ..nodes.collaborators import Collaborators
from ..nodes.erased_state import doubtful, without_turn
from ..nodes.held_state import held
from ..nodes.resummarising import resummarise
from ..nodes.session import tip_of
from ..nodes.state import TurnState
from .build import MemoryGraph
from .checkpoints import Agent, Newest, areplace_all, astate_of, replace_all, state_of


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """What erasing a turn did.

    `erased` are the places, branch and turn, whose text is gone; `quoted` those of other turns
    that say some of the same and were not touched. `resummarised` are efforts whose summary was
    redacted and written again from what remains, `stale` those whose summary is still to be.
    `not_erased` says, in sentences, what could not be erased.
    """

    turn: int
    erased: tuple[TurnPlace, ...]
    quoted: tuple[TurnPlace, ...]
    resummarised: tuple[str, ...]
    stale: tuple[str, ...]
    not_erased: tuple[str, ...]

    @property
    def branches(self) -> tuple[str, ...]:
        """The branches whose record of the turn was erased."""
        return tuple(branch for branch, _ in self.erased)


@dataclass(frozen=True, slots=True)
class _Thread:
    """A thread that is at rest: its session, what it sees, and its state, None if it has none."""

    collaborators: Collaborators
    store: BaseStore | None
    owner: Owner
    tip: Tip
    values: dict[str, Any] | None


def erase(
    agent: Agent, config: RunnableConfig, turn: int, *, branch: str | None = None
) -> ErasureReport:
    """Erase a turn of the thread that `config` names, and say what was done.

    A `user_id` in `config` must be the thread's own; without checkpoints it tells whose thread it
    is. The thread goes on from its newest state; its older checkpoints are removed, so that nobody
    can go back in it. `branch` names another branch of the session to erase from, by default it is
    the thread's own. Interrupted at any point, it is completed by erasing again. No turn of the
    thread may run meanwhile: if one wrote a checkpoint before they are replaced, they stay as they
    are, and `TurnArrivedError` asks to erase again. Raises `TurnNotFoundError`, `TurnRunningError`,
    `SessionNotFoundError`, and `SettingsError` if the graph is not an agent of Ebbtide's that
    stands alone; nothing is then changed.
    """
    found = state_of(agent, config)
    thread = _opened(agent, config, found)
    erased, written, left = _from_archive(thread, turn, branch)
    if thread.values is not None:
        kept, doubts = _rest(thread, erased)
        _unmoved(thread, turn, found, state_of(agent, config))
        left += (*doubts, *replace_all(agent, config, kept, erased.gone))
    return _report(erased, written, left)


async def aerase(
    agent: Agent, config: RunnableConfig, turn: int, *, branch: str | None = None
) -> ErasureReport:
    """Do what `erase` does with an asynchronous checkpointer."""
    found = await astate_of(agent, config)
    thread = await asyncio.to_thread(_opened, agent, config, found)
    erased, written, left = await asyncio.to_thread(_from_archive, thread, turn, branch)
    if thread.values is not None:
        kept, doubts = await asyncio.to_thread(_rest, thread, erased)
        _unmoved(thread, turn, found, await astate_of(agent, config))
        left += (*doubts, *await areplace_all(agent, config, kept, erased.gone))
    return _report(erased, written, left)


def _opened(agent: Agent, config: RunnableConfig, found: Newest) -> _Thread:
    graph = agent.builder
    if not isinstance(graph, MemoryGraph):
        raise SettingsError(
            f"{type(graph).__name__} is no graph of Ebbtide's: pass its agent, which must stand "
            "alone: inside a larger graph nothing can be erased"
        )
    chosen = config.get("configurable", {})
    user, thread = clean(str(chosen.get("user_id") or "")), clean(str(chosen["thread_id"]))
    values = found.values
    if "session" not in values:
        owner = Owner(user or DEFAULT_USER, thread)
        values = {**held(graph.collaborators.archive, owner)}
    if not values:
        return _without_state(graph.collaborators, agent.store, owner)
    owner = Owner(**values["session"])
    if user not in {"", owner.user}:
        raise SessionNotFoundError(owner.thread)
    if found.following:
        raise TurnRunningError(thread, values["turn"])
    tip = tip_of(cast("TurnState", values))
    return _Thread(graph.collaborators, agent.store, owner, tip, values)


def _without_state(collaborators: Collaborators, store: BaseStore | None, owner: Owner) -> _Thread:
    archive = collaborators.archive
    tip = archive.newest(owner)
    if tip is not None:
        return _Thread(collaborators, store, owner, tip, None)
    if any(one.thread == owner.thread for one in archive.sessions(owner.user)):
        raise SettingsError(
            f"thread {owner.thread!r} is one of a larger graph: only for an agent that stands "
            "alone a turn can be erased"
        )
    raise SessionNotFoundError(owner.thread)


def _from_archive(
    thread: _Thread, turn: int, branch: str | None
) -> tuple[Erased, dict[str, bool], tuple[str, ...]]:
    """Erase a turn from the archive and from attention.

    Return which stale efforts were summarised again, and in sentences what could not be erased.
    """
    parts, owner = thread.collaborators, thread.owner
    tip = thread.tip if branch is None else _tip_named(parts.archive, owner, branch)
    erased = parts.archive.erase(owner, tip, turn)
    parts.keywords.clear()
    written = resummarise(parts, owner)
    return erased, written, (*_from_attention(thread),)


def _from_attention(thread: _Thread) -> Iterator[str]:
    """Keep what the archive says now; yield a sentence if attention fails."""
    parts, owner = thread.collaborators, thread.owner
    try:
        attention = attention_of(owner, thread.store, parts, parts.settings)
        if attention is not None:
            renew(attention, parts.archive, owner, datetime.now(UTC))
    except AttentionError as error:
        yield f"keywords in the attention of the user, until it is erased again: {error}"


def _tip_named(archive: Archive, owner: Owner, branch: str) -> Tip:
    tips = {tip.branch: tip for tip in archive.tips(owner)}
    if branch not in tips:
        raise SettingsError(f"no branch {branch!r}: use one of {', '.join(tips)}")
    return tips[branch]


def _unmoved(thread: _Thread, turn: int, before: Newest, now: Newest) -> None:
    """Raise `TurnArrivedError` if the thread has another newest checkpoint than it had."""
    if now.checkpoint != before.checkpoint:
        raise TurnArrivedError(thread.owner.thread, turn)


def _rest(thread: _Thread, erased: Erased) -> tuple[dict[str, Any], Iterator[str]]:
    """Return the state without the turn, and what of it cannot be known, in sentences."""
    view, values = past(thread.collaborators.archive, thread.owner, thread.tip), thread.values or {}
    names = doubtful(values, erased, view)
    doubts = (f"the anchor's {name!r}, which may tell of the turn" for name in names)
    return without_turn(values, erased, view), doubts


def _report(erased: Erased, written: dict[str, bool], left: tuple[str, ...]) -> ErasureReport:
    names = (f"the name of effort {name!r}, which the turn opened" for name in erased.named)
    files = (f"{name} of the session still holds text of it" for name in erased.left)
    return ErasureReport(
        turn=erased.turn,
        erased=erased.places,
        quoted=erased.quoted,
        resummarised=tuple(name for name, done in written.items() if done),
        stale=tuple(name for name, done in written.items() if not done),
        not_erased=(*names, *files, *left),
    )
