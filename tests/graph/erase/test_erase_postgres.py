"""Erasing with checkpoints in a real PostgreSQL: no row holds the text, and the thread goes on."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from ebbtide import ErasureReport, aerase, erase
from tests.agents import THREAD, Talk, talk
from tests.databases import Database
from tests.graph.erase.test_erase import (
    ANSWERED,
    ASKED,
    SCRIPT,
    SECRETS,
    TELLING,
    WORDS,
    look_up,
)

OTHER: RunnableConfig = {"configurable": {"thread_id": "other"}}
LOST: RunnableConfig = {
    "configurable": {
        "thread_id": "t",
        "checkpoint_ns": "",
        "checkpoint_id": "1f000000-0000-6000-8000-000000000000",
    }
}


def agent_on(folder: Path, saver: Any) -> Talk:
    """Return an agent with checkpoints in a database."""
    summaries = [TELLING, {"summary": "Something was kept.", "keywords": []}]
    script = [*SCRIPT, *["And so on."] * 9]
    return talk(folder / "archive", script, summaries, tools=[look_up], checkpointer=saver)


@contextmanager
def begun(folder: Path, database: Database, **options: Any) -> Iterator[Talk]:
    """Have the conversation with checkpoints in a database, and keep it open."""
    with PostgresSaver.from_conn_string(database.uri) as saver:
        saver.setup()  # which cannot run in a pipeline
    with PostgresSaver.from_conn_string(database.uri, **options) as saver:
        chat = agent_on(folder, saver)
        [chat.say(words) for words in WORDS]
        yield chat
        chat.archive.close()


@pytest.mark.thorough
@pytest.mark.parametrize("pipeline", [False, True])
def test_no_row_holds_the_text(tmp_path: Path, database: Database, *, pipeline: bool) -> None:
    """Afterwards the text is in no column of any table, and the thread goes on."""
    with begun(tmp_path, database, pipeline=pipeline) as chat:
        before = database.holding(SECRETS)

        report = erase(chat.agent, THREAD, 2)

        left = database.holding(SECRETS)
        state = chat.say("And now?")
        turns = chat.turns(state)
    assert {line.rpartition(": ")[2] for line in before} == {*SECRETS}
    assert left == []
    assert (report.turn, report.resummarised) == (2, ("keys",))
    assert (state["memory"]["turn"], chat.branches) == (6, 1)
    assert [turn.status for turn in turns] == ["done", "erased", *["done"] * 4]


async def erase_in_thread(*args: Any) -> ErasureReport:
    """Erase from a thread beside the event loop."""
    return await asyncio.to_thread(erase, *args)


@pytest.mark.thorough
@pytest.mark.parametrize("erasing", [aerase, erase_in_thread])
async def test_no_row_holds_the_text_asynchronously(
    tmp_path: Path, database: Database, erasing: Any
) -> None:
    """So it is with the asynchronous checkpointer, from its loop or from a thread."""
    async with AsyncPostgresSaver.from_conn_string(database.uri) as saver:
        await saver.setup()
        chat = agent_on(tmp_path, saver)
        for words in WORDS:
            await chat.agent.ainvoke({"messages": words}, THREAD)
        before = database.holding(SECRETS)

        await erasing(chat.agent, THREAD, 2)

        left = database.holding(SECRETS)
        state = await chat.agent.ainvoke({"messages": "And now?"}, THREAD)
        history = [one async for one in saver.alist(THREAD)]
        chat.archive.close()
    assert (before != [], left) == (True, [])
    assert (state["memory"]["turn"], chat.branches) == (6, 1)
    assert history[-1].parent_config is None


def test_pool_of_connections(tmp_path: Path, database: Database) -> None:
    """A checkpointer may have a pool in place of a connection."""
    options: Any = {"autocommit": True, "row_factory": dict_row}
    connections: Any = ConnectionPool(database.uri, kwargs=options, min_size=1)
    with connections as pool:
        saver = PostgresSaver(pool)
        saver.setup()
        chat = agent_on(tmp_path, saver)
        [chat.say(words) for words in WORDS]

        erase(chat.agent, THREAD, 2)

        assert database.holding(SECRETS) == []
        chat.archive.close()


def test_other_graphs_keep_their_newest_state(tmp_path: Path, database: Database) -> None:
    """A tool's graph keeps it, and is named; writes for a checkpoint that was never saved go."""
    inner: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": "tool"}}
    with begun(tmp_path, database) as chat:
        saver: Any = chat.agent.checkpointer
        saver.put_writes(LOST, [("messages", [ASKED])], "task")
        saver.put(inner, empty_checkpoint() | {"channel_values": {"a": [ASKED]}}, {}, {"a": "1"})
        newer = {"channel_values": {"a": ["tidy"]}, "channel_versions": {"a": "2"}}
        saver.put(inner, empty_checkpoint() | newer, {}, {"a": "2"})

        report = erase(chat.agent, THREAD, 2)

        (kept,) = saver.list(inner)
        assert database.holding(SECRETS) == []
    assert kept.checkpoint["channel_values"] == {"a": ["tidy"]}
    assert any("other graphs in the thread: 'tool'" in left for left in report.not_erased)


def test_what_a_database_keeps_is_said(tmp_path: Path, database: Database) -> None:
    """No row holds the text; samples of it are said to stay until `ANALYZE`, and are gone then."""
    with begun(tmp_path, database) as chat:
        database.run("ANALYZE")
        before = database.holding([ANSWERED])

        report = erase(chat.agent, THREAD, 2)

        left = database.holding(SECRETS)
        state = chat.say("And now?")
    database.run("ANALYZE")
    assert f"samples of checkpoint_writes.blob: {ANSWERED}" in before
    assert [line for line in left if not line.startswith("samples of")] == []
    assert report.not_erased[-1].endswith("statistics, until `ANALYZE`")
    assert "the checkpoints of PostgresSaver: PostgreSQL keeps" in report.not_erased[-2]
    assert database.holding(SECRETS) == []
    assert (state["memory"]["turn"], chat.branches) == (6, 1)


def test_other_threads_stay(tmp_path: Path, database: Database) -> None:
    """Another thread keeps its checkpoints, and all that was written for them."""
    with begun(tmp_path, database) as chat:
        state = chat.say("Another matter.", OTHER)
        before = [*chat.agent.checkpointer.list(OTHER)]  # type: ignore[union-attr]  # there is one

        erase(chat.agent, THREAD, 2)

        after = [*chat.agent.checkpointer.list(OTHER)]  # type: ignore[union-attr]  # there is one
    assert after == before
    assert state["memory"]["turn"] == 1
