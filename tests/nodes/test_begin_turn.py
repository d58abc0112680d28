"""A turn begins: its messages are told apart, kept and counted."""

from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from ebbtide.memory.errors import InputError
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


def test_nothing_new_is_an_error(tmp_path: Path) -> None:
    """An input without a new message is an error that says what to pass, and changes nothing."""
    chat = talk(tmp_path, ["hello", "again"])
    chat.say("hi")

    with pytest.raises(InputError, match="no new message"):
        chat.agent.invoke({"messages": []}, THREAD)

    assert chat.said(chat.say("hi again")) == ["hi", "hi again"]


def test_run_without_a_checkpointer_is_a_session(tmp_path: Path) -> None:
    """Without a checkpointer each run is a session of its own, with an id of its own."""
    chat = talk(tmp_path, ["a", "b"], checkpointer=None)

    first, second = chat.agent.invoke({"messages": "x"}), chat.agent.invoke({"messages": "x"})

    assert len(chat.archive.sessions("")) == 2
    assert first["memory"]["turn"] == second["memory"]["turn"] == 1
