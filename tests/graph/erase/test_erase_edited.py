"""Erasing a turn of a thread in which messages were edited and nothing was said since."""

from pathlib import Path

import pytest
from langchain_core.messages import RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from ebbtide import MemoryState, erase
from tests.agents import THREAD, inside, talk
from tests.nodes.turn.test_histories import OLD, branches

WORDS = ["One.", "Two.", "Three."]


@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize("new_id", [False, True])
@pytest.mark.parametrize("turn", [1, 2])
def test_edit_goes_with_an_erasure(tmp_path: Path, turn: int, *, new_id: bool) -> None:
    """The thread has the turns as the archive does, and the report names the edited one."""
    chat = talk(tmp_path, ["1", "2", "3", "4"], checkpointer=InMemorySaver())
    chat.say_all(WORDS)
    messages = chat.agent.get_state(THREAD).values["messages"]
    other = {"id": "other"} if new_id else {}
    messages[2] = messages[2].model_copy(update={"content": "Edited.", **other})
    update = {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), *messages]}
    chat.agent.update_state(THREAD, update)

    report = erase(chat.agent, THREAD, turn)

    left = [[] if n == turn else said for n, said in enumerate(OLD, 1)]
    assert (report.lost_edits, report.not_erased) == ((2,), ())
    chat.say("New.")
    assert branches(chat) == [[*left, ["New.", "4"]]]


def test_edit_of_the_first_turn_in_a_graph_that_keeps_messages(tmp_path: Path) -> None:
    """The other turns still show which thread it is; the edit goes with the erasure."""
    outer = inside(talk(tmp_path, lambda _: "OK.", checkpointer=None), MessagesState)
    for words in WORDS:
        outer.invoke({"messages": words}, THREAD)
    question = outer.get_state(THREAD).values["messages"][0]
    question = question.model_copy(update={"content": "Edited."})
    outer.update_state(THREAD, {"messages": [question]})

    erase(outer, THREAD, 3)
    outer.invoke({"messages": "Four."}, THREAD)

    told_now = [message.text for message in outer.get_state(THREAD).values["messages"]]
    assert told_now == ["One.", "OK.", "Two.", "OK.", "Four.", "OK."]


def test_edit_in_a_larger_graph(tmp_path: Path) -> None:
    """It goes there too."""
    chat = talk(tmp_path, lambda _: "OK.", checkpointer=None)
    outer = inside(chat, MemoryState)
    for words in WORDS:
        before = outer.invoke({"messages": words}, THREAD)
    question = before["messages"][2].model_copy(update={"content": "Edited."})
    outer.update_state(THREAD, {"messages": [question]})

    erase(outer, THREAD, 1)

    messages = outer.get_state(THREAD).values["messages"]
    assert [message.text for message in messages] == ["Two.", "OK.", "Three.", "OK."]
