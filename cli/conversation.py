"""A thread with its agent, its checkpoints and its event loop, open for a while."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import ExitStack, aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph.state import CompiledStateGraph

from ..graph.agent import create_memory_agent
from ..graph.all_commands import arestore
from ..memory.errors import ArchiveError
from ..memory.turn import Session
from .home import CHECKPOINTS, HISTORY, Home, name_given

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
def conversation(home: Home, thread: str, **options: Any) -> Iterator[Conversation]:
    """Open a thread; if its checkpoints are lost, restore it from the archive.

    The `options` are those of `create_memory_agent`. Raises `SettingsError` if one of them cannot
    be used.
    """
    session = Session(home.user, name_given(thread, "--thread"))
    model, folder = home.chat_model(), home.chat_folder()
    with asyncio.Runner() as runner, ExitStack() as stack:
        archive = stack.enter_context(home.archive())
        options |= {"archive": archive, "attention": home.redis(archive)}
        agent = create_memory_agent(model, settings=home.settings, **options)
        agent.checkpointer = _checkpointer(folder / CHECKPOINTS, runner, stack)
        budget = home.settings.context_budget
        talk = Conversation(runner, agent, session, folder / HISTORY, budget)
        talk.restored = talk.is_new() and archive.load(session).tip is not None
        if talk.restored:
            talk.command(arestore)
        yield talk


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
