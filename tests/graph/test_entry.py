"""A process dies when LangGraph has stored the input of a run and no node has run.

The next message to an agent of `create_memory_agent` takes along what was said then.
"""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState
from langgraph.types import Durability

from ebbtide import InputError, TurnRunningError, erase
from tests.agents import THREAD, Talk, inside, talk
from tests.doubles import call

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
@pytest.mark.parametrize("stored", [["second"], ["second", ("user", "third")]])
async def test_a_new_message_takes_it_along(
    tmp_path: Path, durability: Durability, way: str, stored: list[Any]
) -> None:
    """It is archived once, before the new message, and the model reads it."""
    chat = begun(tmp_path)
    died(chat, *stored)

    said: Any = {"messages": "last"}
    if way == "sync":
        state = chat.agent.invoke(said, THREAD, durability=durability)
    else:
        state = await chat.agent.ainvoke(said, THREAD, durability=durability)

    expected = ["first", "second", *["third"] * (len(stored) - 1), "last"]
    assert chat.said(state) == expected
    assert [m.text for m in chat.last if m.type == "human"][-2:] == expected[-2:]
    assert chat.said(chat.say("next")) == [*expected, "next"]


@pytest.mark.usefixtures("entry")
def test_resuming_answers_it(tmp_path: Path) -> None:
    """Without a new message the stored input is applied, once."""
    chat = begun(tmp_path)
    died(chat, "second")

    state = chat.agent.invoke(None, THREAD, durability="sync")

    assert chat.said(state) == ["first", "second"]
    assert chat.said(chat.say("third")) == ["first", "second", "third"]


def test_death_in_the_middle_of_a_turn_before(tmp_path: Path) -> None:
    """The unfinished turn is archived on its own, then both messages as the next turn."""
    chat = talk(tmp_path, [], checkpointer=DyingSaver())
    chat.model.answers = [call("open_effort", name="a"), RuntimeError("gone"), *["yes"] * 9]
    with pytest.raises(RuntimeError, match="gone"):
        chat.say("first", durability="sync")
    died(chat, "second")

    state = chat.say("third", durability="sync")

    turns = [[m.type for m in stored.messages] for stored in chat.turns(state)]
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


@pytest.mark.usefixtures("entry")
def test_commands_wait(tmp_path: Path) -> None:
    """An erasure beside a stored input is refused, says how to go on, and loses nothing."""
    chat = begun(tmp_path)
    died(chat, "second")
    before = [*chat.agent.get_state_history(THREAD)]

    with pytest.raises(TurnRunningError, match=r"turn 2 .* continue it with None first"):
        erase(chat.agent, THREAD, 1)

    assert [*chat.agent.get_state_history(THREAD)] == before
    assert chat.said(chat.agent.invoke(None, THREAD)) == ["first", "second"]
    assert erase(chat.agent, THREAD, 1).turn == 1
    assert chat.said(chat.say("third")) == ["second", "third"]


def test_removal_of_a_message_that_has_left(tmp_path: Path) -> None:
    """LangGraph would fail for it: it is dropped, with a question and without."""
    chat = begun(tmp_path)

    state = chat.agent.invoke({"messages": [RemoveMessage("gone"), ("user", "second")]}, THREAD)

    assert chat.said(state) == ["first", "second"]
    with pytest.raises(InputError, match="no new message"):
        chat.agent.invoke({"messages": [RemoveMessage("gone")]}, THREAD)
