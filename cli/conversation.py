"""A thread with its agent, its checkpoints and its event loop, open for a while."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import ExitStack, aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph.state import CompiledStateGraph

from ..graph.agent import create_memory_agent
from ..graph.commands.change import arestore
from ..memory.errors import ArchiveError
from ..memory.record import Owner
from .home import CHECKPOINTS, Home, name_given

Result = TypeVar("Result")


@dataclass(slots=True)
class Conversation:
    """One thread of one user; `history` is the file of his input, `budget` is in tokens."""

    _runner: asyncio.Runner
    _agent: CompiledStateGraph[Any, Any, Any, Any]
    owner: Owner
    history: Path
    budget: int
    restored: bool = False

    @property
    def _config(self) -> RunnableConfig:
        return {"configurable": {"thread_id": self.owner.thread, "user_id": self.owner.user}}

    @property
    def turn(self) -> int:
        """The number of the last turn that began, 0 for none."""
        return int(self._state().values.get("memory", {}).get("turn", 0))

    def unfinished(self) -> str | None:
        """Return the user's message of an unfinished turn, None if the last turn is finished."""
        state = self._state()
        if not state.tasks:  # `next` leaves out a step whose writes are there, but no checkpoint
            return None
        requests = [m for m in state.values.get("messages", []) if isinstance(m, HumanMessage)]
        return requests[-1].text if requests else ""

    def run(self, message: str | None, show: Callable[[str, Any], None]) -> None:
        """Run a turn on a message, or resume the unfinished one; pass its events to `show`."""

        async def turn() -> None:
            stream = self._agent.astream(
                None if message is None else {"messages": [HumanMessage(message)]},
                self._config,
                stream_mode=["messages", "custom", "values"],
                durability="sync",
            )
            async with aclosing(cast("AsyncGenerator[Any, None]", stream)) as events:
                async for mode, event in events:
                    show(mode, event)

        self._runner.run(turn())

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
def conversation(home: Home, thread: str, embeddings: str | None = None) -> Iterator[Conversation]:
    """Open a thread; if its checkpoints are lost, restore it from the archive.

    `embeddings` is a name such as `minilm` or `openai:text-embedding-3-small`. Raises
    `SettingsError` if the name, the model or the embeddings cannot be used.
    """
    owner = Owner(home.user, name_given(thread, "--thread"))
    model = home.chat_model()
    folder = home.chat_folder()
    embedder = home.embeddings(embeddings)
    with home.archive() as archive, asyncio.Runner() as runner, ExitStack() as stack:
        saver = _checkpointer(folder / CHECKPOINTS, runner, stack)
        agent = create_memory_agent(
            model,
            checkpointer=saver,
            archive=archive,
            settings=home.settings,
            attention=home.redis(archive),
            embeddings=embedder,
        )
        budget = home.settings.context_budget
        talk = Conversation(runner, agent, owner, folder / "history", budget)
        talk.restored = talk.is_new() and archive.newest(owner) is not None
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
