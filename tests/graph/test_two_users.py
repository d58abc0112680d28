"""A thread belongs to the user of its first turn, however a run ended; nobody else runs it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState
from langgraph.types import Command

from ebbtide import SessionNotFoundError, commands, delete_session, restore, transcript
from ebbtide.memory.messages import text
from ebbtide.memory.turn import Session
from tests.agents import Talk, inside, talk
from tests.graph.test_entry import Died, DyingSaver


def of(user: str) -> RunnableConfig:
    """Return the config of a user's runs in the one thread; nobody is "" ."""
    named = {"user_id": user} if user else {}
    return {"configurable": {"thread_id": "t", **named}}


def session(chat: Talk, user: str, namespace: str = "") -> list[str]:
    """Return what a user said in the turns of the newest branch of their session."""
    past = chat.archive.load(Session(user, "t", namespace))
    turns = past.turns(range(1, past.until + 1))
    return [text(m) for turn in turns for m in turn.messages if m.type == "human"]


def wire(chat: Talk) -> str:
    """Return all that the model was sent."""
    return "\n".join(message.text for one in chat.model.sent for message in one.messages)


RUNS: dict[str, Any] = {
    "message": {"messages": "bob 1"},
    "update": Command(update={"messages": [("user", "bob 1")]}),
    "nothing": None,
}


async def run(agent: Any, way: str, given: Any, config: RunnableConfig) -> Any:
    """Run an agent by the "sync" or the "async" way."""
    if way == "sync":
        return agent.invoke(given, config, durability="sync")
    return await agent.ainvoke(given, config, durability="sync")


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("users", [("ann", "bob"), ("", "bob"), ("ann", "")])
async def test_message_of_another_user(
    tmp_path: Path, entry: str, users: tuple[str, str], way: str
) -> None:
    """It is refused, reaches no turn and no model, and the first user goes on."""
    chat, (first, second) = talk(tmp_path, ["yes"] * 9), users
    chat.say("ann 1", of(first))

    for _ in range(2):
        with pytest.raises(SessionNotFoundError, match="'t' not found"):
            await run(chat.agent, way, RUNS["message"], of(second))

    values = chat.agent.get_state(of(first)).values
    assert "bob 1" not in str(values), entry
    chat.say("ann 2", of(first))
    assert (session(chat, first), session(chat, second)) == (["ann 1", "ann 2"], [])
    assert "bob" not in wire(chat)


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("given", RUNS)
@pytest.mark.usefixtures("entry")
async def test_run_of_another_user_from_any_checkpoint(
    tmp_path: Path, given: str, way: str, entry: str
) -> None:
    """From none of ann's is anything run for bob, also from before her first turn."""
    chat = talk(tmp_path, ["yes"] * 99)
    for words in ("ann 1", "ann 2"):
        chat.say(words, of("ann"))
    places = [snapshot.config for snapshot in chat.agent.get_state_history(of("ann"))]
    sent = len(chat.model.sent)

    refused = 0
    for place in places:
        chosen: Any = {"configurable": {**place["configurable"], "user_id": "bob"}}
        try:
            await run(chat.agent, way, RUNS[given], chosen)
        except SessionNotFoundError:
            refused += 1

    # Of a turn that ended nothing runs, so nothing of a middleware is asked.
    ended = 2 if entry == "middleware" and given != "message" else 0
    assert (refused, len(chat.model.sent)) == (len(places) - ended, sent)
    assert session(chat, "bob") == []


@pytest.mark.parametrize("before", [[], ["ann 0"]], ids=["first turn", "later"])
def test_turn_that_broke_off(tmp_path: Path, entry: str, before: list[str]) -> None:
    """Bob neither resumes it nor speaks before it, and ann goes on."""
    gone = ConnectionError("gone")
    chat = talk(tmp_path, [*["yes"] * len(before), gone, *["yes"] * 3])
    for words in before:
        chat.say(words, of("ann"))
    with pytest.raises(ConnectionError):
        chat.say("ann 1", of("ann"))

    # With the middleware LangGraph writes the update of a resumed run before anything is asked.
    for given in ("nothing", "message", *["update"] * (entry == "graph")):
        with pytest.raises(SessionNotFoundError):
            chat.agent.invoke(RUNS[given], of("bob"))

    chat.say("ann 2", of("ann"))
    assert session(chat, "ann") == [*before, "ann 1", "ann 2"]
    assert "bob" not in wire(chat)


def test_larger_graph(tmp_path: Path) -> None:
    """Who runs the thread of another user through a graph around the agent is refused too."""
    chat = talk(tmp_path, ["yes"] * 9, checkpointer=None)
    outer = inside(chat, MessagesState)
    outer.invoke({"messages": "ann 1"}, of("ann"))

    for given in (RUNS["message"], None):
        with pytest.raises(SessionNotFoundError):
            outer.invoke(given, of("bob"))

    assert len(chat.model.sent) == 1
    outer.invoke({"messages": "ann 2"}, of("ann"))
    # The message of bob lies in the state of the graph around the agent.
    assert [said for said in session(chat, "ann", "agent") if "ann" in said] == ["ann 1", "ann 2"]
    assert session(chat, "bob", "agent") == []


def died_as(chat: Talk, user: str, words: str, source: str) -> None:
    """Let the process die when a user's message is stored, or applied, before its turn began."""
    saver: Any = chat.agent.checkpointer
    saver.dies_after = source
    with pytest.raises(Died):
        chat.agent.invoke({"messages": words}, of(user), durability="sync")


@pytest.mark.parametrize("source", ["input", "loop"])
@pytest.mark.parametrize("second", ["ann", "bob", ""])
def test_run_that_died_before_the_first_turn(tmp_path: Path, second: str, source: str) -> None:
    """The same user's next turn has what was said; another one's has not, and gets the thread."""
    chat = talk(tmp_path, ["yes"] * 9, checkpointer=DyingSaver())
    died_as(chat, "ann", "ann 1", source)
    if second != "ann":
        unsaid: tuple[Any, ...] = (None, Command(update={}))
        for given in unsaid:
            with pytest.raises(SessionNotFoundError):
                chat.agent.invoke(given, of(second))
        for command in (restore, transcript, commands.messages):
            with pytest.raises(SessionNotFoundError):
                command(chat.agent, of(second))

    chat.say("next", of(second))

    assert session(chat, second) == [*["ann 1"] * (second == "ann"), "next"]
    assert ("ann 1" in wire(chat)) is (second == "ann")
    if second != "ann":
        with pytest.raises(SessionNotFoundError):
            chat.say("ann 2", of("ann"))
        assert "ann" not in str(chat.say("more", of(second))["messages"])


class Meanwhile(InMemorySaver):
    """A checkpointer that does something once, when an input was applied."""

    does: Callable[[], Any] | None = None

    def put(self, config: RunnableConfig, checkpoint: Any, metadata: Any, *more: Any) -> Any:
        """Store a checkpoint, and do it in another thread."""
        stored = super().put(config, checkpoint, metadata, *more)
        does = self.does
        if does is not None and metadata["source"] == "loop":
            self.does = None
            with ThreadPoolExecutor(1) as other:
                other.submit(does).result()
        return stored


def test_both_speak_first_at_once(tmp_path: Path) -> None:
    """Bob's whole turn comes between the moment in which ann's message is stored and her turn."""
    chat = talk(tmp_path, ["yes"] * 9, checkpointer=Meanwhile())
    saver: Any = chat.agent.checkpointer
    saver.does = lambda: chat.say("bob 1", of("bob"))

    with pytest.raises(SessionNotFoundError):
        chat.agent.invoke({"messages": "ann 1"}, of("ann"), durability="sync")
    chat.say("bob 2", of("bob"))

    assert (session(chat, "ann"), session(chat, "bob")) == ([], ["bob 1", "bob 2"])
    assert "ann 1" not in wire(chat)


@pytest.mark.usefixtures("entry")
def test_deleted_thread_is_free(tmp_path: Path) -> None:
    """Another user may have its name then, also in a process that knew the first one."""
    chat = talk(tmp_path, ["yes"] * 9)
    for words in ("ann 1", "ann 2"):
        chat.say(words, of("ann"))

    delete_session(chat.agent, of("ann"))
    chat.say("bob 1", of("bob"))

    assert session(chat, "bob") == ["bob 1"]
    with pytest.raises(SessionNotFoundError):
        chat.say("ann 3", of("ann"))
