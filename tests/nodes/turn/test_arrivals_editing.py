"""An edit of a turn is seen as one whatever was erased, cut short or handed over before."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import erase, restore
from ebbtide.memory.messages import text
from tests.agents import THREAD, Talk, talk
from tests.doubles import call

pytestmark = pytest.mark.usefixtures("entry")

CUT = ConnectionError("gone")


def three(root: Path, *more: Any) -> Talk:
    """Return a conversation of three turns; what else is answered follows."""
    here = talk(root, ["1", "2", "3", *more], checkpointer=InMemorySaver())
    for words in ("One.", "Two.", "Three."):
        here.say(words)
    return here


def lossy(root: Path, *more: Any) -> Talk:
    """Return a conversation whose last turn lost text: its result told what turn 2 said."""
    said = "The north gate is locked at nine."
    answers = [call("open_effort", name="gate"), "Opened.", said, call("close_effort"), "Closed."]
    here = talk(root, [*answers, *more], [{"summary": said}, {"summary": "It was kept."}])
    for words in ("Open it.", "When is it locked?", "Close it."):
        here.say(words)
    erase(here.agent, THREAD, 2)
    return here


def cut(here: Talk, *messages: Any) -> None:
    """Let the model fail in a turn of these messages."""
    with pytest.raises(ConnectionError):
        here.agent.invoke({"messages": [*messages]}, THREAD)


def edit(here: Talk, before: str, after: str) -> None:
    """Put another text in the place of a message."""
    messages = here.agent.get_state(THREAD).values["messages"]
    found = next(one for one in messages if one.text == before)
    changed = found.model_copy(update={"content": after})
    here.agent.update_state(THREAD, {"messages": [changed]})


def told(here: Talk, state: dict[str, Any]) -> list[list[str]]:
    """Return what each turn says, but for tools."""
    records = here.records(state)
    kept = [[m for m in one.messages if m["type"] != "tool"] for one in records]
    return [[text(m) for m in turn if text(m)] for turn in kept]


def branch(state: dict[str, Any]) -> str:
    """Return the branch that a state goes on."""
    return str(state["memory"]["position"]["branch"])


@pytest.mark.parametrize("cuts", [0, 1, 2])
def test_turn_that_lost_text(tmp_path: Path, cuts: int) -> None:
    """What an erasure took from the last turn is no edit of it, also when the next is cut short."""
    here = lossy(tmp_path, *[CUT] * cuts, "Yes.")
    for number in range(cuts):
        cut(here, ("user", f"Go on {number}."))

    state = here.say("Again.")

    statuses = [one.status for one in here.records(state)]
    assert statuses == ["done", "erased", "done", *["aborted"] * cuts, "done"]
    assert branch(state) == "main"


@pytest.mark.parametrize("cuts", [0, 1])
def test_edit_of_a_turn_that_lost_text(tmp_path: Path, cuts: int) -> None:
    """It begins a branch, with the turn as it is now."""
    here = lossy(tmp_path, *[CUT] * cuts, "Yes.")
    for _ in range(cuts):
        cut(here, ("user", "Go on."))
    edit(here, "Close it.", "Shut it.")

    state = here.say("Again.")

    assert told(here, state)[2] == ["Shut it.", "Closed."]
    assert branch(state) != "main"


def test_edit_of_an_answer_that_stands_beside_lost_text(tmp_path: Path) -> None:
    """The archive has the answer that the chat shows."""
    here = lossy(tmp_path, "Yes.")
    edit(here, "Closed.", "Shut.")

    state = here.say("Again.")

    assert told(here, state)[2] == ["Close it.", "Shut."]


def test_edit_after_a_history_was_handed_over(tmp_path: Path) -> None:
    """The thread lost its checkpoints, and a turn was cut short: the edit is still one."""
    here = three(tmp_path, CUT, "4")
    history = here.agent.get_state(THREAD).values["messages"]
    here.agent.checkpointer.delete_thread("t")  # type: ignore[union-attr]
    cut(here, *history, HumanMessage("Four."))
    edit(here, "Three.", "Drei.")

    state = here.say("New.")

    assert told(here, state) == [
        *(["One.", "1"], ["Two.", "2"], ["Drei.", "3"]),
        *(["Four."], ["New.", "4"]),
    ]
    assert branch(state) != "main"


def test_history_without_results_that_is_cut_short(tmp_path: Path) -> None:
    """What a client leaves out of a turn is no edit of it."""
    answers = [call("open_effort", name="gate"), "Opened.", CUT, "Yes."]
    here = talk(tmp_path, answers, checkpointer=InMemorySaver())
    here.say("Open it.")
    here.agent.checkpointer.delete_thread("t")  # type: ignore[union-attr]
    cut(here, ("user", "Open it."), ("ai", "Opened."), ("user", "Go on."))

    state = here.say("Again.")

    assert told(here, state) == [["Open it.", "Opened."], ["Go on."], ["Again.", "Yes."]]
    assert branch(state) == "main"


def test_edit_after_an_id_was_repeated(tmp_path: Path) -> None:
    """A message with an old id is a new one, and what is edited later is an edit."""
    here = three(tmp_path, CUT, "4")
    third = here.agent.get_state(THREAD).values["messages"][-2]
    cut(here, third.model_copy(update={"content": "Three, changed."}))
    edit(here, "Three.", "Drei.")

    state = here.say("New.")

    assert told(here, state)[2:] == [["Drei.", "3"], ["Three, changed."], ["New.", "4"]]


@pytest.mark.parametrize(
    ("erased", "edited"), [([2], "One."), ([3], "One."), ([3], "Two."), ([2, 3], "One.")]
)
def test_edit_of_an_older_turn_beside_an_erased_one(
    tmp_path: Path, erased: list[int], edited: str
) -> None:
    """It is kept, as something said anew; the archived turn stays."""
    here = three(tmp_path, "4")
    for turn in erased:
        erase(here.agent, THREAD, turn)
    edit(here, edited, "Zwei.")

    state = here.say("New.")

    assert "Zwei." in told(here, state)[-1]
    assert [edited] == [turn[0] for turn in told(here, state) if turn[:1] == [edited]]


def test_last_turn_erased_and_the_next_cut_short(tmp_path: Path) -> None:
    """The turn before is not taken for the erased one."""
    here = three(tmp_path, CUT, CUT, "4")
    erase(here.agent, THREAD, 3)
    cut(here, ("user", "Go on."))
    cut(here, ("user", "Please."))

    state = here.say("New.")

    assert told(here, state) == [
        ["One.", "1"],
        ["Two.", "2"],
        [],
        ["Go on."],
        ["Please."],
        ["New.", "4"],
    ]
    assert branch(state) == "main"


@pytest.mark.parametrize("cuts", [1, 2])
def test_question_that_was_removed_and_the_next_turn_cut_short(tmp_path: Path, cuts: int) -> None:
    """The turn before is not taken for the one whose question left the state."""
    here = three(tmp_path, *[CUT] * cuts, "4")
    third = here.agent.get_state(THREAD).values["messages"][-2]
    here.agent.update_state(THREAD, {"messages": [RemoveMessage(third.id)]})
    for _ in range(cuts):
        cut(here, ("user", "Go on."))

    state = here.say("New.")

    kept = [["One.", "1"], ["Two.", "2"], ["Three.", "3"]]
    assert told(here, state) == [*kept, *[["Go on."]] * cuts, ["New.", "4"]]
    assert branch(state) == "main"


@pytest.mark.parametrize("removed", [1, 2])
def test_model_that_repeats_the_id_of_a_removed_answer(tmp_path: Path, removed: int) -> None:
    """What it says then is a turn of its own, and archived as such."""
    answers = ["1", AIMessage("2", id="x"), AIMessage("3", id="x"), "4"]
    here = talk(tmp_path, answers, checkpointer=InMemorySaver())
    for words in ("One.", "Two."):
        here.say(words)
    messages = here.agent.get_state(THREAD).values["messages"]
    gone = [RemoveMessage(message.id) for message in messages[-removed:]]
    here.agent.update_state(THREAD, {"messages": gone})
    here.say("Three.")

    state = here.say("Four.")

    assert told(here, state)[-1] == ["Four.", "4"]
    assert "3" in told(here, state)[-2]
    assert "Three." in told(here, state)[-2]


def test_last_turn_that_was_removed_behind_one_without_an_answer(tmp_path: Path) -> None:
    """The question that nobody answered is archived, and not asked again with the next."""
    here = talk(tmp_path, ["1", CUT, "3", "4"], checkpointer=InMemorySaver())
    here.say("One.")
    cut(here, ("user", "Two."))
    here.say("Three.")
    messages = here.agent.get_state(THREAD).values["messages"]
    here.agent.update_state(THREAD, {"messages": [RemoveMessage(m.id) for m in messages[-2:]]})

    state = here.say("New.")

    assert told(here, state) == [["One.", "1"], ["Two."], ["Three.", "3"], ["New.", "4"]]


def test_old_question_that_is_said_anew_behind_a_removed_turn(tmp_path: Path) -> None:
    """Its new text is asked with the new message, and the archived one stays."""
    here = three(tmp_path, "4")
    messages = here.agent.get_state(THREAD).values["messages"]
    here.agent.update_state(THREAD, {"messages": [RemoveMessage(m.id) for m in messages[-2:]]})
    first = messages[0].model_copy(update={"content": "One, changed."})

    state = here.agent.invoke({"messages": [first, ("user", "New.")]}, THREAD)

    kept = [["One.", "1"], ["Two.", "2"], ["Three.", "3"]]
    assert told(here, state) == [*kept, ["One, changed.", "New.", "4"]]
    assert branch(state) == "main"


@pytest.mark.parametrize("erased", [[], [2]])
def test_old_question_that_is_said_anew_in_a_history_with_other_ids(
    tmp_path: Path, erased: list[int]
) -> None:
    """The thread lost its checkpoints and its history has ids of its own: nothing is lost."""
    here = three(tmp_path, "4", "5")
    for turn in erased:
        erase(here.agent, THREAD, turn)
    messages = here.agent.get_state(THREAD).values["messages"]
    here.agent.checkpointer.delete_thread("t")  # type: ignore[union-attr]
    history = [m.model_copy(update={"id": None}) for m in messages]
    state = here.agent.invoke({"messages": [*history, ("user", "Four.")]}, THREAD)
    known = next(m for m in state["messages"] if m.text == "Three.")
    again = known.model_copy(update={"content": "Three, changed."})

    state = here.agent.invoke({"messages": [again, ("user", "New.")]}, THREAD)

    assert told(here, state)[2:] == [
        *(["Three.", "3"], ["Four.", "4"]),
        ["Three, changed.", "New.", "5"],
    ]
    assert branch(state) == "main"


@pytest.mark.parametrize("way", ["restored", "erased"])
def test_answer_that_is_removed_from_a_turn_of_two_questions(tmp_path: Path, way: str) -> None:
    """Both questions stay in their turn, also in a state that was made from the archive."""
    here = talk(tmp_path, ["1", "2", "3"], checkpointer=InMemorySaver())
    here.say("One.")
    here.agent.invoke({"messages": [("user", "Two."), ("user", "And two.")]}, THREAD)
    if way == "restored":
        restore(here.agent, THREAD)
    else:
        erase(here.agent, THREAD, 1)
    answer = here.agent.get_state(THREAD).values["messages"][-1]
    here.agent.update_state(THREAD, {"messages": [RemoveMessage(answer.id)]})

    state = here.say("New.")

    assert told(here, state)[1:] == [["Two.", "And two."], ["New.", "3"]]


def test_edit_behind_a_removed_answer_and_a_turn_that_was_cut_short(tmp_path: Path) -> None:
    """The edit begins a branch, and is not asked again with the next message."""
    here = three(tmp_path, CUT, "4")
    answer = here.agent.get_state(THREAD).values["messages"][-1]
    here.agent.update_state(THREAD, {"messages": [RemoveMessage(answer.id)]})
    cut(here, ("user", "Go on."))
    edit(here, "Three.", "Drei.")

    state = here.say("New.")

    assert told(here, state)[2:] == [["Drei."], ["Go on."], ["New.", "4"]]


def test_old_question_that_is_said_anew_alone_behind_a_turn_that_was_cut_short(
    tmp_path: Path,
) -> None:
    """What the user says is asked; the question that was cut short is archived as it is."""
    here = three(tmp_path, CUT, "4")
    second = here.agent.get_state(THREAD).values["messages"][2]
    cut(here, ("user", "Go on."))

    state = here.agent.invoke(
        {"messages": [second.model_copy(update={"content": "Two, changed."})]}, THREAD
    )

    assert told(here, state)[1:] == [
        *(["Two.", "2"], ["Three.", "3"], ["Go on."]),
        ["Two, changed.", "4"],
    ]


def test_restore_behind_a_removed_turn(tmp_path: Path) -> None:
    """The answer that stands last then is archived already, and no turn by itself."""
    here = three(tmp_path, "4")
    messages = here.agent.get_state(THREAD).values["messages"]
    here.agent.update_state(THREAD, {"messages": [RemoveMessage(m.id) for m in messages[-2:]]})

    restore(here.agent, THREAD)

    state = here.say("New.")
    kept = [["One.", "1"], ["Two.", "2"], ["Three.", "3"]]
    assert told(here, state) == [*kept, ["New.", "4"]]


def test_removed_turn_behind_one_of_two_questions(tmp_path: Path) -> None:
    """Both questions that stand last then are archived, and neither is asked again."""
    here = talk(tmp_path, [CUT, "2", "3"], checkpointer=InMemorySaver())
    cut(here, ("user", "One."), ("user", "And one."))
    here.say("Two.")
    messages = here.agent.get_state(THREAD).values["messages"]
    here.agent.update_state(THREAD, {"messages": [RemoveMessage(m.id) for m in messages[-2:]]})

    state = here.say("New.")

    assert told(here, state) == [["One.", "And one."], ["Two.", "2"], ["New.", "3"]]


def test_messages_of_others_before_a_turn_that_was_cut_short(tmp_path: Path) -> None:
    """What another agent said before the question stands in the turn that has the question."""
    here = three(tmp_path, CUT, "4")
    before = [HumanMessage("To the other."), AIMessage("Of the other."), HumanMessage("Four.")]
    cut(here, *before)

    state = here.say("New.")

    assert told(here, state)[3:] == [
        ["To the other.", "Of the other.", "Four."],
        ["New.", "4"],
    ]


def test_removed_question_before_another_one_of_its_turn(tmp_path: Path) -> None:
    """The other one is archived, and not asked again."""
    here = talk(tmp_path, ["1", "2", "3", "4"], checkpointer=InMemorySaver())
    here.say("One.")
    others = [HumanMessage("To the other."), AIMessage("Of the other."), HumanMessage("Two.")]
    here.agent.invoke({"messages": [*others]}, THREAD)
    here.say("Three.")
    first = next(
        m for m in here.agent.get_state(THREAD).values["messages"] if m.text == "To the other."
    )

    state = here.agent.invoke(
        {"messages": [RemoveMessage(str(first.id)), ("user", "New.")]}, THREAD
    )

    assert [turn[0] for turn in told(here, state)] == ["One.", "To the other.", "Three.", "New."]


def test_edit_of_what_is_no_text_in_the_last_turn(tmp_path: Path) -> None:
    """It begins a branch, as an edit of the text does."""
    here = three(tmp_path, "4")
    question = here.agent.get_state(THREAD).values["messages"][-2]
    changed = question.model_copy(update={"additional_kwargs": {"channel": "mail"}})
    here.agent.update_state(THREAD, {"messages": [changed]})

    state = here.say("New.")

    assert branch(state) != "main"
