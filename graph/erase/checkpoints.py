"""The checkpoints of a thread: replace all of them by one state, delete them, and reclaim pages."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from ...memory.archive.database import kept_by_postgresql
from ..commands.threads import Place
from ..spare import Saver, delete, execute, implements, move_back, newest, put, spare_of


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
        delete(saver, [thread])
        place.seed(config, values)
        return reclaim(saver)
    spare, inner = spare_of(thread), _of_other_graphs(place, saver, thread)
    delete(saver, [spare])
    place.seed({**config, "configurable": {**config["configurable"], "thread_id": spare}}, values)
    for one in inner:
        put(saver, one, spare)
    copies = newest(saver, spare)
    delete(saver, [thread])
    if "" in copies:
        move_back(saver, copies, thread)
    else:  # a concurrent erasure has moved them
        place.seed(config, values)
    names = ", ".join(repr(one.config["configurable"]["checkpoint_ns"]) for one in inner)
    left = f"the newest checkpoints of other graphs in the thread: {names}"
    return (*((left,) if inner else ()), *reclaim(saver))


def delete_threads(saver: Saver, threads: Sequence[str]) -> bool:
    """Delete all checkpoints of threads; return whether the checkpointer can.

    Those that an interrupted erasure left in spare threads go with them.
    """
    spare = [*map(spare_of, threads)] if implements(saver, "put") else []
    return delete(saver, [*threads, *spare])


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
        execute(saver, "VACUUM")
        busy = execute(saver, "PRAGMA wal_checkpoint(TRUNCATE)")[0][0]
    except sqlite3.Error as error:
        return (f"free pages of the checkpoints' file: they could not be reclaimed ({error})",)
    return ("the WAL of the checkpoints' file: another connection is reading it",) if busy else ()


def _of_other_graphs(place: Place, saver: Saver, thread: str) -> list[CheckpointTuple]:
    """Return the newest checkpoints of graphs in a thread that keep a state between runs.

    A namespace with the id of a task is of a run that has ended, since the thread is at rest.
    """
    own = (place.path, f"{place.path}|")
    return [
        one
        for namespace, one in newest(saver, thread).items()
        if namespace and ":" not in namespace
        if not place.path or (namespace != own[0] and not namespace.startswith(own[1]))
    ]
