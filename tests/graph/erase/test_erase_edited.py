"""Erasing a turn of a thread in which messages were edited and nothing was said since."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import RemoveMessage
from langgraph.graph import MessagesState
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from ebbtide import MemoryState, erase
from ebbtide.memory.attachments import references
from ebbtide.memory.errors import NotAdoptedError
from ebbtide.memory.record import Owner
from tests.agents import THREAD, inside, talk
from tests.doubles import call
from tests.nodes.turn.test_arrivals_editing import edit, three, told

WORDS = ["One.", "Two.", "Three."]


@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize("edited", [1, 2, 3])
@pytest.mark.parametrize("turn", [1, 2, 3])
def test_edit_of_another_turn_stays(tmp_path: Path, turn: int, edited: int) -> None:
    """The next turn archives it; what was edited of the erased turn is gone with it."""
    chat = three(tmp_path, "4")
    edit(chat, WORDS[edited - 1], "Edited.")

    report = erase(chat.agent, THREAD, turn)

    left = [[words, str(n)] for n, words in enumerate(WORDS, 1)]
    left[edited - 1][0], left[turn - 1] = "Edited.", []
    assert told(chat, chat.say("New.")) == [*left, ["New.", "4"]]
    kept = [f"the edit of turn {edited}, which no turn has archived yet"]
    assert [line for line in report.not_erased if "edit" in line] == kept * (turn != edited)


@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize("at", [2, 3, 4, 5])
def test_edit_under_another_id(tmp_path: Path, at: int) -> None:
    """It stays too, and is not taken for what came before the thread."""
    chat = three(tmp_path, "4")
    messages = chat.agent.get_state(THREAD).values["messages"]
    messages[at] = messages[at].model_copy(update={"content": "Edited.", "id": "other"})
    update = {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), *messages]}
    chat.agent.update_state(THREAD, update)

    erase(chat.agent, THREAD, 1)

    left = [message.text for message in messages]
    assert told(chat, chat.say("New.")) == [[], left[2:4], left[4:], ["New.", "4"]]


@pytest.mark.usefixtures("entry")
def test_edit_of_a_turn_that_repeats_the_erased_one(tmp_path: Path) -> None:
    """Its other messages are those of the archive, without the erased text."""
    said = "The north gate is locked at nine."
    answers = [call("open_effort", name="gate"), "Opened.", said, call("close_effort"), "Closed."]
    chat = talk(tmp_path, answers, [{"summary": said}, {"summary": "It was kept."}])
    chat.say_all(["Open it.", "When is it locked?", "Close it."])
    edit(chat, "Close it.", "Shut it.")

    erase(chat.agent, THREAD, 2)

    values = chat.agent.get_state(THREAD).values
    assert [m.text for m in values["messages"] if m.type == "human"] == ["Open it.", "Shut it."]
    assert said not in str(values)


@pytest.mark.usefixtures("entry")
def test_edit_of_an_old_turn_stays(tmp_path: Path) -> None:
    """It may be older than the turns that the state has otherwise, if later ones are erased."""
    chat = three(tmp_path, *"4567")
    erase(chat.agent, THREAD, 3)
    chat.say_all(["Four.", "Five."])
    edit(chat, "Two.", "Edited.")

    erase(chat.agent, THREAD, 1)

    assert told(chat, chat.say("New."))[:3] == [[], ["Edited.", "2"], []]


@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize("erased", [[], [3], [3, 3], [2]])
def test_large_file_of_an_edit_is_stored(tmp_path: Path, erased: list[int]) -> None:
    """The archive has it after the next turn, though the edited turn left `messages`."""
    chat = three(tmp_path, "4")
    file = {"type": "file", "base64": "A" * 70_000, "mime_type": "application/zip"}
    edit(chat, "One.", [{"type": "text", "text": "Edited."}, file])

    for turn in erased:
        erase(chat.agent, THREAD, turn)

    record = chat.records(chat.say("New."))[0]
    contents = [message["data"]["content"] for message in record.messages]
    (data,) = chat.archive.attachments(Owner("", "t"), [*references(contents)]).values()
    assert data == file["base64"]


def test_edit_of_the_first_turn_in_a_graph_that_keeps_messages(tmp_path: Path) -> None:
    """The graph no longer shows which thread it is: the error says what to do."""
    outer = inside(talk(tmp_path, lambda _: "OK.", checkpointer=None), MessagesState)
    for words in WORDS:
        outer.invoke({"messages": words}, THREAD)
    question = outer.get_state(THREAD).values["messages"][0]
    question = question.model_copy(update={"content": "Edited."})
    outer.update_state(THREAD, {"messages": [question]})

    with pytest.raises(NotAdoptedError, match="adopted when the next message is sent"):
        erase(outer, THREAD, 3)

    outer.invoke({"messages": "Four."}, THREAD)
    erase(outer, THREAD, 3)
    told_now = [message.text for message in outer.get_state(THREAD).values["messages"]]
    assert told_now == ["Edited.", "OK.", "Two.", "OK.", "Four.", "OK."]


@pytest.mark.parametrize("schema", [MemoryState, MessagesState])
def test_edit_in_a_larger_graph(tmp_path: Path, schema: Any) -> None:
    """It stays there too."""
    chat = talk(tmp_path, lambda _: "OK.", checkpointer=None)
    outer = inside(chat, schema)
    for words in WORDS:
        before = outer.invoke({"messages": words}, THREAD)
    question = before["messages"][2].model_copy(update={"content": "Edited."})
    outer.update_state(THREAD, {"messages": [question]})

    erase(outer, THREAD, 1)

    messages = outer.get_state(THREAD).values["messages"]
    assert [message.text for message in messages] == ["Edited.", "OK.", "Three.", "OK."]
