"""The checkpoints of a thread: replace all of them by one state, delete them, and reclaim pages.

What replaces them is written to a spare thread before the thread is deleted. If the process dies
then, whoever reads the thread next and finds nothing gives it those of the spare thread back.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from ..memory.archive.database import kept_by_postgresql
from ..memory.serialised import fingerprint

Saver: TypeAlias = BaseCheckpointSaver[Any]


def replace_all(
    saver: Saver, thread: str, path: str, seed: Callable[[str], object]
) -> tuple[str, ...]:
    """Make one state all of a thread's checkpoints; return what may still hold older text.

    `seed` writes it to the thread that it is given; `path` is that of the agent in the graph. The
    newest checkpoints of other graphs in the thread stay.
    """
    if not implements(saver, "delete_thread"):
        seed(thread)
        return (f"older checkpoints of the thread: {type(saver).__name__} cannot delete them",)
    if not implements(saver, "put"):  # a server writes its checkpoints itself
        _delete(saver, [thread])
        seed(thread)
        return reclaim(saver)
    spare, inner = _spare(thread), list[CheckpointTuple]()
    for namespace, one in _newest(saver, thread).items():
        is_own = bool(path) and f"{namespace}|".startswith(f"{path}|")
        # With the id of a task it is of a run that has ended, since the thread is at rest.
        if namespace and ":" not in namespace and not is_own:
            inner.append(one)
    _delete(saver, [spare])
    seed(spare)
    for one in inner:
        _put(saver, one, spare)
    copies = _newest(saver, spare)
    _delete(saver, [thread])
    if "" in copies:
        _move_back(saver, copies, thread)
    else:  # a concurrent erasure has moved them
        seed(thread)
    names = ", ".join(repr(one.config["configurable"]["checkpoint_ns"]) for one in inner)
    left = f"the newest checkpoints of other graphs in the thread: {names}"
    return (*((left,) if inner else ()), *reclaim(saver))


def complete(saver: Saver | None, thread: str) -> bool:
    """Give a thread without checkpoints those of its spare thread; tell whether that had any."""
    needed = ("list", "put", "delete_thread")
    if saver is None or not all(implements(saver, name) for name in needed):
        return False
    copies = _newest(saver, _spare(thread))
    if copies:
        _move_back(saver, copies, thread)
    return bool(copies)


def implements(saver: BaseCheckpointSaver[Any], name: str) -> bool:
    """Tell whether a checkpointer has a method that LangGraph's base class only declares."""
    return getattr(type(saver), name) is not getattr(BaseCheckpointSaver, name)


def delete_threads(saver: Saver, threads: Sequence[str]) -> bool:
    """Delete all checkpoints of threads; return whether the checkpointer can.

    Those that an interrupted erasure left in spare threads go with them.
    """
    spare = [*map(_spare, threads)] if implements(saver, "put") else []
    return _delete(saver, [*threads, *spare])


def reclaim(saver: Saver | None) -> tuple[str, ...]:
    """`VACUUM` a SQLite database, so that deleted rows leave no bytes; return what may remain."""
    if saver is None or isinstance(saver, InMemorySaver):
        return ()
    if not isinstance(saver, SqliteSaver | AsyncSqliteSaver):
        kind = type(saver).__name__
        if "langgraph.checkpoint.postgres.base" not in {c.__module__ for c in type(saver).__mro__}:
            return (f"what the database of {kind.lstrip('_')} keeps of deleted rows",)
        samples = "samples of the checkpoints in PostgreSQL's statistics, until `ANALYZE`"
        return (kept_by_postgresql(f"checkpoints of {kind}"), samples)
    try:
        _execute(saver, "VACUUM")
        busy = _execute(saver, "PRAGMA wal_checkpoint(TRUNCATE)")[0][0]
    except sqlite3.Error as error:
        return (f"free pages of the checkpoints' file: they could not be reclaimed ({error})",)
    return ("the WAL of the checkpoints' file: another connection is reading it",) if busy else ()


def _spare(thread: str) -> str:
    """Return the thread that has the checkpoints of another one while those are replaced."""
    return f"ebbtide-erasing-{fingerprint(thread, 32)}"


def _newest(saver: Saver, thread: str) -> dict[str, CheckpointTuple]:
    """Return a thread's newest checkpoint of each namespace."""
    found: dict[str, CheckpointTuple] = {}
    for one in saver.list({"configurable": {"thread_id": thread}}):
        found.setdefault(one.config["configurable"].get("checkpoint_ns", ""), one)
    return found


def _put(saver: Saver, one: CheckpointTuple, thread: str) -> None:
    """Write a checkpoint to a thread, as one that follows no other."""
    namespace = one.config["configurable"].get("checkpoint_ns", "")
    config: RunnableConfig = {"configurable": {"thread_id": thread, "checkpoint_ns": namespace}}
    metadata: Any = {**one.metadata, "parents": {}}
    saver.put(config, one.checkpoint, metadata, one.checkpoint["channel_versions"])


def _move_back(saver: Saver, copies: Mapping[str, CheckpointTuple], thread: str) -> None:
    """Write the checkpoints of the spare thread to a thread without any, the root's last."""
    for namespace in sorted(copies, reverse=True):
        _put(saver, copies[namespace], thread)
    _delete(saver, [_spare(thread)])


def _delete(saver: Saver, threads: Iterable[str]) -> bool:
    """Delete all checkpoints of threads; return whether the checkpointer can."""
    if isinstance(saver, SqliteSaver | AsyncSqliteSaver):
        _execute(saver, "PRAGMA secure_delete=ON")  # overwrites deleted rows with zeros
    can_delete = implements(saver, "delete_thread")
    for thread in threads if can_delete else ():
        saver.delete_thread(thread)
    return can_delete


def _execute(saver: Any, statement: str) -> list[Any]:
    """Run a statement on the connection of a SQLite checkpointer, and return the rows."""

    async def executed() -> list[Any]:
        async with saver.lock:
            return [*await saver.conn.execute_fetchall(statement)]

    if isinstance(saver, AsyncSqliteSaver):
        return asyncio.run_coroutine_threadsafe(executed(), saver.loop).result()
    with saver.lock:
        return [*saver.conn.execute(statement)]
