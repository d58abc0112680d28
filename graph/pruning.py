"""Pruning a thread to its newest checkpoint, where LangGraph cannot, or leaves something."""

import asyncio
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

_SQLITE = (
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

_POSTGRES = (
    "DELETE FROM checkpoints WHERE thread_id = %(thread)s AND checkpoint_ns != ''",
    """
    DELETE FROM checkpoint_writes AS written
    WHERE thread_id = %(thread)s AND NOT EXISTS (
        SELECT FROM checkpoints AS kept
        WHERE (kept.thread_id, kept.checkpoint_ns, kept.checkpoint_id)
            = (written.thread_id, written.checkpoint_ns, written.checkpoint_id)
    )
    """,
    """
    DELETE FROM checkpoint_blobs AS stored
    WHERE thread_id = %(thread)s AND NOT EXISTS (
        SELECT FROM checkpoints AS kept, jsonb_each_text(kept.checkpoint -> 'channel_versions')
        WHERE (kept.thread_id, kept.checkpoint_ns, key, value)
            = (stored.thread_id, stored.checkpoint_ns, stored.channel, stored.version)
    )
    """,
    """
    INSERT INTO checkpoint_writes (thread_id, checkpoint_id, task_id, idx, channel, blob)
    VALUES (%(thread)s, '', '', 0, '', '')
    """,
    "ANALYZE checkpoints, checkpoint_blobs, checkpoint_writes",
    "DELETE FROM checkpoint_writes WHERE thread_id = %(thread)s AND checkpoint_id = ''",
)
"""Run in one transaction, after LangGraph's own pruning or deleting.

Pruning keeps what subgraphs saved, and writes whose checkpoint was never saved. The planner's
samples of all columns, which `pg_stats` shows, are taken anew; of an empty table they would stay.
"""

_OWNED = """
SELECT relname FROM pg_class
WHERE oid = 'checkpoint_writes'::regclass AND pg_has_role(relowner, 'USAGE')
"""
"""Whether the tables are the connection's own: for others' PostgreSQL only warns at `ANALYZE`."""

_MODULE = "langgraph.checkpoint.postgres"
"""Where the checkpointers for PostgreSQL are from, an extra that need not be installed."""


def is_postgres(saver: Any) -> bool:
    """Tell whether a checkpointer is one of LangGraph's for PostgreSQL."""
    return any(kind.__module__.startswith(_MODULE) for kind in type(saver).__mro__)


def prune(saver: Any, name: str) -> None:
    """Delete all checkpoints of a thread but the newest."""
    if isinstance(saver, AsyncSqliteSaver):
        asyncio.run_coroutine_threadsafe(aprune(saver, name), saver.loop).result()
    elif isinstance(saver, SqliteSaver):
        with saver.cursor() as cursor:
            for statement in _SQLITE:
                cursor.execute(statement, {"thread": name})
    else:
        saver.prune([name])


async def aprune(saver: Any, name: str) -> None:
    """Do what `prune` does with an asynchronous checkpointer."""
    if isinstance(saver, AsyncSqliteSaver):
        async with saver.lock:
            for statement in _SQLITE:
                await saver.conn.execute(statement, {"thread": name})
            await saver.conn.commit()
        return
    await saver.aprune([name])


def sweep(saver: Any, name: str) -> list[Any]:
    """Remove from PostgreSQL what pruning or deleting a thread leaves of it.

    Return nothing if the planner's samples could not be taken anew.
    """
    if hasattr(saver, "loop"):
        return asyncio.run_coroutine_threadsafe(asweep(saver, name), saver.loop).result()
    with saver._cursor() as cursor, cursor.connection.transaction():  # noqa: SLF001 (no public one)
        for statement in _POSTGRES:
            cursor.execute(statement, {"thread": name})
        return [*cursor.execute(_OWNED).fetchall()]


async def asweep(saver: Any, name: str) -> list[Any]:
    """Do what `sweep` does with an asynchronous checkpointer."""
    async with saver._cursor() as cursor, cursor.connection.transaction():  # noqa: SLF001 (as above)
        for statement in _POSTGRES:
            await cursor.execute(statement, {"thread": name})
        return [*await (await cursor.execute(_OWNED)).fetchall()]
