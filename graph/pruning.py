"""Pruning a thread to its newest checkpoint, also in SQLite, where LangGraph cannot."""

import asyncio
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

_STATEMENTS = (
    """
    DELETE FROM checkpoints
    WHERE thread_id = :thread AND (checkpoint_ns, checkpoint_id) != ('', (
        SELECT max(checkpoint_id) FROM checkpoints
        WHERE thread_id = :thread AND checkpoint_ns = ''
    ))
    """,
    """
    DELETE FROM writes
    WHERE thread_id = :thread AND (checkpoint_ns, checkpoint_id) NOT IN (
        SELECT checkpoint_ns, checkpoint_id FROM checkpoints WHERE thread_id = :thread
    )
    """,
    "UPDATE checkpoints SET parent_checkpoint_id = NULL WHERE thread_id = :thread",
)
"""Run in one transaction, so that a thread never is without a checkpoint."""


def prune(saver: Any, name: str) -> None:
    """Delete all checkpoints of a thread but the newest."""
    if isinstance(saver, AsyncSqliteSaver):
        asyncio.run_coroutine_threadsafe(aprune(saver, name), saver.loop).result()
    elif isinstance(saver, SqliteSaver):
        with saver.cursor() as cursor:
            for statement in _STATEMENTS:
                cursor.execute(statement, {"thread": name})
    else:
        saver.prune([name])


async def aprune(saver: Any, name: str) -> None:
    """Do what `prune` does with an asynchronous checkpointer."""
    if not isinstance(saver, AsyncSqliteSaver):
        await saver.aprune([name])
        return
    async with saver.lock:
        for statement in _STATEMENTS:
            await saver.conn.execute(statement, {"thread": name})
        await saver.conn.commit()
