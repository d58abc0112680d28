"""Commands that change something, given the graph around the agent."""

from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from ebbtide import MemoryState, TurnRunningError, commands
from ebbtide.graph.build import MemoryAgent
from ebbtide.memory.turn import Session
from tests.agents import THREAD, Talk, inside, talk
from tests.faults.disks import FullDisk

pytestmark = [
    pytest.mark.usefixtures("entry"),
    pytest.mark.parametrize("schema", [MemoryState, MessagesState]),
]

SESSION = Session("", "t", "agent")
LONG = "The refresh token expires after 3600 seconds, and nobody renews it."


def around(root: Path, schema: Any, *answers: Any, **options: Any) -> tuple[Talk, Any]:
    """Return an agent without a checkpointer, and the graph around it."""
    chat = talk(root, [*answers], checkpointer=None, **options)
    return chat, inside(chat, schema)


def said(chat: Talk) -> list[str]:
    """Return what the user said in the newest branch."""
    past = chat.archive.load(SESSION)
    turns = past.turns(range(1, past.until + 1))
    return [str(turn.messages[0].content) for turn in turns]


def test_tools_work_by_hand(tmp_path: Path, schema: Any) -> None:
    """Each changes the thread's efforts; no turn passes, and nothing is said in the graph."""
    chat, outer = around(tmp_path, schema, "hello", "noted", "yes")
    outer.invoke({"messages": "hi"}, THREAD)
    done = [commands.open_effort(outer, THREAD, "auth bug", "sign-in works")]
    outer.invoke({"messages": LONG}, THREAD)
    done += [
        commands.close_effort(outer, THREAD),
        commands.expand_effort(outer, THREAD, "auth-bug"),
        commands.collapse_effort(outer, THREAD, "auth-bug"),
        commands.reopen_effort(outer, THREAD, "auth-bug"),
        commands.switch_effort(outer, THREAD),
    ]
    state = outer.invoke({"messages": "on"}, THREAD)

    assert [one.turn for one in done] == [1, 2, 2, 2, 2, 2]
    assert [one.result["status"] for one in done] == [
        *("opened", "concluded", "expanded", "collapsed", "reopened", "paused")
    ]
    assert said(chat) == ["hi", LONG, "on"]
    assert len(chat.archive.tips(SESSION)) == 1
    assert commands.efforts(outer, THREAD).efforts[0].id == "auth-bug"
    texts = ["hi", "hello", LONG, "noted", "on", "yes"]
    assert [message.text for message in state["messages"]] == texts
    assert outer.get_state(THREAD).next == ()


def test_a_command_may_come_before_the_first_turn(tmp_path: Path, schema: Any) -> None:
    """Its session is the one that the agent's turns have, and what was said before is kept."""
    chat, outer = around(tmp_path, schema, "well")

    commands.open_effort(outer, THREAD, "a")
    outer.invoke({"messages": "go on"}, THREAD)

    assert said(chat) == ["go on"]
    assert commands.efforts(outer, THREAD).efforts[0].active


def test_an_unfinished_turn_is_in_the_way(tmp_path: Path, schema: Any) -> None:
    """A command settles no turn that may yet be resumed."""
    chat, outer = around(tmp_path, schema, ConnectionError("gone"), "here")
    with pytest.raises(ConnectionError):
        outer.invoke({"messages": "question"}, THREAD)

    with pytest.raises(TurnRunningError, match="turn 1"):
        commands.open_effort(outer, THREAD, "a")

    assert outer.invoke(None, THREAD)["messages"][-1].text == "here"
    assert said(chat) == ["question"]


def test_a_turn_is_undone(tmp_path: Path, schema: Any) -> None:
    """The thread goes on from before it; a command is undone alone where the state tells of it."""
    chat, outer = around(tmp_path, schema, "one", "two", "three")
    outer.invoke({"messages": "first"}, THREAD)
    outer.invoke({"messages": "second"}, THREAD)
    commands.open_effort(outer, THREAD, "a")

    keeps_memory = schema is MemoryState and isinstance(chat.agent, MemoryAgent)
    undone = [commands.undo(outer, THREAD).turn for _ in range(1 + keeps_memory)]
    state = outer.invoke({"messages": "third"}, THREAD)

    assert (undone, said(chat)) == ([2, 1][-len(undone) :], ["first", "third"])
    assert [message.text for message in state["messages"]] == ["first", "one", "third", "three"]
    assert [tip.turn for tip in chat.archive.tips(SESSION)] == [2, 2]
    assert commands.efforts(outer, THREAD).efforts == ()


def test_a_turn_that_waits_is_undone(tmp_path: Path, schema: Any) -> None:
    """What there is of it is archived as aborted."""
    chat, outer = around(tmp_path, schema, "one", ConnectionError("gone"))
    outer.invoke({"messages": "first"}, THREAD)
    with pytest.raises(ConnectionError):
        outer.invoke({"messages": "second"}, THREAD)

    assert commands.undo(outer, THREAD).turn == 1

    assert (said(chat), outer.get_state(THREAD).next) == (["first", "second"], ())
    assert commands.transcript(outer, THREAD)[0][0].text == "first"


def test_a_command_on_an_older_state_is_a_fork(tmp_path: Path, schema: Any) -> None:
    """A config that names a checkpoint of the graph is where the command begins its branch."""
    chat, outer = around(tmp_path, schema, "one", "two", "three")
    outer.invoke({"messages": "first"}, THREAD)
    first = outer.get_state(THREAD).config
    outer.invoke({"messages": "second"}, THREAD)

    done = commands.open_effort(outer, first, "other")
    outer.invoke({"messages": "third"}, THREAD)

    assert (done.turn, said(chat)) == (1, ["first", "third"])
    assert commands.efforts(outer, THREAD).efforts[0].id == "other"


def test_what_was_said_before_is_adopted(tmp_path: Path, schema: Any) -> None:
    """A command loses nothing of what other nodes said, before the agent's first turn or later."""
    chat, outer = around(tmp_path, schema, "yes", "yes")
    history: list[Any] = [("user", "Who is there?"), ("ai", "Another agent.")]
    outer.update_state(THREAD, {"messages": history}, as_node="agent")
    outer.update_state(THREAD, None, as_node=END)
    commands.open_effort(outer, THREAD, "a")
    outer.invoke({"messages": "go on"}, THREAD)
    outer.update_state(THREAD, {"messages": [("ai", "And more.")]}, as_node="agent")
    outer.update_state(THREAD, None, as_node=END)
    commands.close_effort(outer, THREAD)

    outer.invoke({"messages": "on"}, THREAD)

    past = chat.archive.load(SESSION)
    turns = past.turns(range(1, past.until + 1))
    texts = [message.content for turn in turns for message in turn.messages]
    expected = ["Who is there?", "Another agent.", "go on", "yes", "And more.", "on", "yes"]
    assert texts == expected
    said_ = [message.text for message in outer.get_state(THREAD).values["messages"]]
    assert (said_[-4:], said_.count("And more.")) == (["yes", "And more.", "on", "yes"], 1)


def test_a_full_disk_loses_no_command(tmp_path: Path, schema: Any) -> None:
    """If it cannot be archived it is not done, or committed once with the next message."""
    chat, outer = around(tmp_path, schema, "one", "on", archive=FullDisk(tmp_path, durable=False))
    assert isinstance(chat.archive, FullDisk)
    outer.invoke({"messages": "first"}, THREAD)
    chat.archive.failures = 3
    with pytest.raises(OSError, match="No space left"):
        commands.open_effort(outer, THREAD, "a")

    outer.invoke({"messages": "on"}, THREAD)

    is_kept = schema is MemoryState and isinstance(chat.agent, MemoryAgent)
    assert said(chat) == ["first", "on"]
    assert len(chat.archive.tips(SESSION)) == 1
    assert len(commands.efforts(outer, THREAD).efforts) == is_kept


def test_what_is_still_to_run_is_in_the_way(tmp_path: Path, schema: Any) -> None:
    """While the graph waits in a node after the agent, nothing is changed."""
    chat = talk(tmp_path, ["yes", "no"], checkpointer=None)
    graph = StateGraph(schema)
    graph.add_node("agent", chat.agent)
    graph.add_node("review", lambda _: {"messages": [("ai", interrupt("Is it right?"))]})
    graph.add_edge(START, "agent")
    graph.add_edge("agent", "review")
    outer: Any = graph.compile(checkpointer=InMemorySaver())
    outer.invoke({"messages": "hi"}, THREAD)

    with pytest.raises(TurnRunningError):
        commands.open_effort(outer, THREAD, "a")
    state = outer.invoke(Command(resume="It is."), THREAD)

    assert state["messages"][-1].text == "It is."


def test_no_other_node_runs(tmp_path: Path, schema: Any) -> None:
    """What the graph does before and after the agent is not done for a command."""
    ran: list[str] = []
    chat = talk(tmp_path, ["yes"], checkpointer=None)
    graph = StateGraph(schema)
    graph.add_node("before", lambda _: ran.append("before"))
    graph.add_node("agent", chat.agent)
    graph.add_node("after", lambda _: ran.append("after"))
    graph.add_edge(START, "before")
    graph.add_edge("before", "agent")
    graph.add_edge("agent", "after")
    outer: Any = graph.compile(checkpointer=inside(chat, schema).checkpointer)

    commands.open_effort(outer, THREAD, "a")

    assert (ran, outer.get_state(THREAD).next) == ([], ())
