"""`ebbtide chat --agent`: an agent of the application on a checkpointer of its own."""

from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver

from ebbtide.testing import ScriptedModel
from tests.cli.terminal import terminal
from tests.databases import Database
from tests.processes import ended

APP = """
import os
import sqlite3

import aiosqlite
import psycopg
from langchain.agents import create_agent
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from psycopg.rows import dict_row

from ebbtide import DiskArchive, EbbtideMiddleware
from ebbtide.testing import ScriptedModel

OPTIONS = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}

def on(saver):
    memory = EbbtideMiddleware(archive=DiskArchive("own"))
    return create_agent(ScriptedModel(), checkpointer=saver, middleware=[memory])

def sqlite(file="own.sqlite"):
    return on(SqliteSaver(sqlite3.connect(file, check_same_thread=False)))

def async_sqlite():
    return on(AsyncSqliteSaver(aiosqlite.connect("own.sqlite")))

async def awaited_sqlite():
    return on(AsyncSqliteSaver(await aiosqlite.connect("own.sqlite")))

def postgres():
    made = on(PostgresSaver(psycopg.connect(os.environ["DATABASE"], **OPTIONS)))
    made.checkpointer.setup()
    return made

def postgres_without_tables():
    return on(PostgresSaver(psycopg.connect(os.environ["DATABASE"], **OPTIONS)))

async def async_postgres():
    connection = await psycopg.AsyncConnection.connect(os.environ["DATABASE"], **OPTIONS)
    made = on(AsyncPostgresSaver(connection))
    await made.checkpointer.setup()
    return made
"""

SAVERS = ["sqlite", "async_sqlite", "awaited_sqlite", "postgres", "async_postgres"]


@pytest.mark.thorough
@pytest.mark.parametrize("name", SAVERS)
def test_checkpointer_of_the_application(
    name: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each kind serves turns and commands, and the process ends."""
    monkeypatch.setenv("DATABASE", database.uri)
    Path("app.py").write_text(APP, "utf-8")
    command = ["-m", "ebbtide.cli.main", "chat", "--agent", f"app:{name}"]
    first = ended([*command, "The port is 8123."])

    second = ended(command, typed="Which port is it?\n/undo\n/message remove 1 --yes\n/messages\n")

    assert (first.code, second.code, second.failed) == (0, 0, "")
    assert 'You said: "The port is 8123."' in second.printed
    assert "turn 1 erased" in second.printed
    assert not [*Path("sessions").rglob("*.sqlite")]


def test_checkpointer_that_cannot_be_used(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong with it is one line."""
    monkeypatch.setenv("DATABASE", database.uri)
    Path("app.py").write_text(APP, "utf-8")

    name = "app:postgres_without_tables"
    said = ended(["-m", "ebbtide.cli.main", "chat", "--agent", name, "Hello"])

    assert (said.code, said.failed.count("\n")) == (1, 1)
    assert f"the checkpointer of agent {name!r} cannot be used" in said.failed


def test_thread_that_is_older_than_its_memory() -> None:
    """The chat says so, and commands do, until the next message adopts it."""
    Path("app.py").write_text(APP, "utf-8")
    with SqliteSaver.from_conn_string("own.sqlite") as saver:
        agent: Any = create_agent(ScriptedModel(), checkpointer=saver)
        thread: RunnableConfig = {"configurable": {"thread_id": "default"}}
        agent.invoke({"messages": "The port is 8123."}, thread)

    with terminal(["chat", "--agent", "app:sqlite"], {}) as person:
        person.see("2 messages, adopted when you send the next one")
        person.converse(
            ("/stats", "thread 'default' has 2 messages that Ebbtide has not archived yet")
        )
        person.converse(("Which port is it?", "Adopted 1 earlier turn"))
        person.converse(("/messages", "The port is 8123."))

        assert person.quit() == 0
