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
    if checkpoint is None or place == thread or names_user(_values(checkpoint)):
        return checkpoint and Source(checkpoint, unpacked(_values(checkpoint)))
    begun = _first_begun(saver.list(thread))
    return Source(checkpoint, unpacked(begun or _values(checkpoint)))


async def asource(
    saver: BaseCheckpointSaver[Any], place: RunnableConfig, thread: RunnableConfig
) -> Source | None:
    """Return what `source` does."""
    checkpoint = await saver.aget_tuple(place)
    if checkpoint is None or place == thread or names_user(_values(checkpoint)):
        return checkpoint and Source(checkpoint, unpacked(_values(checkpoint)))
    begun = await _afirst_begun(saver.alist(thread))
    return Source(checkpoint, unpacked(begun or _values(checkpoint)))


def _values(checkpoint: CheckpointTuple) -> Mapping[str, Any]:
    return checkpoint.checkpoint["channel_values"]


def _first_begun(checkpoints: Iterable[CheckpointTuple]) -> Mapping[str, Any] | None:
    """Return the state of a thread's first turn, given its checkpoints, the newest first."""
    found = None
    for values in map(_values, checkpoints):
        found = values if names_user(values) else found
    return found


async def _afirst_begun(
    checkpoints: AsyncIterable[CheckpointTuple],
) -> Mapping[str, Any] | None:
    found = None
    async for checkpoint in checkpoints:
        found = _first_begun([checkpoint]) or found
    return found


def gone_on_from(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the state that tells whose turn a run goes on with; None if its input is its own.

    Call it in a node, with the node's state.
    """
    thread = _thread(state)
    return _first_begun(thread[0].list(thread[1])) or state if thread else _own(state)


async def agone_on_from(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what `gone_on_from` does."""
    thread = _thread(state)
    return await _afirst_begun(thread[0].alist(thread[1])) or state if thread else _own(state)


def _own(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
    config = get_config()
    return state if is_fork(config) or config["configurable"].get(_RESUMING) else None


def _thread(state: Mapping[str, Any]) -> tuple[BaseCheckpointSaver[Any], RunnableConfig] | None:
    """Return the checkpoints of a thread that a run forks from before its first turn, else None."""
    config = get_config()
    chosen = config["configurable"]
    saver, place = chosen.get(CONFIG_KEY_CHECKPOINTER), [*chosen.get("checkpoint_map", {})]
    if not is_fork(config) or names_user(state) or place != [""]:
        return None
    thread: RunnableConfig = {
        "configurable": {"thread_id": chosen["thread_id"], "checkpoint_ns": ""}
    }
    return (saver, thread) if isinstance(saver, BaseCheckpointSaver) else None
