"""A turn that stops before any node goes on in another process, in each durability mode."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import SessionNotFoundError
from ebbtide.memory.archive.copy import copy
from tests.acceptance.test_state import NODES
from tests.agents import THREAD, Talk, archive_in, talk
from tests.doubles import call, together

README = Path(__file__).parents[2] / "README.md"
SCRIPT = ["Noted.", together(call("look"), call("open_effort", name="a", goal="Find it")), "Found."]


@tool
def look() -> str:
    """Look."""
    return "It is in drawer 7."


def begun(root: Path, saver: InMemorySaver, answers: Any) -> Talk:
    """Return an agent as a new process makes it."""
    return talk(root, answers, tools=[look], archive=archive_in(root), checkpointer=saver)


def sent(chats: list[Talk]) -> list[list[tuple[str, Any]]]:
    """Return what the model was sent, call by call."""
    calls = [one for chat in chats for one in chat.model.sent]
    return [[(message.type, message.content) for message in one.messages] for one in calls]


@pytest.mark.thorough
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("node", [name for name in NODES if name != "compress"])
def test_resumed_before_a_node(tmp_path: Path, node: str, durability: Any) -> None:
    """A turn stopped before a node is committed once, with the prompts of one that did not stop."""
    whole = begun(tmp_path / "whole", InMemorySaver(), SCRIPT)
    saver = InMemorySaver()
    first = begun(tmp_path / "broken", saver, SCRIPT)
    for chat in (whole, first):
        chat.say("Hello.")
    whole.say("Where is it?")

    how: dict[str, Any] = {"interrupt_before": [node], "durability": durability}
    first.agent.invoke({"messages": "Where is it?"}, THREAD, **how)
    chats, state = [first], first.agent.get_state(THREAD)
    while state.next:
        assert state.next == (node,)
        done = sum(len(chat.model.sent) for chat in chats)
        chats.append(begun(tmp_path / "broken", saver, SCRIPT[done:]))
        chats[-1].agent.invoke(None, THREAD, **how)
        state = chats[-1].agent.get_state(THREAD)

    assert sent(chats) == sent([whole])
    assert first.said(state.values) == ["Hello.", "Where is it?"]
    assert state.values["memory"]["active_effort"] == "a"
    assert len(chats) == 2 + (node in {"assemble_context", "call_model"})


@pytest.mark.parametrize("node", [name for name in NODES if name != "compress"])
def test_resumed_twice_in_one_process(tmp_path: Path, node: str) -> None:
    """The second run sees nothing of what later nodes of the first have left."""

    def answer(messages: list[BaseMessage]) -> Any:
        if any(isinstance(message, ToolMessage) for message in messages):
            return "Found."
        return SCRIPT[1] if any("Where" in message.text for message in messages) else "Noted."

    chat = begun(tmp_path, InMemorySaver(), answer)
    chat.say("Hello.")
    chat.agent.invoke({"messages": "Where is it?"}, THREAD, interrupt_before=[node])
    stopped = chat.agent.get_state(THREAD).config

    runs = list[Any]()
    for _ in range(2):
        chat.model.sent.clear()
        memory = chat.agent.invoke(None, stopped)["memory"]
        runs.append((sent([chat]), memory, chat.said(chat.agent.get_state(THREAD).values)))

    assert runs[0] == runs[1]
    assert runs[0][-1] == ["Hello.", "Where is it?"]


def test_result_of_a_client_after_the_archive_has_moved(tmp_path: Path) -> None:
    """The running turn goes on in the copy, which another user cannot do for it."""
    saver = InMemorySaver()
    before = begun(tmp_path / "before", saver, [call("look")])
    before.agent.invoke(
        {"messages": "Where is it?"}, THREAD, interrupt_before=["application_tools"]
    )
    waiting = before.agent.get_state(THREAD).values["messages"][-1].tool_calls[0]["id"]
    result = {"messages": [ToolMessage("In drawer 7.", tool_call_id=waiting, id="r")]}
    after = begun(tmp_path / "after", saver, ["Found."])
    copy(before.archive, after.archive)
    bob: RunnableConfig = {"configurable": {"thread_id": "t", "user_id": "bob"}}

    for given in (None, result):
        with pytest.raises(SessionNotFoundError):
            after.agent.invoke(given, bob)
    state = after.agent.invoke(result, THREAD)

    assert [message.text for message in state["messages"]][-2:] == ["In drawer 7.", "Found."]
    assert after.said(state) == ["Where is it?"]


def test_application_tools_run_after_the_memorys(tmp_path: Path) -> None:
    """Of one message the memory's calls are answered first, whatever their order in it."""
    chat = begun(tmp_path, InMemorySaver(), SCRIPT[1:])

    steps = [*chat.agent.stream({"messages": "Where is it?"}, THREAD, stream_mode="updates")]

    nodes = [name for step in steps for name in step]
    between = nodes[nodes.index("call_model") + 1 : nodes.index("detect_references")]
    assert between == ["memory_tools", "application_tools", "assemble_context", "call_model"]


def test_picture_of_the_graph(tmp_path: Path) -> None:
    """The picture in the README is drawn from the code."""
    picture = talk(tmp_path, []).agent.get_graph().draw_mermaid(with_styles=False)

    assert picture.strip() in README.read_text()


@pytest.mark.thorough
@pytest.mark.parametrize("node", ["detect_references", "decay", "persist"])
def test_answered_turn_that_no_run_ended(tmp_path: Path, node: str) -> None:
    """A new message ends it first: what it mentioned counts, and what faded collapses."""
    script = [
        *(call("open_effort", name="a"), "Opened."),
        *(call("close_effort"), "Closed."),
        *(call("expand_effort", effort_id="a"), "Here."),
        *["Noted."] * 4,
    ]
    chat = begun(tmp_path, InMemorySaver(), script)
    chat.say_all(["Work on it.", "That is done.", "Show it.", "Hello.", "Well."])
    chat.agent.invoke({"messages": "Tea?"}, THREAD, interrupt_before=[node])

    state = chat.say("Go on.")

    collapsed = [
        turn.number
        for turn in chat.turns(state)
        if any(event["type"] == "collapsed" for event in turn.events)
    ]
    assert (collapsed, state["memory"]["expanded"]) == ([6], {})
    assert chat.said(state)[-2:] == ["Tea?", "Go on."]
