"""A turn begins: its messages are told apart, kept and counted."""

from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from tests.agents import THREAD, talk

pytestmark = pytest.mark.usefixtures("entry")


def test_messages_keep_this_turn_and_the_last_two(tmp_path: Path) -> None:
    """The messages in state are those of this turn and of the two before it."""
    chat = talk(tmp_path, ["a", "b", "c", "d"])

    states = [chat.say(words) for words in ("one", "two", "three", "four")]

    kept = [message.text for message in states[-1]["messages"]]
    assert kept == ["two", "b", "three", "c", "four", "d"]


def test_repeated_message_ids(tmp_path: Path) -> None:
    """A model that repeats its message id and a client that repeats its own lose nothing."""
    chat = talk(tmp_path, [AIMessage("first", id="same"), AIMessage("second", id="same")])
    chat.agent.invoke({"messages": [HumanMessage("one", id="u")]}, THREAD)

    state = chat.agent.invoke({"messages": [HumanMessage("two", id="u")]}, THREAD)

    assert chat.said(state) == ["one", "two"]
    assert [m.text for m in state["messages"]] == ["one", "first", "two", "second"]
