"""A process dies when LangGraph has stored the input of a run and no node has run.

The next message does not drop what was said then: both are archived, in their order.
"""

import os
import signal
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import MessagesState
from langgraph.types import Durability

from ebbtide import TurnRunningError, erase
from tests.agents import THREAD, Talk, inside, talk
from tests.doubles import call

pytestmark = pytest.mark.usefixtures("entry")

DURABILITIES: list[Durability] = ["sync", "async", "exit"]


class Died(BaseException):
    """The process ended."""


class DyingSaver(InMemorySaver):
    """A checkpointer that dies once it has stored the checkpoint of a source."""

    dies_after = ""

    def put(self, config: RunnableConfig, checkpoint: Any, metadata: Any, *more: Any) -> Any:
        """Store a checkpoint, then die if it is the one."""
        stored = super().put(config, checkpoint, metadata, *more)
        if metadata.get("source") == self.dies_after:
            self.dies_after = ""
            raise Died
        return stored


def died(chat: Talk, *said: Any, source: str = "input") -> None:
    """Let the process die when each of the messages is stored as the input of a run."""
    saver: Any = chat.agent.checkpointer
    for words in said:
        saver.dies_after = source
        with pytest.raises(Died):
            chat.agent.invoke({"messages": words}, THREAD, durability="sync")


def begun(root: Path, **options: Any) -> Talk:
    """Return an agent on a checkpointer that can die, after a first turn."""
    chat = talk(root, ["yes"] * 20, checkpointer=DyingSaver(), **options)
    chat.say("first")
    return chat


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("way", ["sync", "async"])
async def test_a_new_message_takes_it_along(
    tmp_path: Path, durability: Durability, way: str
) -> None:
    """It is archived once, before the new message, and the model reads it."""
    chat = begun(tmp_path)
    died(chat, "second")

    said: Any = {"messages": "third"}
    if way == "sync":
        state = chat.agent.invoke(said, THREAD, durability=durability)
    else:
        state = await chat.agent.ainvoke(said, THREAD, durability=durability)

    assert chat.said(state) == ["first", "second", "third"]
    assert [m.text for m in chat.last if m.type == "human"][-2:] == ["second", "third"]
    assert chat.said(chat.say("fourth")) == ["first", "second", "third", "fourth"]


def test_resuming_answers_it(tmp_path: Path) -> None:
    """Without a new message the stored input is applied, once."""
    chat = begun(tmp_path)
    died(chat, "second")

    state = chat.agent.invoke(None, THREAD, durability="sync")

    assert chat.said(state) == ["first", "second"]
    assert chat.said(chat.say("third")) == ["first", "second", "third"]


@pytest.mark.parametrize("first", ["first", ""])
def test_several_deaths_in_a_row(tmp_path: Path, first: str) -> None:
    """All that was said is archived in its order, also before the first turn of a thread."""
    chat = talk(tmp_path, ["yes"] * 9, checkpointer=DyingSaver())
    if first:
        chat.say(first)
    died(chat, "second", "third", [("user", "fourth")])

    state = chat.say("fifth")

    expected = [*filter(None, [first]), "second", "third", "fourth", "fifth"]
    assert chat.said(state) == expected


def test_death_before_the_turn_began(tmp_path: Path) -> None:
    """LangGraph had applied the new message, and no node had taken the one before it along."""
    chat = begun(tmp_path)
    died(chat, "second")
    died(chat, "third", source="loop")

    state = chat.say("fourth", durability="sync")

    assert chat.said(state) == ["first", "second", "third", "fourth"]


def test_death_in_the_middle_of_a_turn_before(tmp_path: Path) -> None:
    """The unfinished turn is archived on its own, then both messages as the next turn."""
    chat = talk(tmp_path, [], checkpointer=DyingSaver())
    chat.model.answers = [call("open_effort", name="a"), RuntimeError("gone"), *["yes"] * 9]
    with pytest.raises(RuntimeError, match="gone"):
        chat.say("first", durability="sync")
    died(chat, "second")

    state = chat.say("third", durability="sync")

    turns = [[m["type"] for m in record.messages] for record in chat.records(state)]
    assert chat.said(state) == ["first", "second", "third"]
    assert [turn.count("human") for turn in turns] == [1, 2]


@pytest.mark.parametrize(
    "given",
    ["second", ("user", "second"), [("user", "second")], [HumanMessage("second", id="2")]],
)
def test_all_forms_of_an_input(tmp_path: Path, given: Any) -> None:
    """A checkpointer stores pairs as lists."""
    chat = begun(tmp_path)
    died(chat, given)

    assert chat.said(chat.say("third")) == ["first", "second", "third"]


def test_a_client_that_sends_it_again(tmp_path: Path) -> None:
    """A message with the id of the stored one is the same message."""
    chat = begun(tmp_path)
    message = HumanMessage("second", id="2")
    died(chat, [message])

    state = chat.agent.invoke({"messages": [message, HumanMessage("third", id="3")]}, THREAD)

    assert chat.said(state) == ["first", "second", "third"]


def test_an_input_that_cannot_be_applied(tmp_path: Path) -> None:
    """What failed to be applied does not fail again with each message that follows."""
    chat = begun(tmp_path)
    with pytest.raises(ValueError, match="delete a message"):
        chat.agent.invoke({"messages": [RemoveMessage("none")]}, THREAD, durability="sync")
    with pytest.raises(NotImplementedError):
        chat.agent.invoke({"messages": 7}, THREAD, durability="sync")

    assert chat.said(chat.say("third")) == ["first", "third"]


def test_going_on_from_an_older_checkpoint(tmp_path: Path) -> None:
    """A branch has nothing of what was said on the other one, stored or applied."""
    chat = begun(tmp_path)
    chat.say("second", durability="sync")
    states = [*chat.agent.get_state_history(THREAD)]
    inputs = [s for s in states if (s.metadata or {}).get("source") == "input"]
    died(chat, "third")

    edited = chat.say("second, edited", inputs[0].config, durability="sync")

    assert chat.said(edited) == ["first", "second, edited"]


def chosen(chat: Talk, source: str) -> RunnableConfig:
    """Return the config of a run from the newest checkpoint of a source."""
    states = chat.agent.get_state_history(THREAD)
    return next(s.config for s in states if (s.metadata or {}).get("source") == source)


@pytest.mark.parametrize(
    ("source", "words", "expected"),
    [
        ("input", None, ["second", "third"]),
        ("loop", None, ["second", "third"]),
        ("loop", "fourth", ["second", "third", "fourth"]),
        ("input", "fourth", ["fourth"]),  # in place of the stored input
    ],
)
@pytest.mark.parametrize("way", ["sync", "async"])
async def test_a_checkpoint_before_which_a_message_waited(
    tmp_path: Path, source: str, words: str | None, expected: list[str], way: str
) -> None:
    """A run from it has what was said up to that checkpoint, and nothing of another branch."""
    chat = begun(tmp_path)
    died(chat, "second")
    died(chat, "third", source=source)
    fork, said = chosen(chat, source), words and {"messages": words}
    chat.say("another branch", durability="sync")

    if way == "sync":
        state = chat.agent.invoke(said, fork, durability="sync")
    else:
        state = await chat.agent.ainvoke(said, fork, durability="sync")

    assert chat.said(state) == ["first", *expected]
    assert chat.said(chat.say("next")) == ["first", *expected, "next"]


@pytest.mark.parametrize(
    ("source", "dies"), [("input", "fork"), ("input", "loop"), ("loop", "loop")]
)
def test_death_of_a_run_from_a_checkpoint(tmp_path: Path, source: str, dies: str) -> None:
    """The run after it takes along what that one would have."""
    chat = begun(tmp_path)
    died(chat, "second")
    died(chat, "third", source=source)
    saver: Any = chat.agent.checkpointer
    fork = chosen(chat, source)
    chat.say("another branch", durability="sync")
    saver.dies_after = dies
    with pytest.raises(Died):
        chat.agent.invoke(None, fork, durability="sync")

    assert chat.said(chat.say("next")) == ["first", "second", "third", "next"]


def test_the_same_question_again(tmp_path: Path) -> None:
    """Turns that say the same are counted as they are where nothing was lost."""
    chat = begun(tmp_path)

    states = [chat.say("again", durability=durability) for durability in DURABILITIES]

    assert chat.said(states[-1]) == ["first", "again", "again", "again"]


def test_inside_a_larger_graph_it_is_the_larger_graphs(tmp_path: Path) -> None:
    """The agent takes along nothing that its parent did not hand over."""
    chat = talk(tmp_path, ["yes"] * 9, checkpointer=None)
    outer = inside(chat, MessagesState)
    outer.checkpointer = DyingSaver()
    outer.invoke({"messages": "first"}, THREAD)
    died(Talk(outer, chat.model, chat.archive), "second")

    state = outer.invoke({"messages": "third"}, THREAD)

    assert [m.text for m in state["messages"] if m.type == "human"] == ["first", "third"]
    assert [m.text for m in chat.last if m.type == "human"][-1] == "third"


def test_commands_wait(tmp_path: Path) -> None:
    """A thread with a stored input is not at rest, so nothing that changes it drops the input."""
    chat = begun(tmp_path)
    died(chat, "second")

    with pytest.raises(TurnRunningError):
        erase(chat.agent, THREAD, 1)


def questions_sent(root: Path, entry: str, kill_at: Sequence[int]) -> None:
    """Say one thing in each child process, which is killed at that statement of the saver."""
    for number, statements in enumerate(kill_at, 1):
        if os.fork() == 0:
            _killed(root, entry, f"message {number}", statements)
        assert os.WIFSIGNALED(os.wait()[1])


def _killed(root: Path, entry: str, words: str, statements: int) -> None:
    left = [statements]

    def traced(statement: str) -> None:
        left[0] -= "INTO checkpoints" in statement
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        with closing(sqlite3.connect(root / "c.sqlite", check_same_thread=False)) as connection:
            chat = talk(root, ["yes"], checkpointer=SqliteSaver(connection), entry=entry)
            connection.set_trace_callback(traced)
            chat.say(words, durability="sync")
    finally:
        os._exit(1)


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("stored", [(1, 1), (1, 2, 1, 1), (2, 1, 2, 1)])
async def test_killed_processes(
    tmp_path: Path, entry: str, stored: tuple[int, ...], way: str
) -> None:
    """Each child stores so many checkpoints before it is killed: its input, then it applied."""
    questions_sent(tmp_path, entry, stored)

    path = str(tmp_path / "c.sqlite")
    if way == "sync":
        with SqliteSaver.from_conn_string(path) as saver:
            chat = talk(tmp_path, ["yes"] * 2, checkpointer=saver)
            state = chat.say("last")
    else:
        async with AsyncSqliteSaver.from_conn_string(path) as asaver:
            chat = talk(tmp_path, ["yes"] * 2, checkpointer=asaver)
            state = await chat.say_by("async", "last")

    expected = [f"message {number}" for number in range(1, len(stored) + 1)]
    assert chat.said(state) == [*expected, "last"]


class _Written(InMemorySaver):
    """Another thread writes to it while it is listed for the first time."""

    is_written = True

    def list(self, *args: Any, **options: Any) -> Any:
        if self.is_written:
            self.is_written = False
            raise RuntimeError("dictionary changed size during iteration")
        yield from super().list(*args, **options)


def test_checkpoints_that_change_while_they_are_listed(tmp_path: Path) -> None:
    """`InMemorySaver` is no lock: it is asked again."""
    chat = talk(tmp_path, ["Yes.", "Still."], checkpointer=_Written())

    assert chat.say("Is it?")["messages"][-1].text == "Yes."
    assert chat.say("And now?")["messages"][-1].text == "Still."
