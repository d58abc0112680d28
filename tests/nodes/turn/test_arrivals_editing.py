"""An edit of a turn is seen as one whatever was erased, cut short or handed over before."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Overwrite

from ebbtide import erase, restore
from ebbtide.memory.messages import call_id, text
from ebbtide.memory.turn import Session
from tests.agents import THREAD, Talk, talk
from tests.doubles import call, together

pytestmark = pytest.mark.usefixtures("entry")

SESSION = Session("", "t")
CUT = ConnectionError("gone")


def three(root: Path, *more: Any) -> Talk:
    """Return a conversation of three turns; what else is answered follows."""
    chat = talk(root, ["1", "2", "3", *more], checkpointer=InMemorySaver())
    for words in ("One.", "Two.", "Three."):
        chat.say(words)
    return chat


def lossy(root: Path, *more: Any) -> Talk:
    """Return a conversation whose last turn lost text: its result told what turn 2 said."""
    said = "The north gate is locked at nine."
    answers = [call("open_effort", name="gate"), "Opened.", said, call("close_effort"), "Closed."]
    chat = talk(root, [*answers, *more], [{"summary": said}, {"summary": "It was kept."}])
    for words in ("Open it.", "When is it locked?", "Close it."):
        chat.say(words)
    erase(chat.agent, THREAD, 2)
    return chat


def cut(chat: Talk, *messages: Any) -> None:
    """Let the model fail in a turn of these messages."""
    with pytest.raises(ConnectionError):
        chat.agent.invoke({"messages": [*messages]}, THREAD)


def cut_all(chat: Talk, questions: list[str]) -> None:
    """Let the model fail in a turn for each of these questions."""
    for question in questions:
        cut(chat, ("user", question))


def erase_all(chat: Talk, turns: list[int]) -> None:
    """Erase these turns."""
    for turn in turns:
        erase(chat.agent, THREAD, turn)


def edit(chat: Talk, before: str, after: str | list[Any]) -> None:
    """Put another text in the place of a message."""
    messages = chat.agent.get_state(THREAD).values["messages"]
    found = next(one for one in messages if one.text == before)
    changed = found.model_copy(update={"content": after})
    chat.agent.update_state(THREAD, {"messages": [changed]})


def told(chat: Talk, state: dict[str, Any]) -> list[list[str]]:
    """Return what each turn says, but for tools."""
    turns = chat.turns(state)
    kept = [[m for m in one.messages if m.type != "tool"] for one in turns]
    return [[text(m) for m in turn if text(m)] for turn in kept]


@pytest.mark.parametrize("cuts", [0, 1, 2])
def test_turn_that_lost_text(tmp_path: Path, cuts: int) -> None:
    """What an erasure took from the last turn is no edit of it, also when the next is cut short."""
    chat = lossy(tmp_path, *[CUT] * cuts, "Yes.")
    cut_all(chat, [f"Go on {number}." for number in range(cuts)])

    state = chat.say("Again.")

    statuses = [one.status for one in chat.turns(state)]
    assert statuses == ["done", "erased", "done", *["aborted"] * cuts, "done"]
    assert chat.branches == 1


@pytest.mark.parametrize("cuts", [0, 1])
def test_edit_of_a_turn_that_lost_text(tmp_path: Path, cuts: int) -> None:
    """It begins a branch, with the turn as it is now."""
    chat = lossy(tmp_path, *[CUT] * cuts, "Yes.")
    cut_all(chat, ["Go on."] * cuts)
    edit(chat, "Close it.", "Shut it.")

    state = chat.say("Again.")

    assert told(chat, state)[2] == ["Shut it.", "Closed."]
    assert chat.branches == 2


def test_edit_of_an_answer_that_stands_beside_lost_text(tmp_path: Path) -> None:
    """The archive has the answer that the chat shows."""
    chat = lossy(tmp_path, "Yes.")
    edit(chat, "Closed.", "Shut.")

    state = chat.say("Again.")

    assert told(chat, state)[2] == ["Close it.", "Shut."]


def weather(city: str) -> str:
    """Return the weather."""
    return f"{city}: rain"


def looked_up(root: Path) -> tuple[Talk, AIMessage, list[ToolMessage]]:
    """Return a conversation, and its message with two calls of one tool and their results."""
    asking = together(call("weather", city="Bonn"), call("weather", city="Rome"))
    chat = talk(root, [asking, "Rain.", "2"], tools=[weather])
    _, calling, *results, _ = chat.say("How is the weather?")["messages"]
    return chat, calling, results


def test_results_that_change_places(tmp_path: Path) -> None:
    """An edit of nothing but the calls that results answer is one."""
    chat, _, results = looked_up(tmp_path)
    ids = [one.tool_call_id for one in results]
    changed = [
        one.model_copy(update={"tool_call_id": other})
        for one, other in zip(results, reversed(ids), strict=True)
    ]
    chat.agent.update_state(THREAD, {"messages": changed})

    state = chat.say("Again.")

    kept = [call_id(m) for m in chat.turns(state)[0].messages if m.type == "tool"]
    assert kept == [*reversed(ids)]
    assert chat.branches == 2


@pytest.mark.parametrize("repeated", ["", "call_1_weather"])
def test_calls_that_a_client_hands_back_without_ids_of_their_own(
    tmp_path: Path, repeated: str
) -> None:
    """They are the calls to which the memory gave ids, and no edit."""
    chat, calling, _ = looked_up(tmp_path)
    first, second = calling.tool_calls
    bare = [{**first, "id": repeated or None}, {**second, "id": repeated or None}]
    changed = calling.model_copy(update={"tool_calls": bare})
    chat.agent.update_state(THREAD, {"messages": [changed]})

    chat.say("Again.")

    assert chat.branches == 1


def test_edit_after_a_history_was_handed_over(tmp_path: Path) -> None:
    """The thread lost its checkpoints, and a turn was cut short: the edit is still one."""
    chat = three(tmp_path, CUT, "4")
    history = chat.agent.get_state(THREAD).values["messages"]
    chat.agent.checkpointer.delete_thread("t")  # type: ignore[union-attr]  # there is one
    cut(chat, *history, HumanMessage("Four."))
    edit(chat, "Three.", "Drei.")

    state = chat.say("New.")

    assert told(chat, state) == [
        *(["One.", "1"], ["Two.", "2"], ["Drei.", "3"]),
        *(["Four."], ["New.", "4"]),
    ]
    assert chat.branches == 2


def test_edit_of_the_first_question_that_was_handed_over(tmp_path: Path) -> None:
    """The thread lost its checkpoints, and the client has no calls: it is no summary."""
    answers = [call("open_effort", name="gate"), "Opened.", "2", "3"]
    chat = talk(tmp_path, answers, checkpointer=InMemorySaver())
    chat.say("Open it.")
    chat.agent.checkpointer.delete_thread("t")  # type: ignore[union-attr]  # there is one
    history = [("user", "Open it."), ("ai", "Opened."), ("user", "Two.")]
    chat.agent.invoke({"messages": history}, THREAD)
    edit(chat, "Open it.", "Open the gate.")

    state = chat.say("Three.")

    assert told(chat, state) == [["Open the gate.", "Opened."], ["Two.", "2"], ["Three.", "3"]]
    assert chat.branches == 2


def test_history_without_results_that_is_cut_short(tmp_path: Path) -> None:
    """What a client leaves out of a turn is no edit of it."""
    answers = [call("open_effort", name="gate"), "Opened.", CUT, "Yes."]
    chat = talk(tmp_path, answers, checkpointer=InMemorySaver())
    chat.say("Open it.")
    chat.agent.checkpointer.delete_thread("t")  # type: ignore[union-attr]  # there is one
    cut(chat, ("user", "Open it."), ("ai", "Opened."), ("user", "Go on."))

    state = chat.say("Again.")

    assert told(chat, state) == [["Open it.", "Opened."], ["Go on."], ["Again.", "Yes."]]
    assert chat.branches == 1


def test_edit_after_an_id_was_repeated(tmp_path: Path) -> None:
    """A message with an old id is a new one, and what is edited later is an edit."""
    chat = three(tmp_path, CUT, "4")
    third = chat.agent.get_state(THREAD).values["messages"][-2]
    cut(chat, third.model_copy(update={"content": "Three, changed."}))
    edit(chat, "Three.", "Drei.")

    state = chat.say("New.")

    assert told(chat, state)[2:] == [["Drei.", "3"], ["Three, changed."], ["New.", "4"]]


@pytest.mark.parametrize(("erased", "edited"), [([2], "One."), ([2, 3], "One.")])
def test_edit_of_an_older_turn_beside_an_erased_one(
    tmp_path: Path, erased: list[int], edited: str
) -> None:
    """It begins a branch at its place, and what followed stands there too, as far as it is left."""
    chat = three(tmp_path, "4")
    erase_all(chat, erased)
    edit(chat, edited, "Zwei.")

    state = chat.say("New.")

    turns = [["One.", "1"], ["Two.", "2"], ["Three.", "3"]]
    kept = [[] if at in erased else turn for at, turn in enumerate(turns, 1)]
    changed = [["Zwei." if one == edited else one for one in turn] for turn in kept]
    assert told(chat, state) == [*changed, ["New.", "4"]]
    assert chat.branches == 2
    assert not [one for one in chat.archive.verify(SESSION) if one.fatal]


@pytest.mark.parametrize("new_ids", ["none", "one", "all"])
@pytest.mark.parametrize("edited", ["Two.", "2", "Three.", "3"])
def test_edit_by_whatever_ids(tmp_path: Path, edited: str, new_ids: str) -> None:
    """A message that differs at its place is an edit, whatever ids the messages have now."""
    chat = three(tmp_path, "4")
    messages = chat.agent.get_state(THREAD).values["messages"]
    fresh = [
        {"id": None} if new_ids == "all" or (new_ids == "one" and m.text == edited) else {}
        for m in messages
    ]
    now = [
        m.model_copy(update={**new, **({"content": "Edited."} if m.text == edited else {})})
        for m, new in zip(messages, fresh, strict=True)
    ]
    chat.agent.update_state(THREAD, {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), *now]})

    state = chat.say("New.")

    turns = [["One.", "1"], ["Two.", "2"], ["Three.", "3"]]
    changed = [["Edited." if one == edited else one for one in turn] for turn in turns]
    assert told(chat, state) == [*changed, ["New.", "4"]]
    assert chat.branches == 2
    assert state["memory"]["banners"] == []


@pytest.mark.parametrize("kept", [0, 1, 2, 3, 4, 5])
def test_removed_message_is_no_edit(tmp_path: Path, kept: int) -> None:
    """The archive has what a client removed, and the thread goes on from its last turn."""
    chat = three(tmp_path, "4")
    gone = chat.agent.get_state(THREAD).values["messages"][kept]
    chat.agent.update_state(THREAD, {"messages": [RemoveMessage(gone.id)]})

    state = chat.say("New.")

    assert told(chat, state) == [["One.", "1"], ["Two.", "2"], ["Three.", "3"], ["New.", "4"]]
    assert chat.branches == 1


@pytest.mark.parametrize("at", [0, 2, 6])
def test_unknown_messages_of_the_past_are_adopted(tmp_path: Path, at: int) -> None:
    """Instead of the known messages or between them; before all of them they may be a summary."""
    chat = three(tmp_path, "4", "5")
    messages = chat.agent.get_state(THREAD).values["messages"]
    other = [HumanMessage("To another."), AIMessage("Of another.")]
    now = [*messages[:at], *other, *messages[at:]] if at < len(messages) else other
    chat.agent.update_state(THREAD, {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), *now]})

    chat.say("New.")
    state = chat.say("Newer.")

    adopted = [["To another.", "Of another."]] if at else []
    assert told(chat, state)[3:] == [*adopted, ["New.", "4"], ["Newer.", "5"]]
    assert chat.branches == 1


def test_last_turn_erased_and_the_next_cut_short(tmp_path: Path) -> None:
    """The turn before is not taken for the erased one."""
    chat = three(tmp_path, CUT, CUT, "4")
    erase(chat.agent, THREAD, 3)
    cut(chat, ("user", "Go on."))
    cut(chat, ("user", "Please."))

    state = chat.say("New.")

    assert told(chat, state) == [
        ["One.", "1"],
        ["Two.", "2"],
        [],
        ["Go on."],
        ["Please."],
        ["New.", "4"],
    ]
    assert chat.branches == 1


@pytest.mark.parametrize("cuts", [1, 2])
def test_question_that_was_removed_and_the_next_turn_cut_short(tmp_path: Path, cuts: int) -> None:
    """The turn before is not taken for the one whose question left the state."""
    chat = three(tmp_path, *[CUT] * cuts, "4")
    third = chat.agent.get_state(THREAD).values["messages"][-2]
    chat.agent.update_state(THREAD, {"messages": [RemoveMessage(third.id)]})
    cut_all(chat, ["Go on."] * cuts)

    state = chat.say("New.")

    kept = [["One.", "1"], ["Two.", "2"], ["Three.", "3"]]
    assert told(chat, state) == [*kept, *[["Go on."]] * cuts, ["New.", "4"]]
    assert chat.branches == 1


@pytest.mark.parametrize("removed", [1, 2])
def test_model_that_repeats_the_id_of_a_removed_answer(tmp_path: Path, removed: int) -> None:
    """What it says then is a turn of its own, and archived as such."""
    answers = ["1", AIMessage("2", id="x"), AIMessage("3", id="x"), "4"]
    chat = talk(tmp_path, answers, checkpointer=InMemorySaver())
    chat.say_all(("One.", "Two."))
    messages = chat.agent.get_state(THREAD).values["messages"]
    gone = [RemoveMessage(message.id) for message in messages[-removed:]]
    chat.agent.update_state(THREAD, {"messages": gone})
    chat.say("Three.")

    state = chat.say("Four.")

    assert told(chat, state)[-1] == ["Four.", "4"]
    assert "3" in told(chat, state)[-2]
    assert "Three." in told(chat, state)[-2]


def test_last_turn_that_was_removed_behind_one_without_an_answer(tmp_path: Path) -> None:
    """The question that nobody answered is archived, and not asked again with the next."""
    chat = talk(tmp_path, ["1", CUT, "3", "4"], checkpointer=InMemorySaver())
    chat.say("One.")
    cut(chat, ("user", "Two."))
    chat.say("Three.")
    messages = chat.agent.get_state(THREAD).values["messages"]
    chat.agent.update_state(THREAD, {"messages": [RemoveMessage(m.id) for m in messages[-2:]]})

    state = chat.say("New.")

    assert told(chat, state) == [["One.", "1"], ["Two."], ["Three.", "3"], ["New.", "4"]]


def test_edited_question_behind_a_removed_turn(tmp_path: Path) -> None:
    """With another id, too, it is the question whose answer follows it."""
    chat = three(tmp_path, "4")
    one, first, _, _, three_, answer = chat.agent.get_state(THREAD).values["messages"]
    changed = three_.model_copy(update={"content": "Edited.", "id": "new"})
    kept: Any = {"messages": Overwrite([one, first, changed, answer])}
    chat.agent.update_state(THREAD, kept)

    state = chat.say("Four.")

    assert told(chat, state) == [["One.", "1"], ["Two.", "2"], ["Edited.", "3"], ["Four.", "4"]]


def test_old_question_that_is_said_anew_behind_a_removed_turn(tmp_path: Path) -> None:
    """It is an edit of its turn, and the archive has the removed one."""
    chat = three(tmp_path, "4")
    messages = chat.agent.get_state(THREAD).values["messages"]
    chat.agent.update_state(THREAD, {"messages": [RemoveMessage(m.id) for m in messages[-2:]]})
    first = messages[0].model_copy(update={"content": "One, changed."})

    state = chat.agent.invoke({"messages": [first, ("user", "New.")]}, THREAD)

    edited = [["One, changed.", "1"], ["Two.", "2"], ["Three.", "3"]]
    assert told(chat, state) == [*edited, ["New.", "4"]]
    assert chat.branches == 2


@pytest.mark.parametrize("erased", [[], [2]])
def test_old_question_that_is_said_anew_in_a_history_with_other_ids(
    tmp_path: Path, erased: list[int]
) -> None:
    """The thread lost its checkpoints and its history has ids of its own: the edit is seen."""
    chat = three(tmp_path, "4", "5")
    erase_all(chat, erased)
    messages = chat.agent.get_state(THREAD).values["messages"]
    chat.agent.checkpointer.delete_thread("t")  # type: ignore[union-attr]  # there is one
    history = [m.model_copy(update={"id": None}) for m in messages]
    state = chat.agent.invoke({"messages": [*history, ("user", "Four.")]}, THREAD)
    known = next(m for m in state["messages"] if m.text == "Three.")
    again = known.model_copy(update={"content": "Three, changed."})

    state = chat.agent.invoke({"messages": [again, ("user", "New.")]}, THREAD)

    assert told(chat, state)[2:] == [
        *(["Three, changed.", "3"], ["Four.", "4"]),
        ["New.", "5"],
    ]
    assert chat.branches == 2


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda agent: restore(agent, THREAD), id="restored"),
        pytest.param(lambda agent: erase(agent, THREAD, 1), id="erased"),
    ],
)
def test_answer_that_is_removed_from_a_turn_of_two_questions(tmp_path: Path, change: Any) -> None:
    """The turn stays whole, also in a state that was made from the archive."""
    chat = talk(tmp_path, ["1", "2", "3"], checkpointer=InMemorySaver())
    chat.say("One.")
    chat.agent.invoke({"messages": [("user", "Two."), ("user", "And two.")]}, THREAD)
    change(chat.agent)
    answer = chat.agent.get_state(THREAD).values["messages"][-1]
    chat.agent.update_state(THREAD, {"messages": [RemoveMessage(answer.id)]})

    state = chat.say("New.")

    assert told(chat, state)[1:] == [["Two.", "And two.", "2"], ["New.", "3"]]


def test_edit_behind_a_removed_answer_and_a_turn_that_was_cut_short(tmp_path: Path) -> None:
    """The edit begins a branch, and is not asked again with the next message."""
    chat = three(tmp_path, CUT, "4")
    answer = chat.agent.get_state(THREAD).values["messages"][-1]
    chat.agent.update_state(THREAD, {"messages": [RemoveMessage(answer.id)]})
    cut(chat, ("user", "Go on."))
    edit(chat, "Three.", "Drei.")

    state = chat.say("New.")

    assert told(chat, state)[2:] == [["Drei.", "3"], ["Go on."], ["New.", "4"]]


def test_old_question_that_is_said_anew_alone_behind_a_turn_that_was_cut_short(
    tmp_path: Path,
) -> None:
    """What the user says is asked; the question that was cut short is archived as it is."""
    chat = three(tmp_path, CUT, "4")
    second = chat.agent.get_state(THREAD).values["messages"][2]
    cut(chat, ("user", "Go on."))

    state = chat.agent.invoke(
        {"messages": [second.model_copy(update={"content": "Two, changed."})]}, THREAD
    )

    assert told(chat, state)[1:] == [
        *(["Two.", "2"], ["Three.", "3"], ["Go on."]),
        ["Two, changed.", "4"],
    ]


def test_restore_behind_a_removed_turn(tmp_path: Path) -> None:
    """The answer that stands last then is archived already, and no turn by itself."""
    chat = three(tmp_path, "4")
    messages = chat.agent.get_state(THREAD).values["messages"]
    chat.agent.update_state(THREAD, {"messages": [RemoveMessage(m.id) for m in messages[-2:]]})

    restore(chat.agent, THREAD)

    state = chat.say("New.")
    kept = [["One.", "1"], ["Two.", "2"], ["Three.", "3"]]
    assert told(chat, state) == [*kept, ["New.", "4"]]


def test_removed_turn_behind_one_of_two_questions(tmp_path: Path) -> None:
    """Both questions that stand last then are archived, and neither is asked again."""
    chat = talk(tmp_path, [CUT, "2", "3"], checkpointer=InMemorySaver())
    cut(chat, ("user", "One."), ("user", "And one."))
    chat.say("Two.")
    messages = chat.agent.get_state(THREAD).values["messages"]
    chat.agent.update_state(THREAD, {"messages": [RemoveMessage(m.id) for m in messages[-2:]]})

    state = chat.say("New.")

    assert told(chat, state) == [["One.", "And one."], ["Two.", "2"], ["New.", "3"]]


def test_messages_of_others_before_a_turn_that_was_cut_short(tmp_path: Path) -> None:
    """What another agent said before the question stands in the turn that has the question."""
    chat = three(tmp_path, CUT, "4")
    before = [HumanMessage("To the other."), AIMessage("Of the other."), HumanMessage("Four.")]
    cut(chat, *before)

    state = chat.say("New.")

    assert told(chat, state)[3:] == [
        ["To the other.", "Of the other.", "Four."],
        ["New.", "4"],
    ]


def test_removed_question_before_another_one_of_its_turn(tmp_path: Path) -> None:
    """The other one is archived, and not asked again."""
    chat = talk(tmp_path, ["1", "2", "3", "4"], checkpointer=InMemorySaver())
    chat.say("One.")
    others = [HumanMessage("To the other."), AIMessage("Of the other."), HumanMessage("Two.")]
    chat.agent.invoke({"messages": [*others]}, THREAD)
    chat.say("Three.")
    first = next(
        m for m in chat.agent.get_state(THREAD).values["messages"] if m.text == "To the other."
    )

    state = chat.agent.invoke(
        {"messages": [RemoveMessage(str(first.id)), ("user", "New.")]}, THREAD
    )

    assert [turn[0] for turn in told(chat, state)] == ["One.", "To the other.", "Three.", "New."]


def test_edit_of_what_is_no_text_in_the_last_turn(tmp_path: Path) -> None:
    """It begins a branch, as an edit of the text does."""
    chat = three(tmp_path, "4")
    question = chat.agent.get_state(THREAD).values["messages"][-2]
    changed = question.model_copy(update={"additional_kwargs": {"channel": "mail"}})
    chat.agent.update_state(THREAD, {"messages": [changed]})

    chat.say("New.")

    assert chat.branches == 2
