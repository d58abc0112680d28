"""A thread without memory: it goes on where the archive knows its messages, or is adopted."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import interrupt

from ebbtide import InputError, TipNotFoundError, build_memory_graph, commands
from ebbtide.memory.messages import text
from ebbtide.memory.turn import Session
from ebbtide.prompts.loader import render
from tests.agents import THREAD, Talk, talk
from tests.doubles import ScriptedModel, call
from tests.draws import examples

pytestmark = pytest.mark.usefixtures("entry")

SESSION = Session("", "t")
NOTE = "The refresh token expires after 3600 seconds."
IMAGE: list[Any] = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
CALLING = AIMessage("", tool_calls=[{"name": "look_up", "args": {"what": "tokens"}, "id": "c1"}])
FOUND = ToolMessage(NOTE, tool_call_id="c1", name="look_up")


def look_up(what: str) -> str:
    """Look something up."""
    return f"{NOTE} ({what})"


def lineage(chat: Talk, values: dict[str, Any]) -> list[str]:
    """Return all texts of the turns that a state sees."""
    return [text(m) for turn in chat.turns(values) for m in turn.messages]


def place(chat: Talk, values: dict[str, Any]) -> tuple[int, int]:
    """Return the turn of a state, and how many branches there are."""
    return values["memory"]["turn"], chat.branches


def asked(*texts: str) -> list[BaseMessage]:
    """Return a conversation: questions and answers in turn."""
    kinds = (HumanMessage, AIMessage)
    return [kinds[at % 2](one) for at, one in enumerate(texts)]


def afresh(folder: Path, *answers: Any, **options: Any) -> Talk:
    """Return an agent on the same archive whose checkpoints are lost."""
    return talk(folder, [*answers] or (lambda _: "OK."), **options)


def lived(folder: Path, turns: int = 3, **options: Any) -> tuple[Talk, list[BaseMessage]]:
    """Return an agent that always answers the same, and the messages of its turns."""
    chat = talk(folder, lambda _: "OK.", **options)
    states = [chat.say(f"Question {turn}.") for turn in range(1, turns + 1)]
    stored_turns = chat.turns(states[-1])
    kinds = {"human": HumanMessage, "ai": AIMessage}
    return chat, [kinds[m.type](m.content, id=m.id) for one in stored_turns for m in one.messages]


def test_a_thread_of_another_agent_is_taken_over(tmp_path: Path) -> None:
    """Every message is archived as ambient turns, a banner says how many, and tools read them."""
    saver = InMemorySaver()
    answers = ["Hello.", CALLING, "It is 3600 seconds."]
    other: Any = create_agent(ScriptedModel(answers=answers), [look_up], checkpointer=saver)
    [other.invoke({"messages": words}, THREAD) for words in ("Hi.", "How long?")]
    script = ["So be it.", call("search_efforts", query="refresh token"), "Found.",
              call("read_log", turns=2), "Read."]  # fmt: skip
    chat = talk(tmp_path, script, checkpointer=saver, tools=[look_up])

    first = chat.say("And now?")
    states = [chat.say(words) for words in ("Search.", "Read turn 2.")]

    assert lineage(chat, first) == [
        *("Hi.", "Hello.", "How long?", "", f"{NOTE} (tokens)", "It is 3600 seconds."),
        *("And now?", "So be it."),
    ]
    assert [turn.efforts for turn in chat.turns(first)] == [(), (), ()]
    assert "Adopted 2 earlier turns" in "".join(first["memory"]["banners"])
    results = [m.text for m in states[-1]["messages"] if isinstance(m, ToolMessage)]
    assert NOTE in results[-1]
    assert '"turn":2' in results[-2].replace(" ", "")
    assert place(chat, states[-1]) == (5, 1)


def test_adopted_turns_are_filed_under_their_own_days(tmp_path: Path) -> None:
    """A turn has the time that its messages carry, or none; none of them is of today."""
    then = {"timestamp": "2021-03-04T05:06:07Z"}
    history = [
        HumanMessage("The depot is in Leith."),
        AIMessage("Noted."),
        HumanMessage("The ferry leaves at noon.", additional_kwargs=then),
        AIMessage("Noted too."),
    ]
    chat = talk(tmp_path, ["Yes.", call("read_log", turns="1-3"), "Read."])

    first = chat.agent.invoke({"messages": [*history, HumanMessage("And?")]}, THREAD)
    page = commands.messages(chat.agent, THREAD)
    read = chat.say("Read them.")

    times = [stored.at for stored in chat.turns(first)]
    assert times[:2] == ["", "2021-03-04T05:06:07.000Z"]
    assert times[2] > "2026"
    assert [line.at for line in page.lines] == times[::-1]
    result = next(m.text for m in read["messages"][::-1] if isinstance(m, ToolMessage))
    assert [turn["at"] for turn in json.loads(result)["turns"]][:2] == [
        "undated",
        "2021-03-04 05:06",
    ]
    found = commands.search(chat.agent, THREAD, "What was noted on 2021-03-04?")["results"]
    assert found[0]["passages"][0]["turn"] == 2


def test_the_model_sees_what_was_adopted(tmp_path: Path) -> None:
    """The context of the first call holds the whole history, in its order."""
    chat = talk(tmp_path, ["Fine."])

    chat.agent.invoke({"messages": [*asked("One.", "1", "Two.", "2"), ("user", "Three?")]}, THREAD)

    said = "\n".join(message.text for message in chat.last)
    assert [said.index(one) for one in ("One.", "Two.", "Three?")] == sorted(
        said.index(one) for one in ("One.", "Two.", "Three?")
    )


def ask(what: str) -> str:
    """Ask the user."""
    return str(interrupt(what))


def test_a_turn_that_is_aborted_twice_is_one_commit(tmp_path: Path) -> None:
    """The results that close its open calls have the same ids whoever commits it."""
    chat = talk(tmp_path, [call("ask", what="Which?"), "First.", "Second."], tools=[ask])
    chat.say("go on")
    waiting = chat.agent.get_state(THREAD).config

    states = [chat.say(words, waiting) for words in ("Never mind.", "Leave it.")]

    (first, *_), (second, *_) = map(chat.turns, states)
    assert (first.status, first) == ("aborted", second)
    assert [chat.said(state)[1:] for state in states] == [["Never mind."], ["Leave it."]]


def test_calls_without_results_are_closed(tmp_path: Path) -> None:
    """A turn that stopped at a tool is adopted as aborted, its call answered with an error."""
    chat = talk(tmp_path, ["Fine."])
    history = [HumanMessage("How long?"), CALLING, HumanMessage("Well?")]

    state = chat.agent.invoke({"messages": history}, THREAD)

    turns = chat.turns(state)
    assert [turn.status for turn in turns] == ["aborted", "done"]
    assert [m.type for m in turns[0].messages] == ["human", "ai", "tool"]


def test_adopted_turn_that_a_tool_ended_is_done(tmp_path: Path) -> None:
    """A tool that answers directly, or structured output, ends it: nothing was broken off."""
    chat = talk(tmp_path, ["Fine."])
    found = ToolMessage("An hour.", tool_call_id=CALLING.tool_calls[0]["id"])

    state = chat.agent.invoke(
        {"messages": [HumanMessage("How long?"), CALLING, found, HumanMessage("Thanks.")]}, THREAD
    )

    assert [turn.status for turn in chat.turns(state)] == ["done", "done"]
    assert "without an answer" not in chat.model.sent[-1].text


def test_odd_messages_are_kept(tmp_path: Path) -> None:
    """Instructions, greetings, images and empty messages are in the archive, each once."""
    chat = talk(tmp_path, ["Fine."])
    history: list[Any] = [
        *(SystemMessage("Be brief."), AIMessage("Welcome."), HumanMessage(IMAGE)),
        *(AIMessage("A picture."), HumanMessage(""), AIMessage("")),
        *(SystemMessage("Be long."), HumanMessage("One more."), HumanMessage("And?")),
    ]

    state = chat.agent.invoke({"messages": history}, THREAD)

    assert lineage(chat, state) == [
        *("Be brief.", "Welcome.", "[image, image/png, 3 bytes]", "A picture.", "", ""),
        *("Be long.", "One more.", "And?", "Fine."),
    ]
    assert [turn.status for turn in chat.turns(state)] == ["done"] * 3


def test_answered_turn_with_an_open_call_is_committed(tmp_path: Path) -> None:
    """A call that a client handed over without its result does not keep the turn open."""
    chat = talk(tmp_path, lambda _: "Yes.")
    asked: Any = {"messages": [HumanMessage("Look."), CALLING, HumanMessage("And now?")]}

    state = chat.agent.invoke(asked, THREAD)

    assert chat.said(state) == ["Look.", "And now?"]
    assert commands.show_context(chat.agent, THREAD, "So?").turn == state["memory"]["turn"] + 1


def parent(folder: Path, answers: Any = None, **options: Any) -> Talk:
    """Return a graph that keeps messages alone, with the agent inside it."""
    chat = talk(folder, answers or (lambda _: "OK."), checkpointer=None)
    inner = build_memory_graph(chat.model, archive=chat.archive).compile()
    graph = StateGraph(MessagesState)
    graph.add_node("talk", inner)
    graph.set_entry_point("talk")
    options.setdefault("checkpointer", InMemorySaver())
    return Talk(graph.compile(**options), chat.model, chat.archive)


def turns_of(chat: Talk) -> list[list[str]]:
    """Return what users said on each branch of the one session."""
    (session,) = chat.archive.sessions("")
    return [
        [
            text(m)
            for turn in chat.archive.load(session, tip).turns(range(1, tip.turn + 1))
            for m in turn.messages
            if m.type == "human"
        ]
        for tip in chat.archive.tips(session)
    ]


def test_a_parent_of_messages_alone_goes_on(tmp_path: Path) -> None:
    """Turn after turn is counted on one branch, however alike the answers are."""
    chat = parent(tmp_path)

    states = [chat.say(words) for words in ("One.", "Two.", "Two.", "Three.")]

    assert turns_of(chat) == [["One.", "Two.", "Two.", "Three."]]
    assert [message.text for message in states[-1]["messages"]] == [
        *("One.", "OK.", "Two.", "OK.", "Two.", "OK.", "Three.", "OK.")
    ]


def test_time_travel_in_a_parent_forks(tmp_path: Path) -> None:
    """An older checkpoint goes on beside what was said, and both tips can be gone on from."""
    chat = parent(tmp_path)
    chat.say("One.")
    first = chat.agent.get_state(THREAD).config
    chat.say("Left.")
    left = chat.agent.get_state(THREAD).config

    chat.say("Right.", first)
    chat.say("Further left.", left)

    found = turns_of(chat)
    assert sorted(found) == [["One.", "Left.", "Further left."], ["One.", "Right."]]


def test_messages_that_a_parent_edits_fork(tmp_path: Path) -> None:
    """After an edit of what was said the lineage has what the messages say now."""
    chat = parent(tmp_path)
    states = [chat.say(words) for words in ("One.", "Two.", "Three.")]
    edited = states[-1]["messages"][2].model_copy(update={"content": "Zwei."})
    chat.agent.update_state(THREAD, {"messages": [edited]})

    chat.say("Four.")
    chat.say("Five.")

    branches = turns_of(chat)
    assert ["One.", "Two.", "Three."] in branches
    assert [said for said in branches if "Four." in said] == [
        ["One.", "Zwei.", "Three.", "Four.", "Five."]
    ]


def test_an_adopted_turn_keeps_the_memory(tmp_path: Path) -> None:
    """A turn that failed in a parent is adopted, and the effort before it is still active."""
    answers = [call("open_effort", name="tax"), "Opened.", ConnectionError("gone"), "3", "4"]
    chat = parent(tmp_path, answers)
    chat.say("Open it.")
    with pytest.raises(ConnectionError):
        chat.say("Two.")
    said = chat.agent.get_state(THREAD).values["messages"]
    chat.agent.update_state(THREAD, {"messages": [AIMessage("It failed.")]}, as_node="talk")

    [chat.say(words) for words in ("Three.", "Four.")]

    (session,) = chat.archive.sessions("")
    tip = chat.archive.newest(session)
    assert (len(said), tip and tip.turn) == (5, 4)
    turns = chat.archive.load(session, tip).turns(range(1, 5))  # type: ignore[arg-type]  # there is one
    assert [turn.efforts for turn in turns] == [("tax",), (), ("tax",), ("tax",)]


@pytest.mark.parametrize("kept", [2, 3, 4, 5])
def test_a_parent_that_summarises_keeps_its_memory(tmp_path: Path, kept: int) -> None:
    """Where older messages were replaced by a summary, the turns go on that come after it."""
    chat = parent(tmp_path)
    chat.say("Question 1.")
    for turn in range(2, 7):
        messages = chat.say(f"Question {turn}.")["messages"]
        summary = HumanMessage(f"So far: {turn} questions.")
        order = [RemoveMessage(REMOVE_ALL_MESSAGES), summary, *messages[1:][-kept:]]
        chat.agent.update_state(THREAD, {"messages": order})

    assert turns_of(chat) == [[f"Question {turn}." for turn in range(1, 7)]]


def test_a_summary_beside_an_edit_forks(tmp_path: Path) -> None:
    """What was said is still what the messages say, if one of the archive's own was changed."""
    chat = parent(tmp_path)
    messages = [chat.say(f"Question {turn}.") for turn in range(1, 5)][-1]["messages"]
    edited = messages[4].model_copy(update={"content": "Changed."})
    order = [RemoveMessage(REMOVE_ALL_MESSAGES), HumanMessage("So far."), edited, *messages[5:]]
    chat.agent.update_state(THREAD, {"messages": order})

    chat.say("Question 5.")

    assert any("Changed." in said and "Question 5." in said for said in turns_of(chat))


def test_lost_checkpoints_with_the_whole_history(tmp_path: Path) -> None:
    """The thread goes on at the next turn, and nothing is doubled."""
    _, history = lived(tmp_path)
    chat = afresh(tmp_path)

    state = chat.agent.invoke({"messages": [*history, ("user", "Question 4.")]}, THREAD)

    assert place(chat, state) == (4, 1)
    assert chat.said(state) == [f"Question {turn}." for turn in range(1, 5)]
    assert state["memory"].get("banners", []) == []


@pytest.mark.parametrize("given", [1, 2, 3, 4])
def test_half_of_the_history(tmp_path: Path, given: int) -> None:
    """The last few messages are enough, from the middle of a turn as well."""
    _, history = lived(tmp_path)
    chat = afresh(tmp_path)

    state = chat.agent.invoke({"messages": [*history[-given:], ("user", "Next?")]}, THREAD)

    assert place(chat, state) == (4, 1)
    assert chat.said(state)[-2:] == ["Question 3.", "Next?"]


def test_the_first_half_of_the_history_forks(tmp_path: Path) -> None:
    """Without ids or with them, a history that ends earlier is gone on from there."""
    _, history = lived(tmp_path)
    chat = afresh(tmp_path)

    state = chat.agent.invoke({"messages": [*history[:4], ("user", "Otherwise?")]}, THREAD)

    assert chat.said(state) == ["Question 1.", "Question 2.", "Otherwise?"]
    assert place(chat, state) == (3, 2)


def test_an_early_part_of_a_history_of_equal_answers_forks(tmp_path: Path) -> None:
    """However many later turns end with the same words, the one that was meant is found."""
    first = afresh(tmp_path)
    said = [*map("Question {}.".format, range(1, 41))]
    for question in said:
        first.agent.invoke({"messages": [("user", question)]}, THREAD)
    history = asked(*(text for one in said[:5] for text in (one, "OK.")))
    chat = afresh(tmp_path)

    state = chat.agent.invoke({"messages": [*history, ("user", "Otherwise?")]}, THREAD)

    assert chat.said(state) == [*said[:5], "Otherwise?"]
    assert state["memory"].get("banners", []) == []


@pytest.mark.parametrize("has_ids", [True, False])
def test_a_history_with_a_gap_is_known(tmp_path: Path, *, has_ids: bool) -> None:
    """Ids, or else the last two turns, tell where the thread goes on."""
    _, history = lived(tmp_path, 5)
    given = [history[0], *history[6:]]
    chat = afresh(tmp_path)

    given = given if has_ids else copies(given)
    state = chat.agent.invoke({"messages": [*given, ("user", "And?")]}, THREAD)

    assert chat.said(state) == [*(f"Question {turn}." for turn in range(1, 6)), "And?"]
    assert place(chat, state) == (6, 1)


@pytest.mark.parametrize("at", range(6))
def test_an_edited_history_is_what_is_gone_on_from(tmp_path: Path, at: int) -> None:
    """Whichever message was changed, the lineage is what was handed over, each message once."""
    _, history = lived(tmp_path)
    history[at] = type(history[at])("Changed.", id=history[at].id)
    chat = afresh(tmp_path)

    state = chat.agent.invoke({"messages": [*history, ("user", "And?")]}, THREAD)

    assert lineage(chat, state) == [*(m.text for m in history), "And?", "OK."]
    assert chat.branches == 2


def test_a_history_without_tools_is_known(tmp_path: Path) -> None:
    """Clients that keep questions and answers alone go on with the turns that have more."""
    script = [CALLING, "It is 3600 seconds.", "Fine."]
    talk(tmp_path, script, tools=[look_up]).say("How long?")
    chat = afresh(tmp_path)

    state = chat.agent.invoke(
        {"messages": [*asked("How long?", "It is 3600 seconds.", "Thanks.")]}, THREAD
    )

    assert place(chat, state) == (2, 1)
    assert [len(turn.messages) for turn in chat.turns(state)] == [4, 2]


def test_nothing_new_is_an_error(tmp_path: Path) -> None:
    """A history that the archive knows, without a question after it, is not answered again."""
    _, history = lived(tmp_path)
    chat = afresh(tmp_path)

    with pytest.raises(InputError):
        chat.agent.invoke({"messages": history}, THREAD)

    assert chat.archive.newest(SESSION).turn == 3  # type: ignore[union-attr]  # there is one


def test_efforts_come_back_with_the_messages(tmp_path: Path) -> None:
    """The state of the turn that the messages end in is there: its efforts are open again."""
    first = talk(tmp_path, [call("open_effort", name="auth", goal=NOTE), "Opened.", "OK."])
    state = [first.say(words) for words in ("Open it.", "Go on.")][-1]
    chat = afresh(tmp_path)

    after = chat.agent.invoke({"messages": [*state["messages"], ("user", "And?")]}, THREAD)

    assert after["memory"]["active_effort"] == "auth"
    assert [turn.efforts for turn in chat.turns(after)] == [("auth",)] * 3


def test_another_archive_is_no_empty_memory(tmp_path: Path) -> None:
    """A replica with its own archive raises, changes nothing, and the right one goes on."""
    saver = InMemorySaver()
    chat = talk(tmp_path / "right", lambda _: "OK.", checkpointer=saver)
    [chat.say(words) for words in ("One.", "Two.")]
    other = talk(tmp_path / "wrong", lambda _: "No.", checkpointer=saver)

    with pytest.raises(TipNotFoundError):
        other.say("Three?")

    assert other.archive.sessions("") == ()
    state = chat.say("Three.")
    assert chat.branches == 1
    assert lineage(chat, state)[:4] == ["One.", "OK.", "Two.", "OK."]
    assert chat.said(state)[-1] == "Three."


def test_runs_without_a_checkpointer(tmp_path: Path) -> None:
    """Each run that hands over all messages is a session with all of them, in their order."""
    chat = talk(tmp_path, lambda _: "OK.", checkpointer=None)
    history: list[Any] = []
    for words in ("One.", "Two.", "Three."):
        state = chat.agent.invoke({"messages": [*history, ("user", words)]})
        history = [*history, HumanMessage(words), AIMessage("OK.")]

        assert lineage(chat, state) == [m.text for m in history]
        assert state["memory"]["turn"] == len(history) // 2


async def test_runs_on_a_thread_that_is_never_kept(tmp_path: Path) -> None:
    """Without a checkpointer a named thread goes on by what is handed over, in async runs too."""
    config: RunnableConfig = {"configurable": {"thread_id": "t"}}
    chat = parent(tmp_path, checkpointer=None)
    history: list[Any] = []
    for words in ("One.", "Two.", "Three."):
        history = [*history, HumanMessage(words)]
        await chat.agent.ainvoke({"messages": history}, config)
        history = [*history, AIMessage("OK.")]

    assert turns_of(chat) == [["One.", "Two.", "Three."]]


CLOSING = [("tool", render("no_result"))]
SAID = st.sampled_from(["OK.", "Yes.", "", NOTE])
MESSAGES = st.one_of(
    SAID.map(HumanMessage),
    SAID.map(AIMessage),
    SAID.map(HumanMessage),
    SAID.map(AIMessage),
    st.just(CALLING),
    st.just(FOUND),
    st.just(SystemMessage("Be brief.")),
)


def copies(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return messages without ids, as a client sends them."""
    return [message.model_copy(update={"id": None}) for message in messages]


@settings(max_examples=examples(10))
@given(
    known=st.lists(SAID.filter(bool), max_size=4),
    cut=st.tuples(st.integers(0, 8), st.integers(0, 8)),
    more=st.lists(MESSAGES, max_size=6),
)
def test_whatever_is_handed_over_is_there_once(
    tmp_path_factory: pytest.TempPathFactory,
    known: list[str],
    cut: tuple[int, int],
    more: list[BaseMessage],
) -> None:
    """Part of what the archive knows, and anything after it: the lineage ends in just that."""
    # The same answer twice, one behind the other, counts once in a history without ids.
    assume(not (more and (more[0].type, more[0].content) == ("ai", "OK.")))
    folder = tmp_path_factory.mktemp("adoption")
    first = talk(folder, lambda _: "OK.")
    first.say_all(known)
    begin, end = sorted(cut)
    conversation = asked(*(one for words in known for one in (words, "OK.")))
    handed = copies([*conversation[begin:end], *more, HumanMessage("The last question.")])
    chat = talk(folder, lambda _: "The last answer.")

    state = chat.agent.invoke({"messages": handed}, THREAD)

    there = [(m.type, text(m)) for r in chat.turns(state) for m in r.messages]
    there = [one for one in there if one not in CLOSING]
    wanted = [*((m.type, m.text) for m in handed), ("ai", "The last answer.")]
    before, after = there[: -len(wanted)], there[-len(wanted) :]
    assert after == wanted
    assert before == [(m.type, m.text) for m in conversation[: len(before)]]
    first.archive.close()
    chat.archive.close()
