"""Going back through LangGraph's own API: every branch sees its own past and no sibling's."""

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph

from ebbtide import create_memory_agent
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.messages import text
from ebbtide.memory.turn import Session
from tests.agents import tip_in
from tests.doubles import ScriptedModel, call
from tests.faults.places import Place
from tests.memory.turns import effort_in

THREAD: RunnableConfig = {"configurable": {"thread_id": "t"}}
NODES = [
    *("begin_turn", "call_model", "memory_tools", "persist", "compress"),
]


def reply(messages: list[BaseMessage]) -> Any:
    """Open an effort when asked to "open x", else echo the question."""
    if messages[-1].type == "human" and messages[-1].text.startswith("open "):
        return call("open_effort", name=messages[-1].text.removeprefix("open "))
    said = next(m for m in reversed(messages) if m.type == "human" and m.name is None)
    return f"re: {said.text}"


@pytest.fixture
def archive(place: Place) -> Iterator[SqlArchive]:
    """Return an archive in each kind of place."""
    with place.archive() as kept:
        yield kept


@pytest.fixture
def saver(place: Place) -> Iterator[BaseCheckpointSaver[Any]]:
    """Return a checkpointer in the same place."""
    with place.saver() as kept:
        yield kept


@pytest.fixture
def model() -> ScriptedModel:
    """Return a model that echoes."""
    return ScriptedModel(answers=reply)


@pytest.fixture
def agent(
    archive: SqlArchive, saver: BaseCheckpointSaver[Any], model: ScriptedModel
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return an agent with its checkpoints in the same place."""
    return create_memory_agent(model, archive=archive, checkpointer=saver)


def ask(agent: Any, words: str, config: RunnableConfig = THREAD) -> dict[str, Any]:
    """Send a message and return the state."""
    found: dict[str, Any] = agent.invoke({"messages": [("user", words)]}, config)
    return found


def lineage(archive: SqlArchive, values: dict[str, Any]) -> list[str]:
    """Return the first message of every turn that a state can see."""
    tip = tip_in(values)
    turns = archive.load(Session("", "t"), tip).turns(range(1, tip.turn + 1))
    return [text(turn.messages[0]) for turn in turns]


def back_to(agent: Any, turn: int, after: str = "compress") -> RunnableConfig:
    """Return the checkpoint after a node of a turn."""
    upcoming = {"compress": (), "begin_turn": ("call_model",)}[after]
    for state in agent.get_state_history(THREAD):
        if state.values["memory"].get("turn", 0) == turn and state.next == upcoming:
            config: RunnableConfig = state.config
            return config
    raise LookupError((turn, after))


def test_every_tip_of_forks_of_forks_goes_on(agent: Any, archive: SqlArchive) -> None:
    """Forks at every depth, each from the one before, all go on, each with its own past alone."""
    ask(agent, "one")
    pasts, starts = [["one"]], [agent.get_state(THREAD).config]
    for depth in range(5):
        for past, start in [*zip(pasts, starts, strict=True)][-2:]:
            found = ask(agent, f"{depth} after {past[-1]}", start)
            pasts.append(lineage(archive, found))
            starts.append(agent.get_state(THREAD).config)

    ends = [ask(agent, "end", start) for start in starts]

    assert [lineage(archive, end) for end in ends] == [[*past, "end"] for past in pasts]
    assert len(archive.tips(Session("", "t"))) == len(ends)
    assert [one for one in archive.verify(Session("", "t")) if one.fatal] == []


@pytest.mark.thorough
def test_replay_of_an_old_turn(agent: Any, archive: SqlArchive) -> None:
    """Running an old turn again commits it beside itself, after the same past."""
    ask(agent, "one")
    ask(agent, "two")

    replayed = agent.invoke(None, back_to(agent, 1, "begin_turn"))

    assert lineage(archive, replayed) == ["one"]
    assert not any(finding.fatal for finding in archive.verify(Session("", "t")))


@pytest.mark.parametrize("same_id", [True, False])
def test_edit_inside_a_turn(agent: Any, archive: SqlArchive, *, same_id: bool) -> None:
    """A question edited inside its turn is answered as edited, on a branch of its own."""
    ask(agent, "one")
    asked = ask(agent, "two")["messages"][-2]
    ask(agent, "three")
    edited = HumanMessage("two!", id=asked.id if same_id else None)

    config = agent.update_state(back_to(agent, 2, "begin_turn"), {"messages": [edited]})
    found = agent.invoke(None, config)

    assert found["messages"][-1].text == "re: two!"
    assert len(archive.tips(Session("", "t"))) == 2
    assert lineage(archive, found)[0] == "one"


INNER = ["begin_turn", "call_model", "memory_tools"]


@pytest.mark.thorough
@pytest.mark.parametrize("node", INNER)
def test_regenerated_answer(agent: Any, archive: SqlArchive, node: str) -> None:
    """A finished turn that is run again stands once, with what happened in it."""
    ask(agent, "one")
    done = ask(agent, "open work")
    removed = RemoveMessage(str(done["messages"][-1].id))
    config = agent.update_state(THREAD, {"messages": [removed]}, as_node=node)
    agent.invoke(None, config)

    found = ask(agent, "next")

    assert lineage(archive, found) == ["one", "open work", "next"]
    assert effort_in(archive, Session("", "t"), tip_in(found), "work") is not None
    assert not any(finding.fatal for finding in archive.verify(Session("", "t")))


@pytest.mark.parametrize("node", NODES)
def test_new_message_at_every_node(agent: Any, archive: SqlArchive, node: str) -> None:
    """A new message in the middle of a turn keeps the user's message and leaves no call open."""
    ask(agent, "one")
    agent.invoke({"messages": [("user", "open work")]}, THREAD, interrupt_before=[node])

    found = ask(agent, "next")

    tip = tip_in(found)
    turns = archive.load(Session("", "t"), tip).turns(range(1, tip.turn + 1))
    said = [text(m) for turn in turns for m in turn.messages if m.type == "human"]
    assert said == ["one", "open work", "next"]
    assert archive.verify(Session("", "t")) == ()
