"""Replacing the checkpoints of a thread by one, so that nothing older can be read from them.

What is done is a generator of steps, which a synchronous or an asynchronous caller takes.
"""

import asyncio
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Overwrite, StateSnapshot

from ..memory.disk.tracing import holding
from ..memory.messages import clean
from .pruning import aprune, prune
from .steps import Delete, Free, Look, Prune, Seed, Sql, Step, Steps

Agent: TypeAlias = CompiledStateGraph[Any, Any, Any, Any]

LAST_NODE = "persist"
"""The node after which a turn has ended, as which a whole state is written."""

_ASIDE = ":erasing:"
"""Stands in the name of the thread that holds a state while its own thread has none."""


@dataclass(frozen=True, slots=True)
class Found:
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
    saver: BaseCheckpointSaver[Any]
    config: RunnableConfig
    values: dict[str, Any]

    @property
    def name(self) -> str:
        """The id of the thread."""
        return str(self.config["configurable"]["thread_id"])

    def may_replace(self, values: dict[str, Any]) -> bool:
        """Tell whether a state is none, or one of the same session."""
        return not values or values.get("session") == self.values["session"]

    def seeded(self, step: Seed) -> tuple[RunnableConfig, dict[str, Any], str]:
        """Return the arguments of `update_state` for a step."""
        config = _of(self.config, step.thread)
        return config, {**self.values, "messages": Overwrite(self.values["messages"])}, LAST_NODE


def state_of(agent: Agent, config: RunnableConfig) -> Found:
    """Return the newest state of a thread, or the one that an interrupted erasure set aside."""
    if _saver(agent) is None:
        return Found({})
    name = str(config["configurable"]["thread_id"])
    found = agent.get_state(_of(config, name))
    if found.values:
        return Found(found.values, found.next, _id(found))
    aside = agent.get_state(_of(config, _aside(name)))
    ours = aside.values.get("session", {}).get("thread") == clean(name)
    return Found(aside.values if ours else {}, checkpoint=_id(found))


async def astate_of(agent: Agent, config: RunnableConfig) -> Found:
    """Do what `state_of` does with an asynchronous checkpointer."""
    if _saver(agent) is None:
        return Found({})
    name = str(config["configurable"]["thread_id"])
    found = await agent.aget_state(_of(config, name))
    if found.values:
        return Found(found.values, found.next, _id(found))
    aside = await agent.aget_state(_of(config, _aside(name)))
    ours = aside.values.get("session", {}).get("thread") == clean(name)
    return Found(aside.values if ours else {}, checkpoint=_id(found))


def replace_all(
    agent: Agent, config: RunnableConfig, values: dict[str, Any], gone: Sequence[str]
) -> tuple[str, ...]:
    """Leave `values` as the only state of a thread; say what may still hold the text `gone`."""
    saver = _saver(agent)
    if saver is None:
        return ()
    thread = Thread(agent, saver, config, values)
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
    saver = _saver(agent)
    if saver is None:
        return ()
    thread = Thread(agent, saver, config, values)
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
    left = yield from _replacing(thread, *names)
    if sqlite:
        left += yield from _compacting(gone)
        yield Sql(f"PRAGMA secure_delete={before}")
    return left


def _replacing(thread: Thread, prune: str, delete: str) -> Steps:
    name, kind = thread.name, type(thread.saver).__name__
    if isinstance(thread.saver, SqliteSaver | AsyncSqliteSaver) or _has(thread.saver, prune):
        yield Seed(name)
        yield Prune(name)
    elif _has(thread.saver, delete):
        free = yield Free(_aside(name))
        for aside in free:
            yield Seed(aside)
        yield Delete(name)
        yield Seed(name)
        for aside in free:
            yield Delete(aside)
    else:
        yield Seed(name)
        return (f"older checkpoints of thread {name!r}: {kind} can neither prune nor delete them",)
    if isinstance(thread.saver, InMemorySaver | SqliteSaver | AsyncSqliteSaver):
        return ()
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
    match step:
        case Seed():
            config, values, node = thread.seeded(step)
            thread.agent.update_state(config, values, as_node=node)
        case Delete(name):
            thread.saver.delete_thread(name)
        case Free(name):
            there = thread.agent.get_state(_of(thread.config, name))
            return [name] if thread.may_replace(there.values) else []
        case Prune(name):
            prune(thread.saver, name)
        case Sql(statement):
            return _rows(thread.saver, statement)
        case Look(paths, pieces):
            return [*holding(paths, pieces)]
    return []


async def _ataken(thread: Thread, step: Step) -> list[Any]:
    match step:
        case Seed():
            config, values, node = thread.seeded(step)
            await thread.agent.aupdate_state(config, values, as_node=node)
        case Delete(name):
            await thread.saver.adelete_thread(name)
        case Free(name):
            there = await thread.agent.aget_state(_of(thread.config, name))
            return [name] if thread.may_replace(there.values) else []
        case Prune(name):
            await aprune(thread.saver, name)
        case Sql(statement):
            return await _arows(thread.saver, statement)
        case Look(paths, pieces):
            return [*await asyncio.to_thread(holding, paths, pieces)]
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


def _aside(name: str) -> str:
    """Return the thread that holds the state of another; nobody has chosen its name by accident."""
    return f"{name}{_ASIDE}{sha256(clean(f'{name}{_ASIDE}').encode()).hexdigest()}"


def _has(saver: BaseCheckpointSaver[Any], name: str) -> bool:
    """Tell whether a checkpointer has an operation, which LangGraph's own class only names."""
    return getattr(type(saver), name) is not getattr(BaseCheckpointSaver, name)


def _id(found: StateSnapshot) -> str:
    return str(found.config["configurable"].get("checkpoint_id", ""))


def _of(config: RunnableConfig, thread: str) -> RunnableConfig:
    """Return the configuration of the newest state of a thread."""
    chosen = config["configurable"].items()
    kept = {key: value for key, value in chosen if not key.startswith("checkpoint_")}
    return {"configurable": {**kept, "thread_id": thread}}
