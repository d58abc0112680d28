"""A thread with its agent, its checkpoints and its event loop, open for a while."""

import asyncio
import pkgutil
import sqlite3
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack, aclosing, contextmanager
from copy import copy
from dataclasses import dataclass
from inspect import iscoroutine, iscoroutinefunction
from pathlib import Path
from typing import Any, TypeVar, cast

from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

from ..graph.agent import create_memory_agent
from ..graph.all_commands import arestore
from ..graph.commands.threads import place_of
from ..memory.errors import ArchiveError, SettingsError
from ..memory.turn import Session
from .home import CHECKPOINTS, HISTORY, Home, as_settings_error, name_given

Result = TypeVar("Result")


@dataclass(slots=True)
class Conversation:
    """One thread of one user; `history` is the file of his input, `budget` is in tokens."""

    _runner: asyncio.Runner
    _agent: CompiledStateGraph[Any, Any, Any, Any]
    session: Session
    history: Path
    budget: int
    restored: bool = False

    @property
    def _config(self) -> RunnableConfig:
        return {"configurable": {"thread_id": self.session.thread, "user_id": self.session.user}}

    @property
    def turn(self) -> int:
        """The number of the last turn that began, 0 for none."""
        return int(self._state().values.get("memory", {}).get("turn", 0))

    @property
    def older_messages(self) -> int:
        """How many messages of an agent without the memory wait to be adopted."""
        if self.turn or self.unfinished() is not None:
            return 0
        return len(self._state().values.get("messages", ()))

    def effort_names(self) -> dict[str, bool]:
        """Return the efforts that are open or not evicted: names, and whether they are open."""
        memory = self._state().values.get("memory", {})
        opened = memory.get("open_efforts", ())
        return {name: name in opened for name in sorted({*opened, *memory.get("summaries", ())})}

    def unfinished(self) -> str | None:
        """Return the user's message of an unfinished turn, None if the last turn is finished."""
        state = self._state()
        if not state.tasks:  # `next` leaves out a step whose writes are there, but no checkpoint
            return None
        requests = [m for m in state.values.get("messages", []) if isinstance(m, HumanMessage)]
        return requests[-1].text if requests else ""

    def run(self, message: str | None, show: Callable[[str, Any], None]) -> None:
        """Run a turn on a message, or resume the unfinished one; pass its events to `show`.

        The last event is the `usage` of all its calls, by model, as the providers reported it.
        """
        usage = UsageMetadataCallbackHandler()

        async def turn() -> None:
            stream = self._agent.astream(
                None if message is None else {"messages": [HumanMessage(message)]},
                {**self._config, "callbacks": [usage]},
                stream_mode=["messages", "custom", "values"],
                durability="sync",
            )
            async with aclosing(cast("AsyncGenerator[Any, None]", stream)) as events:
                async for mode, event in events:
                    show(mode, event)

        self._runner.run(turn())
        show("usage", usage.usage_metadata)

    def command(
        self, function: Callable[..., Coroutine[Any, Any, Result]], *args: object, **options: object
    ) -> Result:
        """Run one of the asynchronous functions of `ebbtide.commands` on this thread."""
        return self._runner.run(function(self._agent, self._config, *args, **options))

    def is_new(self) -> bool:
        """Tell whether the thread has no checkpoints."""
        return self._state().created_at is None

    def _state(self) -> Any:
        return self._runner.run(self._agent.aget_state(self._config))


@contextmanager
def conversation(
    home: Home, thread: str, agent: str = "", **options: Any
) -> Iterator[Conversation]:
    """Open a thread; if its checkpoints are lost, restore it from the archive.

    `agent` is `module:name` of an agent of the application; without it one is made, with further
    `options` of `create_memory_agent`. Raises `SettingsError` if one of them cannot be used.
    """
    session = Session(home.user, name_given(thread, "--thread"))
    model = None if agent else home.chat_model()
    folder = home.chat_folder()
    with asyncio.Runner() as runner, ExitStack() as stack:
        if model is None:
            made, name = _loaded(agent, runner), ""
        else:
            archive = stack.enter_context(home.archive())
            options |= {"archive": archive, "attention": home.redis(archive)}
            made, name = create_memory_agent(model, settings=home.settings, **options), CHECKPOINTS
        parts = place_of(made).parts
        # The threads of an agent of the application belong to its own archive.
        path = folder / (name or f"{parts.archive.id}.sqlite")
        if isinstance(made.checkpointer, BaseCheckpointSaver):
            made.checkpointer = _awaitable(made.checkpointer, agent, runner, stack)
        else:
            made.checkpointer = _checkpointer(path, runner, stack)
        budget = parts.settings.context_budget
        talk = Conversation(runner, made, session, folder / HISTORY, budget)
        talk.restored = talk.is_new() and parts.archive.load(session).tip is not None
        if talk.restored:
            talk.command(arestore)
        yield talk


def _loaded(name: str, runner: asyncio.Runner) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the agent that `module:name` is or makes, of the working directory too."""
    if name.count(":") != 1:
        raise SettingsError(f"--agent takes module:name, such as app:agent, not {name!r}")
    sys.path.insert(0, "")
    with as_settings_error(f"agent {name!r}"):
        try:
            found = _found(name)
        except RuntimeError as error:
            if "no running event loop" not in str(error):
                raise
            found = runner.run(_found_in_loop(name))  # as an AsyncSqliteSaver needs one
        if iscoroutine(found):
            found = runner.run(found)
        made = found.compile() if isinstance(found, StateGraph) else found
    if not isinstance(made, CompiledStateGraph):
        raise SettingsError(f"agent {name!r} is a {type(made).__name__}: name a compiled graph")
    return made


def _found(name: str) -> Any:
    found = pkgutil.resolve_name(name)
    return found() if callable(found) else found


async def _found_in_loop(name: str) -> Any:
    return _found(name)


class _InThreads(BaseCheckpointSaver[Any]):
    """A saver that has synchronous methods alone, awaited while they run in a thread."""

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self, config: RunnableConfig | None, **options: Any
    ) -> AsyncIterator[CheckpointTuple]:
        for found in await asyncio.to_thread(lambda: [*self.list(config, **options)]):
            yield found

    async def aput(self, *arguments: Any) -> RunnableConfig:
        return await asyncio.to_thread(self.put, *arguments)

    async def aput_writes(self, *arguments: Any) -> None:
        await asyncio.to_thread(self.put_writes, *arguments)

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self.delete_thread, thread_id)


def _awaitable(
    saver: BaseCheckpointSaver[Any], agent: str, runner: asyncio.Runner, stack: ExitStack
) -> BaseCheckpointSaver[Any]:
    """Return an agent's own checkpointer as one that can be awaited, closed with the stack.

    Raises `SettingsError` if it cannot be used.
    """
    close = getattr(getattr(saver, "conn", None), "close", None)
    if iscoroutinefunction(close):  # the thread of an open connection would keep the process alive
        stack.callback(lambda: runner.run(close()))
    nowhere: RunnableConfig = {"configurable": {"thread_id": "", "checkpoint_ns": ""}}
    with as_settings_error(f"the checkpointer of agent {agent!r}"):
        try:
            runner.run(saver.aget_tuple(nowhere))
        except NotImplementedError:
            given, saver = saver, copy(saver)
            saver.__class__ = type(type(given).__name__, (_InThreads, type(given)), {})
            runner.run(saver.aget_tuple(nowhere))
    return saver


def _checkpointer(path: Path, runner: asyncio.Runner, stack: ExitStack) -> AsyncSqliteSaver:
    """Open the checkpoints until the stack is closed; raises `ArchiveError` if they are damaged."""
    opened = AsyncSqliteSaver.from_conn_string(str(path))
    saver = runner.run(opened.__aenter__())
    stack.callback(lambda: runner.run(opened.__aexit__(None, None, None)))
    try:
        runner.run(saver.setup())
    except sqlite3.Error as error:
        remedy = "let it be written to, or move it away: threads are then restored from the archive"
        raise ArchiveError(f"{str(path)!r} cannot be used ({error}): {remedy}") from error
    return saver
