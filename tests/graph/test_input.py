"""What a client may give a run: messages, and nothing that the memory is."""

import json
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command

from ebbtide import MemoryState, build_memory_graph
from tests.agents import THREAD, Talk, talk

OTHER: Any = {"configurable": {"thread_id": "other"}}
FLAT: dict[str, Any] = {
    "session": {"user": "default", "thread": "other", "namespace": ""},
    "turn": 1,
    "persisted": 1,
    "branch": "main",
}


def secret(root: Path) -> tuple[Talk, dict[str, Any]]:
    """Return an agent that knows a secret on another thread, and the memory of that thread."""
    here = talk(root, ["noted", "yes", "yes"])
    return here, here.say("The code is 4711.", OTHER)["memory"]


def sent(here: Talk) -> str:
    """Return all that the model was sent last."""
    return "\n".join(message.text for message in here.last)


def test_the_form_has_one_field(tmp_path: Path) -> None:
    """What Studio shows to be filled in are the messages."""
    here = talk(tmp_path, [])

    assert [*here.agent.get_input_jsonschema()["properties"]] == ["messages"]


def test_people_read_the_memory_first_and_the_bookkeeping_last(tmp_path: Path) -> None:
    """The state is the messages and the memory, which is plain data in a set order."""
    here = talk(tmp_path, ["yes"] * 2)
    here.say("one")

    state = here.say("two")

    assert [*state] == ["messages", "memory"]
    assert [*state["memory"]][:5] == [
        *("turn", "active_effort", "open_efforts", "expanded", "summaries")
    ]
    assert [*state["memory"]][5:] == ["anchor", "banners", "context_report", "position"]
    assert json.loads(json.dumps(state["memory"])) == state["memory"]


@pytest.mark.parametrize("extra", ["memory", "flat"])
def test_a_forged_memory_has_no_effect(tmp_path: Path, extra: str) -> None:
    """The memory of another thread is not read, and the thread is a new one that goes on."""
    here, memory = secret(tmp_path)
    forged = {"memory": memory} if extra == "memory" else {**FLAT, "tip": "x", "anchor": {"a": "b"}}

    state = here.agent.invoke({"messages": "What is the code?", **forged}, THREAD)

    assert "4711" not in sent(here)
    assert (state["memory"]["turn"], here.said(state)) == (1, ["What is the code?"])
    assert here.said(here.say("and now?")) == ["What is the code?", "and now?"]


async def test_nor_has_it_in_an_asynchronous_run(tmp_path: Path) -> None:
    """The asynchronous path drops it as well."""
    here, memory = secret(tmp_path)

    state = await here.agent.ainvoke({"messages": "What is it?", "memory": memory}, THREAD)

    assert "4711" not in sent(here)
    assert here.said(state) == ["What is it?"]


def test_nor_has_that_of_a_command(tmp_path: Path) -> None:
    """A client of a server may send a command in place of an input."""
    here, memory = secret(tmp_path)
    here.say("hello")
    update = {"messages": [("user", "again")], "memory": memory}

    state = here.agent.invoke(Command(update=update, goto="begin_turn"), THREAD)

    assert here.said(state) == ["hello", "again"]


def test_a_running_thread_keeps_its_memory(tmp_path: Path) -> None:
    """What a client sends does not take the place of what the thread has."""
    here, memory = secret(tmp_path)
    here.say("hello")

    state = here.agent.invoke({"messages": "again", "memory": memory}, THREAD)

    assert here.said(state) == ["hello", "again"]


def test_a_parent_with_an_input_of_its_own_takes_none_either(tmp_path: Path) -> None:
    """The parent hands its memory over, and nobody can give it one."""
    here, memory = secret(tmp_path)
    inner = build_memory_graph(here.model, archive=here.archive).compile()
    graph = StateGraph(MemoryState, input_schema=MessagesState)
    graph.add_node("agent", inner).add_edge(START, "agent").add_edge("agent", END)
    outer = Talk(graph.compile(checkpointer=InMemorySaver()), here.model, here.archive)
    outer.say("one")

    state = outer.agent.invoke({"messages": "two", "memory": memory}, THREAD)

    assert outer.said(state) == ["one", "two"]


def test_updates_say_what_changed(tmp_path: Path) -> None:
    """A node that leaves the memory as it is streams none of it."""
    here = talk(tmp_path, ["yes"] * 2)
    here.say("one")

    steps = [*here.agent.stream({"messages": "two"}, THREAD, stream_mode="updates")]

    updates = {node: update for step in steps for node, update in step.items()}
    changed = {node: [*(update or {}).get("memory", {})] for node, update in updates.items()}
    assert changed == {
        "begin_turn": ["turn", "position"],
        "assemble_context": ["context_report", "position"],
        "call_model": [],
        "detect_references": [],
        "decay": [],
        "persist": ["position"],
        "compress": [],
    }
