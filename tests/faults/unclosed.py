"""Programs as people write them, which close nothing; afterwards the archive's files are closed.

`python -m tests.faults.unclosed ROOT URI` runs them all and prints one JSON line: what each left
open when its variables were gone, files below ROOT and connections to the database at URI. Run it
with `-X dev -W error::ResourceWarning`: what was dropped unclosed then shows on stderr.
"""

import asyncio
import gc
import json
import os
import sqlite3
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, redirect_stdout, suppress
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from threading import Barrier
from time import monotonic, sleep
from typing import Any, TypeAlias

import psycopg
from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from typer.testing import CliRunner

from ebbtide import (
    DiskArchive,
    EbbtideMiddleware,
    MemoryState,
    SqlArchive,
    build_memory_graph,
    commands,
    create_memory_agent,
    delete_user,
    erase,
    restore,
    transcript,
)
from ebbtide.cli.main import app
from ebbtide.memory.archive.copy import copy
from tests.databases import Database
from tests.doubles import ScriptedModel
from tests.pages import README, blocks

THREAD: RunnableConfig = {"configurable": {"thread_id": "t"}}
HELLO: Any = {"messages": [("user", "hello")]}
CONNECTED = """
SELECT query FROM pg_stat_activity WHERE datname = current_database()
AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
PATIENCE = 5.0
"""Seconds in which the server must notice that a connection was closed."""

FILES = Path("/proc/self/fd")
Program: TypeAlias = Callable[[Path], object]


def model() -> ScriptedModel:
    """Return a model that says yes."""
    return ScriptedModel(answers=lambda _: "yes")


def agent_in(folder: Path, **options: Any) -> Any:
    """Return an agent with an archive that nobody else knows."""
    options = {"checkpointer": InMemorySaver(), "archive": DiskArchive(folder), **options}
    return create_memory_agent(model(), **options)


def invoke(folder: Path) -> None:
    """Have two turns."""
    agent = agent_in(folder)
    agent.invoke(HELLO, THREAD)
    agent.invoke(HELLO, THREAD)


def default_archive(folder: Path) -> None:
    """Have a turn with an agent that makes its archive itself."""
    os.chdir(folder)
    create_memory_agent(model()).invoke(HELLO)


def stream(folder: Path) -> None:
    """Leave a stream in the middle, and read another to its end."""
    agent = agent_in(folder)
    next(iter(agent.stream(HELLO, THREAD, stream_mode="updates")))
    list(agent.stream(None, THREAD))


def asynchronous(folder: Path) -> None:
    """Have turns at once in an event loop, one of them as a stream."""

    async def main() -> None:
        path = str(folder / "checkpoints.sqlite")
        async with AsyncSqliteSaver.from_conn_string(path) as saver:
            agent = agent_in(folder, checkpointer=saver)
            await agent.ainvoke(HELLO, THREAD)
            await agent.abatch([HELLO] * 3, [{"configurable": {"thread_id": i}} for i in "abc"])
            _ = [chunk async for chunk in agent.astream(HELLO, THREAD)]

    asyncio.run(main())


def batch(folder: Path) -> None:
    """Have turns in threads of LangChain."""
    agent_in(folder).batch([HELLO] * 8, [{"configurable": {"thread_id": i}} for i in "abcdefgh"])


def threads(folder: Path) -> None:
    """Have turns in threads of the program, all at the same time."""
    agent, together = agent_in(folder), Barrier(8)

    def turn(number: int) -> None:
        together.wait()
        agent.invoke(HELLO, {"configurable": {"thread_id": str(number)}})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(turn, range(8)))


def checkpoints_in_sqlite(folder: Path) -> None:
    """Keep checkpoints in a file, go back and go on."""
    path = folder / "checkpoints.sqlite"
    with closing(sqlite3.connect(path, check_same_thread=False)) as opened:
        agent = agent_in(folder, checkpointer=SqliteSaver(opened))
        agent.invoke(HELLO, THREAD)
        first = agent.get_state(THREAD).config
        agent.invoke(HELLO, THREAD)
        agent.invoke(HELLO, first)


def middleware(folder: Path) -> None:
    """Have a turn with LangChain's agent."""
    layers = [EbbtideMiddleware(archive=DiskArchive(folder))]
    create_agent(model(), middleware=layers, checkpointer=InMemorySaver()).invoke(HELLO, THREAD)


def inside_a_graph(folder: Path) -> None:
    """Have a turn with an agent in a larger graph."""

    class State(MemoryState, total=False):
        requests: int

    graph = StateGraph(State, input_schema=MessagesState)
    graph.add_node("agent", build_memory_graph(model(), archive=DiskArchive(folder)).compile())
    graph.add_edge(START, "agent").compile(checkpointer=InMemorySaver()).invoke(HELLO, THREAD)


def by_commands(folder: Path) -> None:
    """Look at a thread, restore it, erase a turn, delete the user."""
    agent = agent_in(folder)
    agent.invoke(HELLO, THREAD)
    agent.invoke(HELLO, THREAD)
    commands.search(agent, THREAD, "hello")
    commands.show_context(agent, THREAD, "hello")
    transcript(agent, THREAD)
    restore(agent, THREAD)
    erase(agent, THREAD, 1)
    delete_user(agent, "default")


def failing_model(folder: Path) -> None:
    """Have a turn that fails, and keep nothing but the error."""
    failing = ScriptedModel(answers=[RuntimeError("down")])
    with suppress(RuntimeError):
        create_memory_agent(failing, archive=DiskArchive(folder)).invoke(HELLO)


def failing_archive(folder: Path) -> None:
    """Open a file that is no database."""
    (folder / "ebbtide.sqlite").write_bytes(b"nonsense" * 1_000)
    with suppress(Exception):
        DiskArchive(folder).users()


def transferred(folder: Path) -> None:
    """Copy an archive to another one."""
    invoke(folder / "a")
    copy(DiskArchive(folder / "a"), DiskArchive(folder / "b"), lambda _: None)


def attention_alone(folder: Path) -> None:
    """Keep an archive's attention, and not the archive."""
    invoke(folder)
    attention = DiskArchive(folder).attention()
    attention.attended("ann", now=datetime.now(UTC))


def forked(folder: Path) -> None:
    """Have turns in a forked process, which ends as programs do."""
    agent = agent_in(folder)
    agent.invoke(HELLO, THREAD)
    child = os.fork()
    if not child:
        agent.invoke(HELLO, {"configurable": {"thread_id": "child"}})
        sys.exit(0)
    agent.invoke(HELLO, THREAD)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def of_the_readme(folder: Path) -> None:
    """Run the program of the README, which is one that people copy."""
    os.chdir(folder)
    block = next(block for block in blocks() if block.page == README)
    with redirect_stdout(StringIO()) as said:
        exec(block.program, {"__name__": "__main__"})  # noqa: S102 (the program of a page)
    assert said.getvalue() == block.said


def chat(folder: Path) -> None:
    """Run the command, which opens an archive, checkpoints and an event loop."""
    said = CliRunner().invoke(app, ["chat", "--root", str(folder)], input="hello\n/efforts\n")
    assert "no efforts yet" in said.output


def in_postgres(uri: str) -> list[str]:
    """Have turns in threads, on PostgreSQL; return the queries of connections left."""
    agent = create_memory_agent(model(), archive=SqlArchive(Database(uri).url))
    agent.batch([HELLO] * 3)
    del agent
    gc.collect()
    deadline = monotonic() + PATIENCE
    with psycopg.connect(uri, autocommit=True) as connection:
        while left := [query for (query,) in connection.execute(CONNECTED)]:
            if monotonic() > deadline:
                break
            sleep(0.01)
    return left


PROGRAMS: tuple[Program, ...] = (
    *(invoke, default_archive, stream, asynchronous, batch, threads, checkpoints_in_sqlite),
    *(middleware, inside_a_graph, by_commands, failing_model, failing_archive, transferred),
    *(attention_alone, forked, of_the_readme, chat),
)


def opened(folder: Path) -> list[str]:
    """Return the names of the files below a folder that this process has open."""
    files = [link.readlink() for link in FILES.iterdir() if link.is_symlink()]
    return [file.name for file in files if file.is_relative_to(folder)]


def main(root: Path, uri: str) -> None:
    """Run the programs, and one that is still there when this ends."""
    left = {}
    for program in PROGRAMS:
        folder = root / program.__name__
        folder.mkdir()
        program(folder)
        gc.collect()
        left[program.__name__] = opened(folder)
    left["in_postgres"] = in_postgres(uri)
    sys.stdout.write(json.dumps(left) + "\n")


if __name__ == "__main__":
    kept_to_the_end = agent_in(Path(sys.argv[1], "kept"))
    kept_to_the_end.invoke(HELLO, THREAD)
    main(Path(sys.argv[1]), sys.argv[2])
