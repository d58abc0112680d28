"""Erasing a turn of a thread in which messages were edited and nothing was said since."""

from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import MessagesState

from ebbtide import MemoryState, erase
from tests.agents import THREAD, inside, talk
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
