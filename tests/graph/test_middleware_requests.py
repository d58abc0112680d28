"""What other middleware does to the messages of a request, before the memory and after it."""

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    wrap_model_call,
)
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import (
    DiskArchive,
    EbbtideMiddleware,
    Settings,
    SettingsError,
    commands,
    erase,
    transcript,
)
from ebbtide.graph.other_middleware import changes
from ebbtide.memory.tokens import REPLY_OVERHEAD
from tests.agents import THREAD
from tests.doubles import Changing, ScriptedModel, call
from tests.graph.test_budget import tokens

CARD = "4111 1111"


def masked(messages: list[Any]) -> list[Any]:
    """Return the messages without the card's number; those of users have no id."""
    return [
        HumanMessage(m.text.replace(CARD, "****")) if m.type == "human" and CARD in m.text else m
        for m in messages
    ]


def agent(root: Path, model: ScriptedModel, change: Any, *, first: bool, **options: Any) -> Any:
    """Return an agent with another middleware before the memory, or after it."""
    ours = EbbtideMiddleware(archive=DiskArchive(root, durable=False), **options)
    chain: list[Any] = [Changing(change), ours] if first else [ours, Changing(change)]
    return create_agent(model, middleware=chain, checkpointer=InMemorySaver())


def test_masked_text_is_nowhere_ten_turns_later(tmp_path: Path) -> None:
    """The replacement stands in prompt, archive, index and summaries; the state says the same."""
    told = {"summary": "They paid by card.", "keywords": [], "importance": 50}
    answers = [call("open_effort", name="pay"), "Noted.", call("close_effort"), "Closed."]
    answers += ["Well."] * 8
    answers += [call("expand_effort", effort_id="pay"), call("read_log", turns="1"), "Here."]
    model = ScriptedModel(answers=answers, structured=[told] * 3)
    here = agent(tmp_path, model, masked, first=True)
    here.invoke({"messages": f"My card is {CARD}, please pay."}, THREAD)
    here.invoke({"messages": "that's done"}, THREAD)
    for number in range(8):
        here.invoke({"messages": f"Small talk {number}."}, THREAD)
    state = here.invoke({"messages": "What was it?"}, THREAD)

    assert [one.text for one in (*model.sent, *model.asked) if CARD in one.text] == []
    assert "My card is ****" in model.sent[-1].text
    assert transcript(here, THREAD)[0][0].text == "My card is ****, please pay."
    found = commands.search(here, THREAD, "which card please pay").results
    assert "****" in str(found[0])
    assert all(CARD not in message.text for message in state["messages"])
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert all(CARD.encode() not in path.read_bytes() for path in files)


@pytest.mark.parametrize("first", [True, False])
def test_added_message_is_sent_beside_the_question(tmp_path: Path, *, first: bool) -> None:
    """It is sent in that call, and counted, and is no part of the conversation."""
    note = HumanMessage("The user has uploaded lease.pdf.")
    model = ScriptedModel(answers=["Yes.", "Well."])
    here = agent(tmp_path, model, lambda messages: [*messages, note], first=first)
    here.invoke({"messages": "Hello."}, THREAD)
    here.invoke({"messages": "And?"}, THREAD)

    assert [m.text for m in model.sent[0].messages[-2:]] == ["Hello.", note.text]
    assert [m.text for m in model.sent[1].messages].count(note.text) == 1
    assert note.text not in [message.text for message in transcript(here, THREAD)[0]]


@pytest.mark.thorough
@pytest.mark.parametrize("first", [True, False])
def test_added_message_counts(tmp_path: Path, *, first: bool) -> None:
    """The rest is cut to make room; what leaves no room is an error that names its size."""
    model = ScriptedModel(answers=lambda _: "word " * 400)
    sizes: list[int] = []

    def change(messages: list[Any]) -> list[Any]:
        return [*messages, HumanMessage("passage " * sizes[-1])] if sizes else messages

    settings = Settings(context_budget=6_000)
    here = agent(tmp_path, model, change, first=first, settings=settings)
    for number in range(10):
        here.invoke({"messages": f"Question {number}. " + "word " * 200}, THREAD)
    sizes.append(2_000)
    here.invoke({"messages": "And now?"}, THREAD)

    assert model.sent[-1].text.count("passage") == 2_000
    assert "And now?" in model.sent[-1].text
    assert len(model.sent[-1].text.split()) < 5_000
    sizes.append(9_000)
    with pytest.raises(SettingsError, match="9,0"):
        here.invoke({"messages": "And now?"}, THREAD)


@pytest.mark.parametrize("first", [True, False])
def test_broken_prefix_is_reported(tmp_path: Path, *, first: bool) -> None:
    """The report says that middleware broke the prefix, what is left of it, and what was sent."""
    notes: list[HumanMessage] = []
    model = ScriptedModel(answers=lambda _: "Well.")
    here = agent(tmp_path, model, lambda messages: [*messages, *notes], first=first)
    reports = []
    for note in ((), (HumanMessage("It rains."),), (), ()):
        notes[:] = note
        state = here.invoke({"messages": "Hello."}, THREAD)
        reports.append(state["memory"]["context_report"])

    assert [one["changed"]["why"] for one in reports] == ["new", "new", "middleware", "new"]
    sent = [tokens(one) for one in model.sent]
    assert [one["total"] for one in reports] == sent
    assert reports[1]["prefix"] + REPLY_OVERHEAD == sent[0]
    assert reports[2]["prefix"] + REPLY_OVERHEAD < sent[1]
    assert reports[3]["prefix"] + REPLY_OVERHEAD == sent[2]


def test_what_a_later_middleware_left_out_is_not_counted(tmp_path: Path) -> None:
    """However large it is beside the running turn, the metrics have what was sent."""
    model = ScriptedModel(answers=lambda _: "Well. " * 50)
    here = agent(tmp_path, model, lambda messages: messages[-1:], first=False)
    for number in range(3):
        here.invoke({"messages": f"Question {number}?"}, THREAD)

    found = commands.stats(here, THREAD)

    assert [turn.total for turn in found.turns] == [tokens(one) for one in model.sent]


def test_what_a_later_middleware_answered_was_not_sent(tmp_path: Path) -> None:
    """The metrics count it as no call."""

    @wrap_model_call
    def cached(request: Any, handler: Callable[[Any], Any]) -> Any:
        return AIMessage("Well.") if request.messages[-1].text == "Again?" else handler(request)

    model = ScriptedModel(answers=lambda _: "Yes.")
    chain: list[Any] = [EbbtideMiddleware(archive=DiskArchive(tmp_path, durable=False)), cached]
    here: Any = create_agent(model, middleware=chain, checkpointer=InMemorySaver())
    for words in ("Hello.", "Again?", "And?"):
        here.invoke({"messages": words}, THREAD)
    before = commands.stats(here, THREAD)
    erase(here, THREAD, 1)

    found = commands.stats(here, THREAD)

    assert found.sent == before.sent == sum(tokens(one) for one in model.sent)
    assert [turn.turn for turn in found.turns] == [1, 3]
    assert [cost.calls for cost in found.costs] == [len(model.sent)]


def test_question_that_was_removed_is_an_error(tmp_path: Path) -> None:
    """The error names the message and where the middleware stands."""
    here = agent(tmp_path, ScriptedModel(answers=["Yes."]), lambda _: [], first=True)

    with pytest.raises(SettingsError, match="Where are"):
        here.invoke({"messages": "Where are you?"}, THREAD)


@tool
def look(stone: int) -> str:
    """Look at a stone."""
    return f"stone<{stone}> " + "grey " * 100


def test_cleared_results_are_archived_whole(tmp_path: Path) -> None:
    """What `ContextEditingMiddleware` clears is not sent, and still there afterwards."""
    model = ScriptedModel(answers=[*(call("look", stone=n) for n in range(1, 21)), "Done."])
    clearing: Any = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=500, keep=1)])
    ours = EbbtideMiddleware(
        archive=DiskArchive(tmp_path, durable=False), settings=Settings(context_budget=4_000)
    )
    here: Any = create_agent(
        model, tools=[look], middleware=[clearing, ours], checkpointer=InMemorySaver()
    )

    here.invoke({"messages": "Look."}, {**THREAD, "recursion_limit": 200})

    assert "stone<18>" not in model.sent[-1].text
    found = [m.text.partition(" ")[0] for m in transcript(here, THREAD)[0] if m.type == "tool"]
    assert found == [f"stone<{n}>" for n in range(1, 21)]


def test_messages_are_told_by_id_else_by_place_and_role() -> None:
    """Replaced, removed and added ones are told apart."""
    asked, answer = HumanMessage("a", id="1"), AIMessage("b", id="2")
    result, again = ToolMessage("c", tool_call_id="x", id="3"), HumanMessage("d", id="4")
    before = [asked, answer, result, again]

    done = changes(
        before, [HumanMessage("A"), answer, HumanMessage("d2", id="4"), HumanMessage("e")]
    )

    assert {name: message.text for name, message in done.replaced.items()} == {"1": "A", "4": "d2"}
    assert done.removed == {"3"}
    assert [(after, message.text) for after, message in done.added] == [("4", "e")]


class Added(AgentState[Any]):
    """A state whose reducer gives messages no ids."""

    messages: Annotated[list[Any], operator.add]


def test_messages_without_ids(tmp_path: Path) -> None:
    """Complaint row 35: not every reducer gives ids, the memory does."""
    model = ScriptedModel(answers=["Yes.", "Well."])
    ours = EbbtideMiddleware(archive=DiskArchive(tmp_path, durable=False))
    saver = InMemorySaver()
    here: Any = create_agent(model, middleware=[ours], state_schema=Added, checkpointer=saver)

    for words in ("Hello.", "And?"):
        here.invoke({"messages": [HumanMessage(words)]}, THREAD)

    said = [message.text for message in transcript(here, THREAD)[0]]
    assert said == ["Hello.", "Yes.", "And?", "Well."]
