"""The factory for Studio and the server: one agent for all runs, no blocking call in the loop."""

import asyncio
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from blockbuster import BlockBuster, blockbuster_ctx
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph

from ebbtide import commands
from ebbtide.graph import studio
from ebbtide.graph.build import MemoryGraph
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.errors import SettingsError
from ebbtide.memory.settings import Settings
from ebbtide.nodes.turn.parts import AgentParts
from tests.agents import talk
from tests.doubles import call, together

THREAD: RunnableConfig = {"configurable": {"thread_id": "t"}}


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Start each test like a server: in its folder, with nothing built yet."""
    monkeypatch.chdir(tmp_path)
    importlib.reload(studio)
    yield
    importlib.reload(studio)


@pytest.fixture
def strict() -> Iterator[BlockBuster]:
    """Make blocking calls in an event loop errors, as `langgraph dev` does."""
    with blockbuster_ctx() as blocking:
        yield blocking


def parts(agent: CompiledStateGraph[Any, Any, Any, Any]) -> AgentParts:
    """Return what an agent works with."""
    assert isinstance(agent.builder, MemoryGraph)
    return agent.builder.parts


@pytest.mark.usefixtures("strict")
async def test_building_and_running_block_nothing() -> None:
    """The first run, which reads files and builds, makes no blocking call in the event loop."""
    graph = await studio.make_graph(THREAD)
    agent = graph.copy(update={"checkpointer": InMemorySaver()})

    found = await agent.ainvoke({"messages": [("user", "Let's work on the auth bug.")]}, THREAD)

    assert found["memory"]["banners"] == ["--- Started effort: auth-bug ---"]


def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word}: a word"


@pytest.mark.usefixtures("strict", "entry")
async def test_no_turn_blocks_the_loop(tmp_path: Path) -> None:
    """Neither does a state block, a summary, a search or a log that is read, nor a command."""
    both = together(call("open_effort", name="auth bug"), call("look_up", word="tide"))
    block = "Opened.\n\n---STATE---\nGoal: ship\n---END STATE---"
    find = [call("search_efforts", query="tide"), call("expand_effort", effort_id="auth-bug")]
    script = [both, block, call("close_effort"), "closed", *find, "shown"]
    chat = await asyncio.to_thread(talk, tmp_path, script, tools=[look_up])

    for words in ("Let's work on it", "done", "What was it?"):
        state = await chat.agent.ainvoke({"messages": words}, THREAD)
    shown = await commands.ashow_context(chat.agent, THREAD, "And?")

    assert [*state["memory"]["expanded"]] == ["auth-bug"]
    assert (state["memory"]["anchor"], shown.turn) == ({"Goal": "ship"}, 4)


async def test_all_runs_share_one_agent() -> None:
    """However many runs ask at once, the agent and its archive are built once."""
    graphs = await asyncio.gather(*(studio.make_graph(THREAD) for _ in range(8)))

    assert len({id(graph) for graph in graphs}) == 1


async def test_the_graph_has_settings_as_context_and_no_checkpointer() -> None:
    """The server brings the checkpointer, and Studio sees the settings."""
    graph = await studio.make_graph(THREAD)

    assert graph.checkpointer is None
    assert graph.builder.context_schema is Settings
    assert graph.get_context_jsonschema() == Settings.model_json_schema()


async def test_studio_describes_every_key_of_the_memory() -> None:
    """The schema of the state says what each key means, those of efforts and summaries too."""
    graph = await studio.make_graph(THREAD)
    kinds = graph.get_output_jsonschema()["$defs"]

    named = ("Memory", "OpenEffort", "ExpandedEffort", "Summary", "Reference")
    missing = [
        f"{name}.{key}"
        for name in named
        for key, schema in kinds[name]["properties"].items()
        if not schema.get("description")
    ]

    assert missing == []


async def test_settings_and_root_come_from_the_file_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ebbtide.yaml` in the working directory and EBBTIDE_ROOT are read."""
    (tmp_path / "ebbtide.yaml").write_text(
        "context_budget: 5000\nextraction_model: scripted\n", "utf-8"
    )
    monkeypatch.setenv("EBBTIDE_ROOT", "kept")

    graph = await studio.make_graph(THREAD)
    archive = parts(graph).archive

    assert parts(graph).settings.context_budget == 5000
    assert parts(graph).settings.extraction_model == "scripted"
    assert isinstance(archive, SqlArchive)
    assert archive.database.name == str(tmp_path / "kept/ebbtide.sqlite")


async def test_a_mistake_in_the_file_is_mended_without_a_restart(tmp_path: Path) -> None:
    """A wrong setting is an error of that run; the next one reads the file again."""
    path = tmp_path / "ebbtide.yaml"
    path.write_text("contxt_budget: 5000\n", "utf-8")
    with pytest.raises(SettingsError, match=r"ebbtide\.yaml:1: unknown key"):
        await studio.make_graph(THREAD)

    path.write_text("context_budget: 5000\n", "utf-8")
    graph = await studio.make_graph(THREAD)

    assert parts(graph).settings.context_budget == 5000
