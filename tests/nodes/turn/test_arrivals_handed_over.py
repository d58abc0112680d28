"""Clients that send their whole history with each question, without ids."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide.nodes.turn import arrivals, edits
from tests.agents import THREAD, Talk, talk
from tests.nodes.turn.test_arrivals_editing import CUT, cut, erase_all, three, told

pytestmark = pytest.mark.usefixtures("entry")

HISTORY = [("user", "One."), ("ai", "1"), ("user", "Two."), ("ai", "2"), ("user", "Three.")]
HISTORY += [("ai", "3")]


def handed_over(chat: Talk, *messages: Any) -> list[list[str]]:
    """Return the turns after a client sent a history without ids, and a question behind it."""
    state = chat.agent.invoke({"messages": [*messages, ("user", "New.")]}, THREAD)
    return told(chat, state)


def test_history_that_is_handed_over_with_each_message(tmp_path: Path) -> None:
    """A client that sends all it knows, without ids, has said only the last message anew."""
    chat = talk(tmp_path, lambda _: "OK.", checkpointer=InMemorySaver())
    history: list[Any] = []
    for words in ("One.", "Two.", "Three."):
        history.append(("user", words))
        state = chat.agent.invoke({"messages": history}, THREAD)
        history.append(("ai", "OK."))

    assert told(chat, state) == [[words, "OK."] for words in ("One.", "Two.", "Three.")]
    assert [m.text for m in state["messages"]] == ["One.", "OK.", "Two.", "OK.", "Three.", "OK."]


@pytest.mark.parametrize("has_ids", [False, True])
@pytest.mark.parametrize("turns", [[1], [2], [3], [1, 2, 3]])
def test_erased_turn_that_a_client_sends_again(
    tmp_path: Path, turns: list[int], *, has_ids: bool
) -> None:
    """It was said again, after the turns that the archive has: they are not said twice."""
    chat = three(tmp_path, "4")
    history = chat.agent.get_state(THREAD).values["messages"] if has_ids else HISTORY
    erase_all(chat, turns)

    found = handed_over(chat, *history)

    kept = [["One.", "1"], ["Two.", "2"], ["Three.", "3"]]
    again = [text for n in turns for text in kept[n - 1]]
    assert found[:3] == [[] if n in turns else said for n, said in enumerate(kept, 1)]
    assert [text for said in found[3:] for text in said] == [*again, "New.", "4"]


@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_edit_in_a_history_that_is_handed_over(tmp_path: Path, at: int) -> None:
    """It begins a branch, as in the messages of the thread."""
    chat = three(tmp_path, "4")
    changed = [*HISTORY]
    changed[at] = (HISTORY[at][0], "Edited.")

    found = handed_over(chat, *changed)

    assert found == [[text for _, text in changed[n : n + 2]] for n in (0, 2, 4)] + [["New.", "4"]]
    assert chat.branches == 2


def test_history_that_is_handed_over_with_instructions_or_examples(tmp_path: Path) -> None:
    """What stands before the history is new, and what does not end with the last turn is none."""
    chat = three(tmp_path, "4", "5")

    handed_over(chat, ("system", "Be kind."), *HISTORY)
    found = handed_over(chat, ("user", "One."), ("ai", "Example."))

    assert found[3:] == [["Be kind.", "New.", "4"], ["One.", "Example.", "New.", "5"]]
    assert chat.branches == 1


def test_long_history_that_is_handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its oldest turns are not compared, and are not said anew either."""
    monkeypatch.setattr(edits, "MOST_TURNS", 2)
    chat = three(tmp_path, "4")

    found = handed_over(chat, *HISTORY)

    assert found[3:] == [["New.", "4"]]


def test_long_history_that_is_handed_over_with_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same is true of one with ids."""
    monkeypatch.setattr(edits, "MOST_TURNS", 4)
    monkeypatch.setattr(arrivals, "MOST_TURNS", 4)
    chat = talk(tmp_path, lambda _: "OK.", checkpointer=InMemorySaver())
    history = [message for words in WORDS for message in chat.say(words)["messages"][-2:]]

    found = handed_over(chat, ("system", "Be kind."), *history)

    assert found[6:] == [["Be kind.", "New.", "OK."]]


@pytest.mark.parametrize("edited", [None, 0, 3, 4])
def test_history_that_is_handed_over_with_ids(tmp_path: Path, edited: int | None) -> None:
    """LangGraph leaves the newest turns at their place in `messages`: older ones are no news."""
    chat = talk(tmp_path, lambda _: "OK.", checkpointer=InMemorySaver())
    words, history = ["One.", "Two.", "Three.", "Four.", "Five."], list[Any]()
    for question in words:
        history += chat.say(question)["messages"][-2:]
    if edited is not None:
        words[edited] = "Edited."
        history[2 * edited] = history[2 * edited].model_copy(update={"content": "Edited."})

    found = handed_over(chat, *history)

    assert found == [[question, "OK."] for question in (*words, "New.")]
    assert chat.branches == (1 if edited is None else 2)


@pytest.mark.parametrize("edited", [0, 2])
def test_ids_that_a_client_had_lost_before(tmp_path: Path, edited: int) -> None:
    """The state has others then: a history with those of the archive is still no news."""
    chat = talk(tmp_path, lambda _: "OK.", checkpointer=InMemorySaver())
    history = [*chat.say_all(["One.", "Two."])[-1]["messages"]]
    chat.agent.checkpointer.delete_thread("t")  # type: ignore[union-attr]
    handed_over(chat, *[(message.type, message.text) for message in history])
    history += chat.agent.get_state(THREAD).values["messages"][-2:]
    words = ["One.", "Two.", "New."]
    words[edited] = "Edited."
    history[2 * edited] = history[2 * edited].model_copy(update={"content": "Edited."})

    found = handed_over(chat, *history)

    assert found == [[question, "OK."] for question in (*words, "New.")]


WORDS = ["One.", "Two.", "Three.", "Four.", "Five.", "Six."]


@pytest.mark.parametrize("edited", [None, 2])
@pytest.mark.parametrize("removed", [[0], [2], [0, 2, 4]])
def test_history_with_ids_after_questions_were_removed(
    tmp_path: Path, removed: list[int], edited: int | None
) -> None:
    """LangGraph puts them behind the answers that stayed: they are no part of the new question."""
    chat = three(tmp_path, "4")
    history = chat.agent.get_state(THREAD).values["messages"]
    gone: Any = [RemoveMessage(history[at].id) for at in removed]
    chat.agent.update_state(THREAD, {"messages": gone})
    words = ["One.", "Two.", "Three."]
    if edited is not None:
        words[edited] = "Edited."
        history[2 * edited] = history[2 * edited].model_copy(update={"content": "Edited."})

    found = handed_over(chat, *history)

    assert found == [[said, str(n)] for n, said in enumerate([*words, "New."], 1)]


@pytest.mark.parametrize("edited", [None, 0, 2, 6])
def test_history_with_ids_after_the_newest_question_was_removed(
    tmp_path: Path, edited: int | None
) -> None:
    """It begins before what `messages` has, and LangGraph puts what was missing at the end."""
    chat = talk(tmp_path, lambda _: "OK.", checkpointer=InMemorySaver())
    words, history = ["One.", "Two.", "Three.", "Four."], list[Any]()
    for question in words:
        history += chat.say(question)["messages"][-2:]
    chat.agent.update_state(THREAD, {"messages": [RemoveMessage(history[6].id)]})
    if edited is not None:
        words[edited // 2] = "Edited."
        history[edited] = history[edited].model_copy(update={"content": "Edited."})

    found = handed_over(chat, *history)

    assert found == [[question, "OK."] for question in (*words, "New.")]


@pytest.mark.parametrize("edited", [None, 0])
@pytest.mark.parametrize("removed", [[4, 5], [3, 4, 5]])
def test_history_without_ids_after_the_last_turn_was_removed(
    tmp_path: Path, removed: list[int], edited: int | None
) -> None:
    """What stands in `messages` already is not told twice."""
    chat = three(tmp_path, "4")
    messages = chat.agent.get_state(THREAD).values["messages"]
    gone: Any = [RemoveMessage(messages[at].id) for at in removed]
    chat.agent.update_state(THREAD, {"messages": gone})
    words = ["One.", "Two.", "Three."]
    if edited is not None:
        words[edited] = "Edited."

    found = handed_over(chat, ("user", words[0]), *HISTORY[1:])

    assert found == [[said, str(n)] for n, said in enumerate([*words, "New."], 1)]


def test_history_with_ids_behind_a_turn_that_was_cut_short(tmp_path: Path) -> None:
    """All messages before it were removed: LangGraph puts them behind its question, which stays."""
    chat = three(tmp_path, CUT, "4")
    history = chat.agent.get_state(THREAD).values["messages"]
    gone: Any = [RemoveMessage(message.id) for message in history]
    chat.agent.update_state(THREAD, {"messages": gone})
    cut(chat, ("user", "Four."))

    found = handed_over(chat, *history)

    assert found[2:] == [["Three.", "3"], ["Four."], ["New.", "4"]]
