"""The checkpoints of a thread: replace all of them by one state, delete them, and reclaim pages."""

import asyncio
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from ...memory.archive.database import kept_by_postgresql
from ...memory.serialised import fingerprint
from ..commands.threads import Place, implements

Saver: TypeAlias = BaseCheckpointSaver[Any]


def replace_all(
    place: Place, saver: Saver, config: RunnableConfig, values: dict[str, Any]
) -> tuple[str, ...]:
    """Make a state the thread's only checkpoint; return what may still hold older text.

    The newest checkpoints of other graphs in the thread stay. All is written to a spare thread
    first, so that after a crash the application's own keys are not lost.
    """
    thread, kind = str(config["configurable"]["thread_id"]), type(saver).__name__
    if not implements(saver, "delete_thread"):
        place.seed(config, values)
        return (f"older checkpoints of the thread: {kind} cannot delete them",)
    if not implements(saver, "put"):  # a server writes its checkpoints itself
        _delete(saver, [thread])
        place.seed(config, values)
        return reclaim(saver)
    spare, inner = _spare(thread), _of_other_graphs(place, saver, thread)
    _delete(saver, [spare])
    place.seed({**config, "configurable": {**config["configurable"], "thread_id": spare}}, values)
    for one in inner:
        _put(saver, one, spare)
    copies = _newest(saver, spare)
    _delete(saver, [thread])
    if "" in copies:
        _move_back(saver, copies, thread)
    else:  # a concurrent erasure has moved them
        place.seed(config, values)
    names = ", ".join(repr(one.config["configurable"]["checkpoint_ns"]) for one in inner)
    left = f"the newest checkpoints of other graphs in the thread: {names}"
    return (*((left,) if inner else ()), *reclaim(saver))


def complete(saver: Saver | None, thread: str) -> None:
    """Give a thread its checkpoints back, if an erasure ended after it had deleted them."""
    root: RunnableConfig = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    if saver and saver.get_tuple(root) is None and (copies := _newest(saver, _spare(thread))):
        _move_back(saver, copies, thread)


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
    newest: dict[str, CheckpointTuple] = {}
    for one in saver.list({"configurable": {"thread_id": thread}}):
        newest.setdefault(one.config["configurable"].get("checkpoint_ns", ""), one)
    return newest


def _of_other_graphs(place: Place, saver: Saver, thread: str) -> list[CheckpointTuple]:
    """Return the newest checkpoints of graphs in a thread that keep a state between runs.

    A namespace with the id of a task is of a run that has ended, since the thread is at rest.
    """
    own = (place.path, f"{place.path}|")
    return [
        one
        for namespace, one in _newest(saver, thread).items()
        if namespace and ":" not in namespace
        if not place.path or (namespace != own[0] and not namespace.startswith(own[1]))
    ]


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
    if isinstance(saver, SqliteSaver | AsyncSqliteSaver):
        _execute(saver, "PRAGMA secure_delete=ON")  # overwrites deleted rows with zeros
    can_delete = implements(saver, "delete_thread")
    for thread in threads if can_delete else ():
        saver.delete_thread(thread)
    return can_delete


def _execute(saver: Any, statement: str) -> list[Any]:
    """Run a statement on the connection of a SQLite checkpointer, and return the rows."""

    async def execute() -> list[Any]:
        async with saver.lock:
            return [*await saver.conn.execute_fetchall(statement)]

    if isinstance(saver, AsyncSqliteSaver):
        return asyncio.run_coroutine_threadsafe(execute(), saver.loop).result()
    with saver.lock:
        return [*saver.conn.execute(statement)]
