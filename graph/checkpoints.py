"""Replacing the checkpoints of a thread by one, so that nothing older can be read from them.

What is done is a generator of steps, which a synchronous or an asynchronous caller takes.
"""

import asyncio
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Overwrite, StateSnapshot

from ..memory.archive.protocol import Archive
from ..memory.disk.tracing import holding
from ..memory.record import Owner
from ..nodes.held_state import hold
from ..nodes.state import repacked, unpacked
from .build import MemoryGraph
from .pruning import aprune, asweep, is_postgres, prune, sweep
from .steps import Delete, Hold, LetGo, Look, Prune, Seed, Sql, Step, Steps, Sweep

Agent: TypeAlias = CompiledStateGraph[Any, Any, Any, Any]

LAST_NODE = "compress"
"""The node after which a turn has ended, as which a whole state is written."""

_ROWS = "deleted rows in PostgreSQL's files, until `VACUUM FULL`, and in its WAL"
_SAMPLES = (
    "samples of deleted rows in PostgreSQL's `pg_stats`: the connection's role does not own the "
    "tables; erase again as their owner"
)


@dataclass(frozen=True, slots=True)
class Newest:
    """A thread's newest state, empty if it has none, and the nodes that would run next.

    `checkpoint` is the id of the thread's own newest checkpoint, empty if it has none.
    """

    values: dict[str, Any]
    following: tuple[str, ...] = ()
    checkpoint: str = ""


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread with its checkpointer, and the state that is to remain of it."""

    agent: Agent
    saver: BaseCheckpointSaver[Any] | None
    config: RunnableConfig
    values: dict[str, Any]
    archive: Archive

    @property
    def name(self) -> str:
        """The id of the thread."""
        return str(self.config["configurable"]["thread_id"])

    @property
    def owner(self) -> Owner:
        """Whose session the thread is."""
        return Owner(**self.values["session"])

    @property
    def seed(self) -> tuple[RunnableConfig, dict[str, Any], str]:
        """The arguments of `update_state` that write the state."""
        values = {**repacked(self.values), "messages": Overwrite(self.values["messages"])}
        return _newest(self.config), values, LAST_NODE


def state_of(agent: Agent, config: RunnableConfig) -> Newest:
    """Return the newest state of a thread."""
    if _saver(agent) is None:
        return Newest({})
    return _found(agent.get_state(_newest(config)))


async def astate_of(agent: Agent, config: RunnableConfig) -> Newest:
    """Do what `state_of` does with an asynchronous checkpointer."""
    if _saver(agent) is None:
        return Newest({})
    return _found(await agent.aget_state(_newest(config)))


def replace_all(
    agent: Agent, config: RunnableConfig, values: dict[str, Any], gone: Sequence[str]
) -> tuple[str, ...]:
    """Leave `values` as the only state of a thread; say what may still hold the text `gone`."""
    thread = _thread(agent, config, values)
    steps = _steps(thread, gone, ("prune", "delete_thread"))
    try:
        step = next(steps)
        while True:
            try:
                rows = _taken(thread, step)
            except sqlite3.Error as error:
                step = steps.throw(error)
            else:
                step = steps.send(rows)
    except StopIteration as end:
        left: tuple[str, ...] = end.value
        return left


async def areplace_all(
    agent: Agent, config: RunnableConfig, values: dict[str, Any], gone: Sequence[str]
) -> tuple[str, ...]:
    """Do what `replace_all` does with an asynchronous checkpointer."""
    thread = _thread(agent, config, values)
    steps = _steps(thread, gone, ("aprune", "adelete_thread"))
    try:
        step = next(steps)
        while True:
            try:
                rows = await _ataken(thread, step)
            except sqlite3.Error as error:
                step = steps.throw(error)
            else:
                step = steps.send(rows)
    except StopIteration as end:
        left: tuple[str, ...] = end.value
        return left


def _steps(thread: Thread, gone: Sequence[str], names: tuple[str, str]) -> Steps:
    sqlite = isinstance(thread.saver, SqliteSaver | AsyncSqliteSaver)
    before = (yield Sql("PRAGMA secure_delete"))[0][0] if sqlite else 0
    if sqlite:
        yield Sql("PRAGMA secure_delete=ON")
    if thread.saver is None:
        yield Hold()
        return ()
    left = yield from _replacing(thread.saver, *names)
    yield LetGo()
    if sqlite:
        left += yield from _compacting(gone)
        yield Sql(f"PRAGMA secure_delete={before}")
    return left


def _replacing(saver: BaseCheckpointSaver[Any], prune: str, delete: str) -> Steps:
    kind = type(saver).__name__
    if isinstance(saver, SqliteSaver | AsyncSqliteSaver) or _has(saver, prune):
        yield Seed()
        yield Prune()
    elif _has(saver, delete):
        yield Hold()
        yield Delete()
        yield Seed()
    else:
        yield Seed()
        return (f"older checkpoints of the thread: {kind} can neither prune nor delete them",)
    if isinstance(saver, InMemorySaver | SqliteSaver | AsyncSqliteSaver):
        return ()
    if is_postgres(saver):
        renewed = yield Sweep()
        return (_ROWS,) if renewed else (_ROWS, _SAMPLES)
    return (f"what the database of {kind} keeps of deleted rows until it reclaims their space",)


def _compacting(gone: Sequence[str]) -> Steps:
    """Write a SQLite database anew, without the pages that deleted rows left."""
    left: tuple[str, ...] = ()
    rows = yield Sql("PRAGMA database_list")
    path = next((str(row[2]) for row in rows if row[1] == "main"), "")
    try:
        yield Sql("VACUUM")
        busy = (yield Sql("PRAGMA wal_checkpoint(TRUNCATE)"))[0][0]
    except sqlite3.Error as error:
        left += (f"free pages of {path!r}: they could not be reclaimed ({error})",)
        busy = 0
    if busy:
        left += (f"the WAL of {path!r}: another connection is reading it",)
    files = tuple(Path(path + end) for end in ("", "-wal", "-journal") if path)
    if (yield Look(files, tuple(gone))):
        left += (f"{path!r} holds text of it: another thread there may say the same",)
    return left


def _taken(thread: Thread, step: Step) -> list[Any]:
    saver: Any = thread.saver
    match step:
        case Seed():
            config, values, node = thread.seed
            thread.agent.update_state(config, values, as_node=node)
        case Delete():
            saver.delete_thread(thread.name)
        case Prune():
            prune(saver, thread.name)
        case Sweep():
            return sweep(saver, thread.name)
        case Sql(statement):
            return _rows(saver, statement)
        case Look() | Hold() | LetGo():
            return _beside(thread, step)
    return []


async def _ataken(thread: Thread, step: Step) -> list[Any]:
    saver: Any = thread.saver
    match step:
        case Seed():
            config, values, node = thread.seed
            await thread.agent.aupdate_state(config, values, as_node=node)
        case Delete():
            await saver.adelete_thread(thread.name)
        case Prune():
            await aprune(saver, thread.name)
        case Sweep():
            return await asweep(saver, thread.name)
        case Sql(statement):
            return await _arows(saver, statement)
        case Look() | Hold() | LetGo():
            return await asyncio.to_thread(_beside, thread, step)
    return []


def _beside(thread: Thread, step: Look | Hold | LetGo) -> list[Any]:
    """Take a step that needs no checkpointer."""
    match step:
        case Look(paths, pieces):
            return [*holding(paths, pieces)]
        case Hold():
            hold(thread.archive, thread.owner, thread.values)
        case LetGo():
            thread.archive.hold(thread.owner, None)
    return []


def _rows(saver: Any, statement: str) -> list[Any]:
    if isinstance(saver, AsyncSqliteSaver):
        return asyncio.run_coroutine_threadsafe(_arows(saver, statement), saver.loop).result()
    with saver.lock:
        return [*saver.conn.execute(statement)]


async def _arows(saver: Any, statement: str) -> list[Any]:
    async with saver.lock:
        return [*await saver.conn.execute_fetchall(statement)]


def _saver(agent: Agent) -> BaseCheckpointSaver[Any] | None:
    return agent.checkpointer if isinstance(agent.checkpointer, BaseCheckpointSaver) else None


def _has(saver: BaseCheckpointSaver[Any], name: str) -> bool:
    """Tell whether a checkpointer has an operation, which LangGraph's own class only names."""
    return getattr(type(saver), name) is not getattr(BaseCheckpointSaver, name)


def _thread(agent: Agent, config: RunnableConfig, values: dict[str, Any]) -> Thread:
    graph = cast("MemoryGraph", agent.builder)
    return Thread(agent, _saver(agent), config, values, graph.collaborators.archive)


def _found(snapshot: StateSnapshot) -> Newest:
    checkpoint = str(snapshot.config["configurable"].get("checkpoint_id", ""))
    return Newest({**unpacked(snapshot.values)}, snapshot.next, checkpoint)


def _newest(config: RunnableConfig) -> RunnableConfig:
    """Return the configuration of the newest state of a thread."""
    chosen = config["configurable"].items()
    return {"configurable": {key: v for key, v in chosen if not key.startswith("checkpoint_")}}
