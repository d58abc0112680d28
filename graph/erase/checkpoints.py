"""The checkpoints of a thread, replaced by one or deleted, by public operations alone."""

import asyncio
import sqlite3
from collections.abc import Iterable
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.channels import BinaryOperatorAggregate
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Overwrite

from ..commands.threads import Agent

Saver = BaseCheckpointSaver[Any]

_SQLITE = (SqliteSaver, AsyncSqliteSaver)


def last_node(agent: Agent) -> str:
    """Return the last node of a turn, in whose name a whole state is written.

    In an agent of `create_agent` it is that of its first middleware.
    """
    hooks = (name for name in agent.builder.nodes if name.endswith(".after_agent"))
    return next(hooks, "compress")


def seed(agent: Agent, config: RunnableConfig, values: dict[str, Any]) -> RunnableConfig:
    """Write a whole state as the newest of a thread, and return its config."""
    reduced = {
        key for key, one in agent.channels.items() if isinstance(one, BinaryOperatorAggregate)
    }
    written = {key: Overwrite(v) if key in reduced else v for key, v in values.items()}
    return agent.update_state(config, written, as_node=last_node(agent))


def replace_all(
    agent: Agent, saver: Saver, config: RunnableConfig, values: dict[str, Any]
) -> tuple[str, ...]:
    """Make a state the thread's only checkpoint; say what may still hold the text of the others."""
    thread, kind = str(config["configurable"]["thread_id"]), type(saver).__name__
    _overwriting(saver)
    if _has(saver, "delete_thread"):
        # Killed in between, the thread goes on from what the archive was told to keep for it.
        # Pruning leaves the newest checkpoint of each namespace, those of tools' graphs as well.
        saver.delete_thread(thread)
        seed(agent, config, values)
    elif _has(saver, "prune"):
        seed(agent, config, values)
        saver.prune([thread])
    else:
        seed(agent, config, values)
        return (f"older checkpoints of the thread: {kind} can neither prune nor delete them",)
    return reclaimed(saver)


def delete_threads(saver: Saver, threads: Iterable[str]) -> tuple[str, ...]:
    """Delete all checkpoints of threads; say which could not be."""
    if not _has(saver, "delete_thread"):
        kind = type(saver).__name__
        return tuple(f"the checkpoints of {one!r}: {kind} cannot delete them" for one in threads)
    _overwriting(saver)
    for thread in threads:
        saver.delete_thread(thread)
    return ()


def _overwriting(saver: Saver) -> None:
    """Let SQLite overwrite what it deletes."""
    if isinstance(saver, _SQLITE):
        _run(saver, "PRAGMA secure_delete=ON")


def reclaimed(saver: Saver) -> tuple[str, ...]:
    """`VACUUM` a SQLite database, so that deleted rows leave no bytes; say what may remain."""
    if isinstance(saver, InMemorySaver):
        return ()
    if not isinstance(saver, _SQLITE):
        kind = type(saver).__name__
        return (f"what the database of {kind} keeps of deleted rows until `VACUUM ANALYZE`",)
    try:
        _run(saver, "VACUUM")
        busy = _run(saver, "PRAGMA wal_checkpoint(TRUNCATE)")[0][0]
    except sqlite3.Error as error:
        return (f"free pages of the checkpoints' file: they could not be reclaimed ({error})",)
    return ("the WAL of the checkpoints' file: another connection is reading it",) if busy else ()


def _run(saver: Any, statement: str) -> list[Any]:
    if isinstance(saver, AsyncSqliteSaver):
        return asyncio.run_coroutine_threadsafe(_arun(saver, statement), saver.loop).result()
    with saver.lock:
        return [*saver.conn.execute(statement)]


async def _arun(saver: AsyncSqliteSaver, statement: str) -> list[Any]:
    async with saver.lock:
        return [*await saver.conn.execute_fetchall(statement)]


def _has(saver: Saver, name: str) -> bool:
    """Tell whether a checkpointer has an operation that LangGraph's base class only declares."""
    return getattr(type(saver), name) is not getattr(BaseCheckpointSaver, name)
