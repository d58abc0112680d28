"""The spare thread, which has a thread's checkpoints while an erasure replaces them.

It is written before the thread is deleted. If the process dies then, whoever reads the thread next
and finds it without checkpoints gives it those of the spare thread back.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from ..memory.serialised import fingerprint

Saver: TypeAlias = BaseCheckpointSaver[Any]


def complete(saver: Saver | None, thread: str) -> bool:
    """Give a thread without checkpoints those of its spare thread; tell whether that had any."""
    needed = ("list", "put", "delete_thread")
    if saver is None or not all(implements(saver, name) for name in needed):
        return False
    copies = newest(saver, spare_of(thread))
    if copies:
        move_back(saver, copies, thread)
    return bool(copies)


def implements(saver: BaseCheckpointSaver[Any], name: str) -> bool:
    """Tell whether a checkpointer has a method that LangGraph's base class only declares."""
    return getattr(type(saver), name) is not getattr(BaseCheckpointSaver, name)


def spare_of(thread: str) -> str:
    """Return the thread that has the checkpoints of another one while those are replaced."""
    return f"ebbtide-erasing-{fingerprint(thread, 32)}"


def newest(saver: Saver, thread: str) -> dict[str, CheckpointTuple]:
    """Return a thread's newest checkpoint of each namespace."""
    found: dict[str, CheckpointTuple] = {}
    for one in saver.list({"configurable": {"thread_id": thread}}):
        found.setdefault(one.config["configurable"].get("checkpoint_ns", ""), one)
    return found


def put(saver: Saver, one: CheckpointTuple, thread: str) -> None:
    """Write a checkpoint to a thread, as one that follows no other."""
    namespace = one.config["configurable"].get("checkpoint_ns", "")
    config: RunnableConfig = {"configurable": {"thread_id": thread, "checkpoint_ns": namespace}}
    metadata: Any = {**one.metadata, "parents": {}}
    saver.put(config, one.checkpoint, metadata, one.checkpoint["channel_versions"])


def move_back(saver: Saver, copies: Mapping[str, CheckpointTuple], thread: str) -> None:
    """Write the checkpoints of the spare thread to a thread without any, the root's last."""
    for namespace in sorted(copies, reverse=True):
        put(saver, copies[namespace], thread)
    delete(saver, [spare_of(thread)])


def delete(saver: Saver, threads: Iterable[str]) -> bool:
    """Delete all checkpoints of threads; return whether the checkpointer can."""
    if isinstance(saver, SqliteSaver | AsyncSqliteSaver):
        execute(saver, "PRAGMA secure_delete=ON")  # overwrites deleted rows with zeros
    can_delete = implements(saver, "delete_thread")
    for thread in threads if can_delete else ():
        saver.delete_thread(thread)
    return can_delete


def execute(saver: Any, statement: str) -> list[Any]:
    """Run a statement on the connection of a SQLite checkpointer, and return the rows."""

    async def executed() -> list[Any]:
        async with saver.lock:
            return [*await saver.conn.execute_fetchall(statement)]

    if isinstance(saver, AsyncSqliteSaver):
        return asyncio.run_coroutine_threadsafe(executed(), saver.loop).result()
    with saver.lock:
        return [*saver.conn.execute(statement)]
