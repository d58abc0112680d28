"""The turn loop through the real graph: efforts, tools, limits."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import DiskArchive, Settings, commands, create_memory_agent, restore, transcript
from ebbtide.memory.attention.law import Memory
from ebbtide.memory.errors import InputError, SettingsError
from ebbtide.memory.turn import Session
from tests.agents import ENTRIES, THREAD, talk
from tests.doubles import ScriptedModel, add, call, together

pytestmark = pytest.mark.usefixtures("entry")

RETRIED = ScriptedModel().with_retry()
LONG = "The refresh token expires after 3600 seconds, and nobody renews it."


def test_a_fake_model_is_sent_no_tools(tmp_path: Path) -> None:
    """LangChain's fake, which `create_agent` takes, takes no tools."""
    model = GenericFakeChatModel(messages=iter(["hi", "well"]))
    archive = DiskArchive(tmp_path, durable=False)
    agent = ENTRIES["middleware"](model, archive=archive, checkpointer=InMemorySaver())

    said = [agent.invoke({"messages": "hello"}, THREAD)["messages"][-1].text for _ in range(2)]

    assert said == ["hi", "well"]


@pytest.mark.parametrize("model", [GenericFakeChatModel(messages=iter(["hi"])), RETRIED])
def test_a_model_without_tools_is_refused(tmp_path: Path, model: Any) -> None:
    """A fake of LangChain's, and a model that retries by itself, are told what to pass instead."""
    archive = DiskArchive(tmp_path, durable=False)
    agent = create_memory_agent(model, archive=archive, checkpointer=InMemorySaver())

    with pytest.raises(SettingsError, match="does not take tools"):
        agent.invoke({"messages": "hello"}, THREAD)


def test_calls_after_the_last_round_are_answered_not_run(tmp_path: Path) -> None:
    """A model that calls tools all the same gets errors, and the user an answer."""
    rounds = [call("effort_status"), together(call("open_effort", name="x"), call("add", a=1, b=1))]
    chat = talk(tmp_path, rounds, tools=[add], settings=Settings(max_tool_rounds=1))

    state = chat.say("loop")

    assert [m.type for m in state["messages"][-4:]] == ["ai", "tool", "tool", "ai"]
    assert state["memory"]["open_efforts"] == {}
    assert "limit of 1 for rounds" in state["messages"][-1].text
    assert chat.turns(state)[0].status == "done"


def test_lone_surrogates_are_replaced(tmp_path: Path) -> None:
    """Lone surrogates, from the user or the model, become U+FFFD everywhere."""
    chat = talk(tmp_path, ["answer \udfff"])

    state = chat.say("question \ud800")

    assert [m.text for m in state["messages"]] == ["question \ufffd", "answer \ufffd"]
    assert [m.content for m in chat.turns(state)[0].messages] == [
        "question \ufffd",
        "answer \ufffd",
    ]


def test_a_users_message_makes_no_calls(tmp_path: Path) -> None:
    """What an application puts into a field named like the model's calls breaks no turn."""
    chat = talk(tmp_path, ["a", "b"])
    question: Any = HumanMessage("one", tool_calls=5)
    chat.agent.invoke({"messages": [question]}, THREAD)

    assert chat.said(chat.say("two")) == ["one", "two"]


@pytest.mark.parametrize("levels", [90, 300])
def test_deeply_nested_arguments_do_not_break_the_thread(tmp_path: Path, levels: int) -> None:
    """A call whose arguments nest deep is answered and archived, and the next turn works."""
    nested = json.loads('{"a":' * levels + '"deep"' + "}" * levels)
    calling = [call("add", a=nested, b=2), "that failed", "on"]
    chat = talk(tmp_path, lambda _: calling.pop(0), tools=[add])
    chat.say("one")

    state = chat.say("two")

    assert chat.said(state) == ["one", "two"]
    assert "deep" in str(chat.turns(state)[0].messages[1])


@pytest.mark.parametrize("thread", [5, 0, UUID(int=7), "a\ud800"])
def test_thread_id_of_any_kind(tmp_path: Path, thread: Any) -> None:
    """A thread id may be what LangGraph takes, and its second turn finds the first."""
    chat = talk(tmp_path, ["a", "b"])
    config: Any = {"configurable": {"thread_id": thread, "user_id": 0}}
    chat.say("one", config)

    state = chat.say("two", config)

    assert chat.said(state) == ["one", "two"]
    assert chat.archive.users() == ("0",)


def test_thread_id_with_a_control_character(tmp_path: Path) -> None:
    """Runs, commands and the archive refuse it: stores change such ids into others."""
    chat = talk(tmp_path, ["a"])
    config: Any = {"configurable": {"thread_id": "t\0"}}
    attention, now = chat.archive.attention(), datetime.now(UTC)
    doors: tuple[Callable[[], object], ...] = (
        lambda: chat.say("one", config),
        lambda: commands.messages(chat.agent, config),
        lambda: chat.archive.load(Session("", "t\x1b")).tip,
        lambda: chat.archive.sessions("ann\n"),
        lambda: chat.archive.facts("ann\n"),
        lambda: attention.add("ann\n", Memory("m", 50, now), now=now),
        lambda: attention.top("ann\n", 3, now=now),
    )

    for door in doors:
        with pytest.raises(SettingsError, match="without control characters"):
            door()


def test_call_without_an_id_from_outside(tmp_path: Path) -> None:
    """A handed-over call without an id gets one, and the next turns work."""
    chat = talk(tmp_path, ["a", "b", "c"])
    chat.say("one")
    bad: Any = AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": None}])
    chat.agent.invoke({"messages": [bad, HumanMessage("two")]}, THREAD)

    state = chat.say("three")

    assert chat.said(state) == ["one", "two", "three"]


@pytest.mark.parametrize("entry", ["graph"], indirect=True)
@pytest.mark.parametrize("node", ["begin_turn", "call_model", "memory_tools"])
def test_run_from_an_empty_state(tmp_path: Path, node: str) -> None:
    """A run that begins inside the turn of an empty thread says that there is nothing to answer."""
    chat = talk(tmp_path, ["a"])
    chat.agent.update_state(THREAD, {}, as_node=node)

    with pytest.raises(InputError, match="no new message"):
        chat.agent.invoke(None, THREAD)


@pytest.mark.parametrize("given", [{}, {"messages": []}])
def test_input_without_a_message(tmp_path: Path, given: dict[str, Any]) -> None:
    """A run without a message is refused, and commands find the thread at rest."""
    chat = talk(tmp_path, ["a"])
    chat.say("one")
    before = chat.agent.get_state(THREAD)

    with pytest.raises(InputError, match="no new message"):
        chat.agent.invoke(given, THREAD)

    assert commands.open_effort(chat.agent, THREAD, "Late parcel").turn == 1
    assert commands.undo(chat.agent, THREAD).turn == 1
    assert commands.undo(chat.agent, THREAD).turn == 0
    assert chat.agent.get_state(before.config).values == before.values


@pytest.mark.parametrize("asked", ["three", "two"])
@pytest.mark.parametrize("is_restored", [False, True])
def test_a_history_with_a_question_that_nobody_answered(
    tmp_path: Path, asked: str, *, is_restored: bool
) -> None:
    """A client that leaves it out, or asks it again, is answered."""
    chat = talk(tmp_path, ["a", RuntimeError("no answer"), "c"])
    chat.say("one")
    with pytest.raises(RuntimeError):
        chat.say("two")
    if is_restored:
        restore(chat.agent, THREAD)

    history = [("user", "one"), ("assistant", "a"), ("user", asked)]
    state = chat.agent.invoke({"messages": history}, THREAD)

    assert chat.said(state) == ["one", "two", asked]


def test_a_history_up_to_its_last_question_asks_no_older_one(tmp_path: Path) -> None:
    """A page that sends it with ids, for another answer, is refused, and the thread is at rest."""
    chat = talk(tmp_path, ["a", "b", "c", "d", "e"])
    said = [str(n) for n in range(4)]
    chat.say_all(said)
    page, _ = transcript(chat.agent, THREAD)

    with pytest.raises(InputError, match="no new message"):
        chat.agent.invoke({"messages": page[:-1]}, THREAD)

    assert transcript(chat.agent, THREAD) == (page, False)
    assert commands.open_effort(chat.agent, THREAD, "Late parcel").turn == 4
    assert chat.said(chat.say("new")) == [*said, "new"]


@pytest.mark.parametrize("entry", ["graph"], indirect=True)
async def test_refused_input_is_not_stored(tmp_path: Path) -> None:
    """The whole agent refuses a run without a message before LangGraph stores its input."""
    chat = talk(tmp_path, ["a"])
    with pytest.raises(InputError):
        chat.agent.invoke({"messages": []}, THREAD)
    assert chat.agent.get_state(THREAD).created_at is None
    chat.say("one")
    before = chat.agent.get_state(THREAD)

    with pytest.raises(InputError):
        await chat.agent.ainvoke({"messages": []}, THREAD)

    assert chat.agent.get_state(THREAD) == before


@pytest.mark.parametrize("entry", ["graph"], indirect=True)
def test_agent_refuses_what_only_a_run_may_set(tmp_path: Path) -> None:
    """A user id as a default of the agent is an error, and so is a tool with a taken name."""

    @tool
    def open_effort(name: str) -> str:
        """Clash."""
        return name

    with pytest.raises(SettingsError, match="'ann'"):
        talk(tmp_path, [], settings=Settings(user_id="ann"))
    with pytest.raises(SettingsError, match="open_effort"):
        talk(tmp_path, [], tools=[open_effort])
