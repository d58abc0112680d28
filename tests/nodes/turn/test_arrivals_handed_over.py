"""Clients that send their whole history with each question, without ids."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from ebbtide.memory.errors import InputError
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


@pytest.mark.parametrize("turns", [[1], [2], [3], [2, 3], [1, 2, 3]])
def test_erased_turn_in_a_history_that_is_handed_over(tmp_path: Path, turns: list[int]) -> None:
    """It does not come back with what the client still has of it."""
    chat = three(tmp_path, "4")
    erase_all(chat, turns)

    found = handed_over(chat, *HISTORY)

    kept = [["One.", "1"], ["Two.", "2"], ["Three.", "3"]]
    assert found == [*([] if n in turns else t for n, t in enumerate(kept, 1)), ["New.", "4"]]
    assert chat.branches == 1


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


@pytest.mark.parametrize("erased", [None, 2])
def test_long_history_that_is_handed_over_with_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, erased: int | None
) -> None:
    """The same is true of one with ids, and erased turns among the oldest stay out of the new."""
    monkeypatch.setattr(edits, "MOST_TURNS", 4)
    monkeypatch.setattr(arrivals, "MOST_TURNS", 4)
    chat = talk(tmp_path, lambda _: "OK.", checkpointer=InMemorySaver())
    history = [message for words in WORDS for message in chat.say(words)["messages"][-2:]]
    erase_all(chat, [erased] if erased else [])

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


@pytest.mark.parametrize("turn", [2, 3])
def test_erased_turn_in_a_history_with_ids(tmp_path: Path, turn: int) -> None:
    """It neither comes back nor takes the place of another turn."""
    chat = talk(tmp_path, lambda _: "OK.", checkpointer=InMemorySaver())
    history: list[Any] = []
    for question in ("One.", "Two.", "Three.", "Four.", "Five.", "Six."):
        history += chat.say(question)["messages"][-2:]
    erase_all(chat, [turn])
    chat.say_all(["Seven.", "Eight."])

    found = handed_over(chat, *history)

    words = ["One.", "Two.", "Three.", "Four.", "Five.", "Six.", "Seven.", "Eight.", "New."]
    assert found == [[] if n == turn else [said, "OK."] for n, said in enumerate(words, 1)]


WORDS = ["One.", "Two.", "Three.", "Four.", "Five.", "Six."]


@pytest.mark.parametrize("turns", [[6], [5, 6], [2, 6]])
def test_erased_turn_in_a_history_with_ids_after_the_checkpoints_were_lost(
    tmp_path: Path, turns: list[int]
) -> None:
    """It is known by its ids there too, and what is told after the history is adopted."""
    chat = talk(tmp_path, lambda _: "OK.", checkpointer=InMemorySaver())
    history = [message for words in WORDS for message in chat.say(words)["messages"][-2:]]
    erase_all(chat, turns)
    chat.agent.checkpointer.delete_thread("t")  # type: ignore[union-attr]

    found = handed_over(chat, *history, ("user", "For example."), ("ai", "Like this."))

    kept = [[] if n in turns else [words, "OK."] for n, words in enumerate(WORDS, 1)]
    assert found == [*kept, ["For example.", "Like this."], ["New.", "OK."]]
    assert chat.branches == 1


def test_erased_turn_behind_one_that_was_cut_short_after_the_checkpoints_were_lost(
    tmp_path: Path,
) -> None:
    """The question that nobody answered is no part of the new one."""
    chat = talk(tmp_path, ["1", CUT, "3", "4"], checkpointer=InMemorySaver())
    history = chat.say("One.")["messages"]
    cut(chat, ("user", "Two."))
    history += chat.say("Three.")["messages"][-3:]
    erase_all(chat, [3])
    chat.agent.checkpointer.delete_thread("t")  # type: ignore[union-attr]

    assert handed_over(chat, *history) == [["One.", "1"], ["Two."], [], ["New.", "4"]]
    assert chat.branches == 1


def test_erased_question_is_asked_again_after_the_checkpoints_were_lost(tmp_path: Path) -> None:
    """It is the question there too."""
    chat = talk(tmp_path, lambda _: "OK.", checkpointer=InMemorySaver())
    *history, question, _ = chat.say_all(["One.", "Two."])[-1]["messages"]
    erase_all(chat, [2])
    chat.agent.checkpointer.delete_thread("t")  # type: ignore[union-attr]

    state = chat.agent.invoke({"messages": [*history, question]}, THREAD)

    assert told(chat, state) == [["One.", "OK."], [], ["Two.", "OK."]]


@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize("turns", [[6], [5, 6], [2, 6], [3, 5]])
def test_newest_turn_that_was_erased_in_a_history_with_ids(
    tmp_path: Path, turns: list[int], *, removed: bool
) -> None:
    """It is known by its ids, whatever the client removed, and stays out of the new turn."""
    chat = talk(tmp_path, lambda _: "OK.", checkpointer=InMemorySaver())
    history = [message for words in WORDS for message in chat.say(words)["messages"][-2:]]
    erase_all(chat, turns)
    first: list[Any] = [RemoveMessage(REMOVE_ALL_MESSAGES)] if removed else []
    example = [HumanMessage("For example.", id="a"), AIMessage("Like this.", id="b")]

    state = chat.agent.invoke({"messages": [*first, *history, *example, ("user", "New.")]}, THREAD)

    kept = [[] if n in turns else [words, "OK."] for n, words in enumerate(WORDS, 1)]
    assert told(chat, state) == [*kept, ["For example.", "Like this.", "New.", "OK."]]
    assert chat.branches == 1


def test_erased_turn_takes_no_place_of_a_later_one(tmp_path: Path) -> None:
    """The client removed that one, and its history has the erased turn in its place."""
    chat = talk(tmp_path, lambda _: "OK.", checkpointer=InMemorySaver())
    history = [message for words in WORDS[:3] for message in chat.say(words)["messages"][-2:]]
    erase_all(chat, [3])
    chat.say("Later.")

    sent = [RemoveMessage(REMOVE_ALL_MESSAGES), *history, ("user", "New.")]
    state = chat.agent.invoke({"messages": sent}, THREAD)

    assert told(chat, state) == [
        ["One.", "OK."],
        ["Two.", "OK."],
        [],
        *([words, "OK."] for words in ("Later.", "New.")),
    ]
    assert chat.branches == 1


def test_erased_question_is_asked_again_under_its_id(tmp_path: Path) -> None:
    """What a client sends as the question is one, though its earlier turn is gone."""
    chat = talk(tmp_path, lambda _: "OK.", checkpointer=InMemorySaver())
    question, _ = chat.say("One.")["messages"]
    erase_all(chat, [1])

    state = chat.agent.invoke({"messages": [question]}, THREAD)

    assert told(chat, state) == [[], ["One.", "OK."]]


@pytest.mark.parametrize("example", [[], [("ai", "Like this.")]])
def test_erased_question_is_asked_again_behind_other_messages(
    tmp_path: Path, example: list[Any]
) -> None:
    """It is still the question then."""
    chat = talk(tmp_path, lambda _: "OK.", checkpointer=InMemorySaver())
    *_, question, _ = chat.say_all(["One.", "Two."])[-1]["messages"]
    erase_all(chat, [2])

    sent = [("user", "See."), *example, question]
    state = chat.agent.invoke({"messages": sent}, THREAD)

    words = ["See.", *(text for _, text in example), "Two.", "OK."]
    assert told(chat, state) == [["One.", "OK."], [], words]


def test_erased_turn_alone_is_no_new_one(tmp_path: Path) -> None:
    """Its question has its answer, so nothing is asked or unfinished; the next message is."""
    chat = talk(tmp_path, lambda _: "OK.", checkpointer=InMemorySaver())
    messages = chat.say_all(["One.", "Two."])[-1]["messages"]
    erase_all(chat, [2])

    with pytest.raises(InputError):
        chat.agent.invoke({"messages": messages}, THREAD)
    erase_all(chat, [1])

    assert told(chat, chat.say("New.")) == [[], [], ["New.", "OK."]]


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
