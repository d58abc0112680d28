"""After a command wrote the state of a thread, LangGraph takes its run for one that has ended."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from ebbtide import MemoryState, erase, restore
from ebbtide.commands import set_window, undo
from tests.agents import THREAD, Talk, talk
from tests.databases import Database


def died(root: Path, **options: Any) -> Talk:
    """Return an agent whose third run ended in its model."""
    chat = talk(root, ["1", "2", OSError("gone"), "4", "5"], **options)
    chat.say_all(["One.", "Two."])
    with pytest.raises(OSError, match="gone"):
        chat.say("Three.")
    return chat


def edit(agent: Any, at: int = 0) -> Any:
    """Change a message of the thread, and return the snapshot after that."""
    message = agent.get_state(THREAD).values["messages"][at]
    agent.update_state(THREAD, {"messages": [message.model_copy(update={"content": "Edited."})]})
    return agent.get_state(THREAD)


def texts(values: dict[str, Any]) -> list[str]:
    """Return the texts of the messages."""
    return [message.text for message in values["messages"]]


@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize("erases", [False, True])
def test_update_after_a_command(tmp_path: Path, *, erases: bool) -> None:
    """No node of the run that died is next, nothing is answered again, and a command runs."""
    chat = died(tmp_path)
    restore(chat.agent, THREAD)
    if erases:
        erase(chat.agent, THREAD, 1)

    snapshot = edit(chat.agent)
    again = chat.agent.invoke(None, THREAD)
    erase(chat.agent, THREAD, 2)
    state = chat.say("Four.")

    assert snapshot.next == ()
    assert texts(again) == texts(snapshot.values)
    assert texts(state)[-2:] == ["Four.", "4"]
    assert chat.branches == 1  # the edit of turn 1, which no turn archived, went with the erasure


class WritesOnce(InMemorySaver):
    """A checkpointer that refuses to write over a checkpoint."""

    def put(self, config: RunnableConfig, checkpoint: Checkpoint, *more: Any) -> RunnableConfig:
        """Store a checkpoint with a new id."""
        if checkpoint["id"] in self.storage[config["configurable"]["thread_id"]][""]:
            raise OSError("cannot write over it")
        return super().put(config, checkpoint, *more)


@pytest.mark.usefixtures("entry")
def test_checkpointer_that_writes_nothing_twice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The command is done then: if it failed, whoever tries again would undo two turns."""
    chat = talk(tmp_path, ["1", "2", "3"], checkpointer=WritesOnce())
    chat.say_all(["One.", "Two."])

    left = undo(chat.agent, THREAD).turn

    assert left == 1
    assert "cannot write over it" in caplog.text
    assert texts(chat.say("Three.")) == ["One.", "1", "Three.", "3"]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_on_a_database(tmp_path: Path, kind: str, shared_database: Database) -> None:
    """The checkpoint is written over with nothing lost: the conversation goes on from it."""
    made: Any = SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite"))
    if kind == "postgresql":
        made = PostgresSaver.from_conn_string(shared_database.uri)
    with made as saver:
        saver.setup()
        chat = died(tmp_path / "archive", checkpointer=saver)
        restore(chat.agent, THREAD)
        before = chat.agent.get_state(THREAD)

        snapshot = edit(chat.agent, -1)
        state = chat.say("Four.")

    assert (before.next, snapshot.next) == ((), ())
    assert before.parent_config is not None
    assert texts(state)[-4:] == ["2", "Edited.", "Four.", "4"]


@pytest.mark.parametrize("after", [[], ["tidy"], ["tidy", "count"]])
def test_larger_graph(tmp_path: Path, after: list[str]) -> None:
    """None of its nodes is next either."""
    chat = talk(tmp_path, ["1", "2", OSError("gone"), "4"], checkpointer=None)
    graph = StateGraph(MemoryState).add_node("agent", chat.agent)
    for node in after:
        graph.add_node(node, lambda _: {})
    for before, node in pairwise([START, "agent", *after, END]):
        graph.add_edge(before, node)
    outer: Any = graph.compile(checkpointer=InMemorySaver())
    for words in ("One.", "Two."):
        outer.invoke({"messages": words}, THREAD)
    with pytest.raises(OSError, match="gone"):
        outer.invoke({"messages": "Three."}, THREAD)
    restore(outer, THREAD)

    snapshot = edit(outer)

    assert snapshot.next == ()
    assert texts(outer.invoke({"messages": "Four."}, THREAD))[-2:] == ["Four.", "4"]


def test_larger_graph_with_a_join(tmp_path: Path) -> None:
    """A node that waits for the agent and for another one waits after a command too."""
    chat = talk(tmp_path, lambda _: "OK.", checkpointer=None)
    graph, seen = StateGraph(MemoryState).add_node("agent", chat.agent), list[str]()
    graph.add_node("slow", lambda _: {}).add_node("beside", lambda _: {})
    graph.add_node("last", lambda state: seen.append(state["messages"][-1].text))
    graph.add_edge(START, "slow").add_edge("slow", "agent").add_edge(START, "beside")
    outer: Any = graph.add_edge(["agent", "beside"], "last").add_edge("last", END)
    outer = outer.compile(checkpointer=InMemorySaver())
    outer.invoke({"messages": "One."}, THREAD)
    set_window(outer, THREAD, 3)

    outer.invoke({"messages": "Two."}, THREAD)

    assert seen == ["OK.", "OK."]
