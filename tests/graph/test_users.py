"""Whose session it is: whatever says who the user is, nobody else reads or changes it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.tools import ToolRuntime
from langchain_core.tools import StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from ebbtide import (
    EbbtideMiddleware,
    SessionNotFoundError,
    SettingsError,
    commands,
    delete_user,
    erase,
    restore,
    transcript,
)
from ebbtide.memory.turn import Session
from tests.agents import THREAD, Talk, talk
from tests.doubles import ScriptedModel, approve, call

CODE = "The code is delta-47."


@dataclass(frozen=True)
class Frozen:
    """An application's context as a dataclass."""

    user_id: str
    tenant: str = "x"


class Plain:
    """An application's context as an object."""

    def __init__(self, user_id: str) -> None:
        """Take whose request it is."""
        self.user_id = user_id
        self.tenant = "x"


class Model(BaseModel):
    """An application's context as a pydantic model."""

    user_id: str
    tenant: str = "x"


def mapped(user_id: str) -> Mapping[str, str]:
    """Return an application's context as a mapping."""
    return {"user_id": user_id, "tenant": "x"}


@tool
def tenant(runtime: ToolRuntime[Any, Any]) -> str:
    """Return the application's own key, as its context has it."""
    context = runtime.context
    return str(context["tenant"] if isinstance(context, dict) else context.tenant)


def texts(chat: Talk) -> str:
    """Return what users said in any checkpoint of the thread."""
    states = chat.agent.get_state_history(THREAD)
    return "\n".join(m.text for state in states for m in state.values.get("messages", []))


async def run(chat: Talk, way: str, given: Any, context: Any) -> dict[str, Any]:
    """Run the agent by the "sync" or the "async" way, and return the state."""
    if way == "async":
        return dict(await chat.agent.ainvoke(given, THREAD, context=context))
    return dict(chat.agent.invoke(given, THREAD, context=context))


@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize("context", [Frozen, Plain, Model, mapped])
@pytest.mark.parametrize("way", ["sync", "async"])
async def test_a_context_names_the_user(tmp_path: Path, way: str, context: Any) -> None:
    """Bob is refused with ann's thread id, and hers goes on where it was."""
    chat = talk(tmp_path, [call("open_effort", name="vault"), "noted", "yes"])
    chat.say(CODE, context=context(user_id="ann"))

    with pytest.raises(SessionNotFoundError):
        await run(chat, way, {"messages": "What is the code?"}, context(user_id="bob"))

    anns = chat.say("mine", context=context(user_id="ann"))
    assert chat.said(anns) == [CODE, "mine"]
    assert [*anns["memory"]["open_efforts"]] == ["vault"]
    assert "What is the code?" not in "\n".join(message.text for message in chat.last)


@pytest.mark.parametrize("context", [Frozen, Plain, Model, mapped])
def test_tools_see_the_context_of_the_application(tmp_path: Path, context: Any) -> None:
    """What is foreign to us is there for the application's tools."""
    chat = talk(tmp_path, [call("tenant"), "done"], tools=[tenant])

    state = chat.say("Whose?", context=context(user_id="ann"))

    assert state["messages"][-2].text == "x"


@pytest.mark.parametrize("context", [{"context_budget": 5, "tenant": "x"}, {"user_id": ["ann"]}])
def test_a_bad_value_of_ours_is_an_error(tmp_path: Path, context: Any) -> None:
    """The value is quoted, and the message is in no state."""
    chat = talk(tmp_path, ["yes"])
    value = next(iter(context.values()))

    with pytest.raises(SettingsError) as raised:
        chat.say("hello", context=context)

    assert f"(got {value!r})" in str(raised.value)
    assert texts(chat) == ""


def test_a_number_names_a_user(tmp_path: Path) -> None:
    """Ids that are numbers are taken as they are written."""
    chat = talk(tmp_path, ["yes"])

    chat.say("hello", context={"user_id": 7})

    assert chat.archive.users() == ("7",)


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("given", [None, Command(resume="yes")])
@pytest.mark.parametrize("turns", [0, 1])
async def test_what_waits_for_ann_is_not_given_to_eve(
    tmp_path: Path, turns: int, given: Any, way: str
) -> None:
    """Resuming is refused while a tool waits, before anything runs, and it still waits."""
    answers = [*["noted"] * turns, call("approve", what="pay"), "done"]
    chat = talk(tmp_path, answers, tools=[approve])
    for _ in range(turns):
        chat.say("hello", context={"user_id": "ann"})
    chat.say("Pay it.", context={"user_id": "ann"})

    with pytest.raises(SessionNotFoundError):
        await run(chat, way, given, {"user_id": "eve"})

    waiting = chat.agent.get_state(THREAD)
    assert (waiting.next, len(waiting.interrupts)) == (("application_tools",), 1)
    paid = chat.agent.invoke(Command(resume="yes"), THREAD, context={"user_id": "ann"})
    assert paid["messages"][-2].text == "pay: yes"


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("turns", [0, 1])
async def test_the_middleware_runs_no_tool_for_another_user(
    tmp_path: Path, turns: int, way: str
) -> None:
    """Eve resumes what waits for ann: the tool does not begin, and still waits for ann."""
    begun: list[str] = []

    @tool
    def pay(what: str) -> str:
        """Pay for it when a person agrees."""
        begun.append(what)
        return f"{what}: {interrupt(what)}"

    answers = [*["noted"] * turns, call("pay", what="rent"), "done"]
    chat = talk(tmp_path, answers, tools=[pay], entry="middleware")
    for _ in range(turns):
        chat.say("hello", context={"user_id": "ann"})
    chat.say("Pay it.", context={"user_id": "ann"})

    with pytest.raises(SessionNotFoundError):
        await run(chat, way, Command(resume="yes"), {"user_id": "eve"})

    assert begun == ["rent"]
    paid = chat.agent.invoke(Command(resume="yes"), THREAD, context={"user_id": "ann"})
    assert (paid["messages"][-2].text, paid["messages"][-1].text) == ("rent: yes", "done")


@pytest.mark.usefixtures("entry")
def test_a_fork_from_before_the_first_turn_is_its_user_s(tmp_path: Path) -> None:
    """Ann begins her thread anew from its first checkpoint."""
    chat = talk(tmp_path, ["one", "two"])
    chat.say(CODE, context={"user_id": "ann"})
    *_, first = chat.agent.get_state_history(THREAD)

    state = chat.agent.invoke(None, first.config, context={"user_id": "ann"})

    assert state["messages"][-1].text == "two"


def test_nobody_decides_about_the_calls_of_another_user(tmp_path: Path) -> None:
    """Eve refuses the call that ann is asked about: she is not answered, and ann is still asked."""
    chat = talk(tmp_path, [])
    model = ScriptedModel(answers=[call("approve", what="pay"), "done"])
    memory: Any = EbbtideMiddleware(archive=chat.archive)
    asking = HumanInTheLoopMiddleware({"approve": True})
    agent: Any = create_agent(
        *(
            model,
            [StructuredTool.from_function(lambda what: what, name="approve", description="-")],
        ),
        middleware=[memory, asking],
        checkpointer=InMemorySaver(),
    )
    agent.invoke({"messages": CODE}, THREAD, context={"user_id": "ann"})
    refused: Any = Command(resume={"decisions": [{"type": "reject", "message": "no"}]})

    with pytest.raises(SessionNotFoundError):
        agent.invoke(refused, THREAD, context={"user_id": "eve"})

    state = agent.invoke(refused, THREAD, context={"user_id": "ann"})
    assert state["messages"][-1].text == "done"


COMMANDS: dict[str, Any] = {
    "erase": lambda agent, config: erase(agent, config, 1),
    "undo": commands.undo,
    "restore": restore,
    "messages": commands.messages,
    "transcript": transcript,
    "efforts": commands.efforts,
    "search": lambda agent, config: commands.search(agent, config, "code"),
    "stats": commands.stats,
    "window": lambda agent, config: commands.set_window(agent, config, 3),
    "rebuild": commands.rebuild_anchor,
    "open": lambda agent, config: commands.open_effort(agent, config, "a"),
    "show": commands.show_context,
}


@pytest.mark.parametrize("user", [{}, {"user_id": "eve"}])
def test_commands_find_no_thread_of_another_user(tmp_path: Path, user: dict[str, str]) -> None:
    """Ann's thread is there for nobody else, and nothing in it changes."""
    chat = talk(tmp_path, ["noted"])
    chat.say(CODE, context={"user_id": "ann"})
    before = chat.agent.get_state(THREAD)
    config: Any = {"configurable": {"thread_id": "t", **user}}

    for command in COMMANDS.values():
        with pytest.raises(SessionNotFoundError, match="session 't' not found"):
            command(chat.agent, config)
        assert chat.agent.get_state(THREAD) == before


class Asking:
    """A context whose user has to be asked for."""

    def user_id(self) -> str:
        """Return who it is."""
        return "ann"


ODD: list[Any] = [Asking().user_id, UUID(int=5), b"ann", "u\ud800", "ann\0", True, 1.5]


@pytest.mark.parametrize("user", ODD)
@pytest.mark.parametrize("place", ["context", "object", "configurable"])
def test_what_is_no_user_is_refused(tmp_path: Path, user: Any, place: str) -> None:
    """Nobody is anybody else because of how a name is written; the value is quoted."""
    chat = talk(tmp_path, ["yes"])
    config: Any = {"configurable": {"thread_id": "t", "user_id": user}}
    contexts = {"context": {"user_id": user}, "object": Plain(user)}

    with pytest.raises(SettingsError, match="user_id: pass ") as raised:
        chat.say("hello", THREAD if place in contexts else config, context=contexts.get(place))

    assert f"(got {user!r})" in str(raised.value)
    assert texts(chat) == ""


def test_a_context_with_a_method_for_a_user_is_refused(tmp_path: Path) -> None:
    """It is not taken for a context that names no user."""
    chat = talk(tmp_path, ["yes"])

    with pytest.raises(SettingsError, match="user_id: pass "):
        chat.say("hello", context=Asking())


@pytest.mark.parametrize("user", [*ODD, "", None])
def test_what_is_no_user_is_not_deleted(tmp_path: Path, user: Any) -> None:
    """Nothing is deleted, above all nothing of those who named no user."""
    chat = talk(tmp_path, ["yes"])
    chat.say("hello")

    with pytest.raises(SettingsError, match="user_id: pass "):
        delete_user(chat.agent, user)

    assert chat.archive.sessions("") == (Session("", "t"),)


def test_no_id_reaches_what_nobody_said(tmp_path: Path) -> None:
    """A user called default, or as the anonymous one is shown, has sessions of their own alone."""
    chat = talk(tmp_path, ["yes"])
    chat.say(CODE)

    for name in ("default", "anonymous", Session("", "t").user_label):
        theirs: Any = {"configurable": {"thread_id": "t", "user_id": name}}
        for command in (commands.messages, transcript, restore, commands.undo):
            with pytest.raises(SessionNotFoundError):
                command(chat.agent, theirs)
        with pytest.raises(SessionNotFoundError):
            erase(chat.agent, theirs, 1)
        assert delete_user(chat.agent, name).sessions == ()
    assert chat.archive.sessions("") == (Session("", "t"),)
    assert CODE in texts(chat)


def test_a_number_is_deleted_as_it_was_taken(tmp_path: Path) -> None:
    """Ids that are numbers are taken as they are written here too."""
    chat = talk(tmp_path, ["yes"])
    chat.say("hello", context={"user_id": 42})

    report = delete_user(chat.agent, 42)  # type: ignore[arg-type]  # wrong on purpose

    assert report.sessions == (Session("42", "t"),)
