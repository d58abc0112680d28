"""Erasing a turn of an effort that was compressed: nothing is left, and the rest is told again."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from sqlalchemy import inspect

from ebbtide import erase
from ebbtide.memory.archive.schema import METADATA
from tests.agents import THREAD, Talk
from tests.graph.erase.test_erase import traces
from tests.graph.long_effort import compressing, entries, quoted, shown, stored, talked
from tests.zipped import revealed

VAULT = "The vault of the shop opens with the blue lever and nothing else."
RULE = "Orders must never be deleted."
TOLD = "They spoke of a vault and of how it opens, which is with the blue lever."


def quoting(messages: list[BaseMessage]) -> dict[str, Any]:
    """Quote the secret and the rule wherever they stand in the log."""
    log = messages[-1].text.split("<log", 1)[1]
    found = [quote for quote in (VAULT, RULE) if quote in log]
    return {"new": [{"quote": quote, "kind": "constraint"} for quote in found]}


def telling(messages: list[BaseMessage]) -> str:
    """Write a background that tells the secret if it is read."""
    return TOLD if VAULT in messages[-1].text else "They worked on the shop."


@pytest.fixture
def chat(tmp_path: Path) -> Iterator[Talk]:
    """Talk on files below a folder until the secret in turn 2 was compressed."""
    connection = sqlite3.connect(tmp_path / "checkpoints.sqlite", check_same_thread=False)
    talk = compressing(
        tmp_path / "archive",
        extraction=quoting,
        background=telling,
        checkpointer=SqliteSaver(connection),
    )
    try:
        states = talked(talk, 10, {2: VAULT, 3: RULE})
        assert quoted(states[-1]).keys() == {"shop"}
        yield talk
    finally:
        connection.close()
        talk.archive.close()


def tables(chat: Talk) -> set[str]:
    """Return the tables of the archive that hold the secret."""
    with chat.archive.database.reading() as connection:
        return {
            table.name
            for table in METADATA.sorted_tables
            if inspect(connection).has_table(table.name)
            if "ebbtide_said" not in table.name and "ebbtide_headed" not in table.name
            if any(VAULT.encode() in said(row) for row in connection.execute(table.select()))
        }


def said(row: Any) -> bytes:
    """Return what stands in a row."""
    return b"\0".join(revealed(one if isinstance(one, bytes) else str(one).encode()) for one in row)


def test_nothing_of_a_compressed_turn_is_left(chat: Talk, tmp_path: Path) -> None:
    """Neither quote nor background stands in a file or in the checkpoints, WAL included."""
    before = tables(chat)

    report = erase(chat.agent, THREAD, 2)

    assert before == {"ebbtide_turns", "ebbtide_compressions", "ebbtide_extractions"}
    assert tables(chat) == set()
    assert traces(tmp_path, [VAULT, TOLD, "blue lever"]) == []
    assert report.not_erased == ()


def test_the_background_is_written_again_by_the_next_turn(chat: Talk, tmp_path: Path) -> None:
    """From what remains, without asking for quotes again; what was quoted of other turns stays."""
    erase(chat.agent, THREAD, 2)

    state = chat.say("and now?")

    last = entries(tmp_path / "archive")[-1]
    assert (last["turn"], last["turns"]) == (10, [])
    assert [one["what"] for one in last["told"]["calls"]] == ["background"]
    made = stored(chat, state)
    assert made is not None
    assert (made.stale, made.background) == (False, "They worked on the shop.")
    assert f"constraint, turn 3: {RULE}" in shown(chat)
    assert "background: They worked on the shop." in shown(chat)
    assert "blue lever" not in shown(chat)
    assert traces(tmp_path, [VAULT, TOLD, "blue lever"]) == []
