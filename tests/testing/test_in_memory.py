"""The archive in memory; what any archive can do, the conformance suite tests."""

import gc
import weakref
from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import create_memory_agent, erase
from ebbtide.testing import InMemoryArchive, ScriptedModel
from tests.agents import THREAD
from tests.memory.turns import commit_all, turn


def test_it_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent works with it and leaves nothing in the working directory."""
    monkeypatch.chdir(tmp_path)
    agent = create_memory_agent(
        ScriptedModel(), archive=InMemoryArchive(), checkpointer=InMemorySaver()
    )
    for words in ("Let's work on the gate.", "The gate is red.", "That's done."):
        agent.invoke({"messages": words}, THREAD)
    erase(agent, THREAD, 2)

    assert [*tmp_path.iterdir()] == []


def test_it_is_closed_when_it_is_dropped() -> None:
    """Nobody has to close it: its connection goes with it."""
    archive = InMemoryArchive()
    commit_all(archive, [turn(1)])
    pool = archive.database._engine.pool
    (left,) = [weakref.ref(archive)]

    del archive
    gc.collect()

    assert left() is None
    assert "Connections in pool: 0" in pool.status()
