"""Whose the checkpoint is that a run goes on from, instead of taking an input of its own.

A run goes on where another was cut short, or from a checkpoint that it names. A checkpoint from
before the thread's first turn names no user: then the thread's first turn tells whose it is.
"""

from collections.abc import AsyncIterable, Iterable, Mapping
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.config import get_config
from langgraph.constants import CONFIG_KEY_CHECKPOINTER

from .state import TurnState, unpacked

_RESUMING = "__pregel_resuming"
"""LangGraph's key in the config of a run that goes on where another was cut short."""


def is_fork(config: RunnableConfig) -> bool:
    """Tell whether a run goes on from a checkpoint that it names, by the config in its nodes."""
    return bool(config.get("metadata", {}).get("checkpoint_id"))


def names_user(state: Mapping[str, Any]) -> bool:
    """Tell whether a state says whose it is, as it does once a turn was begun.

    >>> names_user({"bookkeeping": {"nonce": "ab"}}), names_user({"messages": []})
    (True, False)
    """
    turn_state = unpacked(state)
    return bool(turn_state.get("tip") or turn_state.get("nonce"))


class Source(NamedTuple):
    """The checkpoint that a run goes on from, and the state that tells whose it is."""

    checkpoint: CheckpointTuple
    owned: TurnState


def source(
    saver: BaseCheckpointSaver[Any], place: RunnableConfig, thread: RunnableConfig
) -> Source | None:
    """Return the source of a run, given the configs of its checkpoint and of its whole thread."""
    checkpoint = saver.get_tuple(place)
    if checkpoint is None:
        return None
    if place == thread or names_user(_values(checkpoint)):
        return Source(checkpoint, unpacked(_values(checkpoint)))
    first = _first_turn(saver.list(thread))
    return Source(checkpoint, unpacked(first or _values(checkpoint)))


async def asource(
    saver: BaseCheckpointSaver[Any], place: RunnableConfig, thread: RunnableConfig
) -> Source | None:
    """Return what `source` does."""
    checkpoint = await saver.aget_tuple(place)
    if checkpoint is None:
        return None
    if place == thread or names_user(_values(checkpoint)):
        return Source(checkpoint, unpacked(_values(checkpoint)))
    first = await _afirst_turn(saver.alist(thread))
    return Source(checkpoint, unpacked(first or _values(checkpoint)))


def _values(checkpoint: CheckpointTuple) -> Mapping[str, Any]:
    return checkpoint.checkpoint["channel_values"]


def _first_turn(checkpoints: Iterable[CheckpointTuple]) -> Mapping[str, Any] | None:
    """Return the state of a thread's first turn, given its checkpoints, the newest first."""
    found = None
    for values in map(_values, checkpoints):
        found = values if names_user(values) else found
    return found


async def _afirst_turn(
    checkpoints: AsyncIterable[CheckpointTuple],
) -> Mapping[str, Any] | None:
    found = None
    async for checkpoint in checkpoints:
        found = _first_turn([checkpoint]) or found
    return found


def gone_on_from(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the state that tells whose turn a run goes on with; None if its input is its own.

    Call it in a node, with the node's state.
    """
    if (fork := _fork_before_first_turn(state)) is None:
        return _gone_on_with(state)
    return _first_turn(fork.saver.list(fork.thread)) or state


async def agone_on_from(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what `gone_on_from` does."""
    if (fork := _fork_before_first_turn(state)) is None:
        return _gone_on_with(state)
    return await _afirst_turn(fork.saver.alist(fork.thread)) or state


def _gone_on_with(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the state of a run that forks or resumes, None for one with an input of its own."""
    config = get_config()
    return state if is_fork(config) or config["configurable"].get(_RESUMING) else None


class _Fork(NamedTuple):
    """Where the checkpoints of a thread are found that a run forks from."""

    saver: BaseCheckpointSaver[Any]
    thread: RunnableConfig


def _fork_before_first_turn(state: Mapping[str, Any]) -> _Fork | None:
    """Return the fork of a run from a checkpoint before its thread's first turn, else None.

    An agent inside another graph has no such fork: its checkpoints are not those of the thread.
    """
    config = get_config()
    chosen = config["configurable"]
    saver, namespaces = chosen.get(CONFIG_KEY_CHECKPOINTER), [*chosen.get("checkpoint_map", {})]
    if not is_fork(config) or names_user(state) or namespaces != [""]:
        return None
    thread: RunnableConfig = {
        "configurable": {"thread_id": chosen["thread_id"], "checkpoint_ns": ""}
    }
    return _Fork(saver, thread) if isinstance(saver, BaseCheckpointSaver) else None
