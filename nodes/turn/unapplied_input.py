"""Messages that the checkpointer stored as the input of a run, and that no run applied.

LangGraph stores the input of a run in a checkpoint of its own (`source` is "input") before it
applies it. If the process dies in between, a run without input applies it; a run with a new message
drops it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

from langchain_core.messages import BaseMessage, RemoveMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.config import get_config
from langgraph.constants import CONFIG_KEY_CHECKPOINTER, START

from .arrivals import split_messages
from .forks import is_fork
from .langchain_messages import cleaned
from .state import unpacked

_ROLES = frozenset({"user", "human", "assistant", "ai", "system"})

_LIMITS = (2, 64)
"""How many checkpoints are read: mostly the run's input and the end of the last turn suffice."""


def with_ids(given: list[Any]) -> list[BaseMessage] | None:
    """Return the messages of an input, each with an id; None if they are malformed.

    So an input that one run stores and another takes along is the same one to both: LangGraph
    would give each its own id, and it would be said twice.
    """
    try:
        messages = convert_to_messages(given)
    except (ValueError, TypeError, NotImplementedError):
        return None
    return [m if m.id else m.model_copy(update={"id": str(uuid4())}) for m in messages]


def unapplied(checkpoint: CheckpointTuple) -> list[BaseMessage]:
    """Return the messages of the input in a thread's newest checkpoint, none if it is no input."""
    return _said(checkpoint) if _is_input(checkpoint) else []


def with_unapplied(new: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return a run's `new` messages with those that no run applied before, in their order.

    Call it in a node. In a graph inside another one there are none: the input is the parent's.
    """
    source, inputs = _source(), list[_Input]()
    if source is None or not new:
        return [*new]
    for limit in _LIMITS:
        found = source.saver.list(source.thread, before=source.before, limit=limit)
        inputs, is_all = _collected([*found], limit, new)
        if is_all:
            break
    return _merged(inputs, new)


async def awith_unapplied(new: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return what `with_unapplied` does."""
    source, inputs = _source(), list[_Input]()
    if source is None or not new:
        return [*new]
    for limit in _LIMITS:
        found = source.saver.alist(source.thread, before=source.before, limit=limit)
        inputs, is_all = _collected([one async for one in found], limit, new)
        if is_all:
            break
    return _merged(inputs, new)


class _Source(NamedTuple):
    """Where the checkpoints before a run's present one are read."""

    saver: BaseCheckpointSaver[Any]
    thread: RunnableConfig
    before: RunnableConfig


def _source() -> _Source | None:
    """Return where to read; None without checkpoints, in a subgraph, and after a fork.

    Who goes on from a checkpoint that they name wants what was said after it no more.
    """
    config = get_config()
    chosen, thread_id = config["configurable"], config["configurable"].get("thread_id")
    saver, current = chosen.get(CONFIG_KEY_CHECKPOINTER), chosen.get("checkpoint_map", {})
    if not isinstance(saver, BaseCheckpointSaver) or is_fork(config) or [*current] != [""]:
        return None
    root = {"thread_id": thread_id, "checkpoint_ns": ""}
    before = {**root, "checkpoint_id": current[""]}
    return _Source(saver, {"configurable": root}, {"configurable": before})


class _Input(NamedTuple):
    """What was said in a stored input, and whether a run applied it."""

    said: list[BaseMessage]
    is_applied: bool


def _collected(
    checkpoints: Sequence[CheckpointTuple], limit: int, new: Sequence[BaseMessage]
) -> tuple[list[_Input], bool]:
    """Return the inputs since the last turn, the oldest first, and whether they are all.

    The newest checkpoint comes first. The run's own input is known by its messages; it may be
    missing, because LangGraph stores it late.
    """
    inputs: list[_Input] = []
    newer: CheckpointTuple | None = None
    for checkpoint in checkpoints:
        if newer is not None and _parent(newer) != _id(checkpoint):
            return inputs, True  # of another branch
        if _is_input(checkpoint):
            said = _said(checkpoint)
            is_applied = _stands_in(new, said) if newer is None else not _is_input(newer)
            inputs.insert(0, _Input(said, is_applied))
        elif not split_messages(unpacked(checkpoint.checkpoint["channel_values"])).new:
            return inputs, True  # here the last turn ended, or was begun
        newer = checkpoint
    return inputs, len(checkpoints) < limit or (newer is not None and newer.parent_config is None)


def _merged(inputs: Sequence[_Input], new: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the new messages, each input that no run applied in its place among them."""
    merged: list[BaseMessage] = []
    rest = [*new]
    for said, is_applied in inputs:
        merged += rest[: len(said)] if is_applied else said
        rest = rest[len(said) :] if is_applied else rest
    return _once([*merged, *rest])


def _once(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages without those that a client sent again later, under the same id."""
    last = {message.id: at for at, message in enumerate(messages)}
    return [m for at, m in enumerate(messages) if m.id is None or last[m.id] == at]


def _is_input(checkpoint: CheckpointTuple) -> bool:
    return checkpoint.metadata.get("source") == "input"


def _said(checkpoint: CheckpointTuple) -> list[BaseMessage]:
    """Return the messages of a stored input; those of a malformed one, which failed, are none."""
    given = checkpoint.checkpoint["channel_values"].get(START)
    said = given.get("messages") if isinstance(given, Mapping) else getattr(given, "messages", None)
    if said is None:
        return []
    messages = with_ids(said if isinstance(said, list) and not _is_pair(said) else [said])
    return [message for message in messages or () if not isinstance(message, RemoveMessage)]


def _is_pair(said: list[Any]) -> bool:
    """Tell whether a list was a pair of a role and a text; a checkpointer stores pairs as lists."""
    role, *text = said or [None]
    return isinstance(role, str) and role in _ROLES and len(text) == 1 and isinstance(text[0], str)


def _stands_in(new: Sequence[BaseMessage], said: Sequence[BaseMessage]) -> bool:
    """Tell whether the end of what was said, whose beginning may be known, is among the new."""
    texts = [*map(_words, new)]
    wanted = [*map(_words, map(cleaned, said))][-len(new) :]
    return any(texts[at : at + len(wanted)] == wanted for at in range(len(texts)))


def _words(message: BaseMessage) -> tuple[str, str]:
    """Return what a message is known by; some checkpointers store a lone surrogate as "?"."""
    return message.type, str(message.content).replace("\ufffd", "?")


def _id(checkpoint: CheckpointTuple) -> str:
    return str(checkpoint.config["configurable"]["checkpoint_id"])


def _parent(checkpoint: CheckpointTuple) -> str | None:
    parent = checkpoint.parent_config
    return str(parent["configurable"]["checkpoint_id"]) if parent else None
