"""What the application says in the conversation: system messages, and to-dos in the state."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.messages import BaseMessage, HumanMessage, RemoveMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import EbbtideMiddleware, MemoryState, Settings, erase, restore
from ebbtide.inspector.prompts import prompt
from ebbtide.memory.turn import Session
from tests.agents import THREAD, Talk, inside, talk, tip_in
from tests.doubles import call
from tests.graph.test_budget import tokens

RULE, SECOND = "Never quote prices to customers.", "Answer in Dutch."
FRAME = re.compile(r"(?s)<application (\d{9})>\n(.*)\n</application \1>\Z")


def said_by_application(messages: list[BaseMessage]) -> list[str]:
    """Return what stands in the frame at the end of the system message; it is nowhere else."""
    found = FRAME.search(messages[0].text)
    texts = found[2].split("\n\n") if found else []
    rest = "".join(one.text for one in messages[1:]) + FRAME.sub("", messages[0].text)
    assert [one for one in texts if one in rest] == []
    assert [m.type for m in messages].count("system") == 1
    return texts


def graph(root: Path) -> Talk:
    """Return an agent of `create_memory_agent`."""
    return talk(root, lambda _: "OK.", entry="graph")


def middleware(root: Path) -> Talk:
    """Return an agent of `create_agent`."""
    return talk(root, lambda _: "OK.", entry="middleware")


def parent(root: Path) -> Talk:
    """Return a graph around an agent, which has its state."""
    here = talk(root, lambda _: "OK.", entry="graph", checkpointer=None)
    return Talk(inside(here, MemoryState), here.model, here.archive)


KINDS = [graph, middleware, parent]


@pytest.mark.thorough
@pytest.mark.parametrize("made", KINDS)
def test_system_messages_hold_until_they_are_removed(
    tmp_path: Path, made: Callable[[Path], Talk]
) -> None:
    """For 20 turns and more; a second one joins them, and each can be removed."""
    chat = made(tmp_path)
    chat.agent.invoke({"messages": [SystemMessage(RULE, id="r"), HumanMessage("Hi.")]}, THREAD)
    chat.say_all(f"Small talk number {n}." for n in range(20))
    alone = said_by_application(chat.last)
    chat.agent.update_state(THREAD, {"messages": [SystemMessage(SECOND)]})
    state = chat.say("And now?")
    both, why = said_by_application(chat.last), state["memory"]["context_report"]["changed"]["why"]
    chat.say_all(f"Small talk number {n}." for n in range(20))
    chat.agent.update_state(THREAD, {"messages": [RemoveMessage("r")]})
    state = chat.say("And then?")

    assert (alone, both, why) == ([RULE], [RULE, SECOND], "application")
    assert said_by_application(chat.last) == [SECOND]
    assert state["memory"]["context_report"]["changed"]["why"] == "application"
    assert tokens(chat.model.sent[-1]) <= state["memory"]["context_report"]["total"] + 1


def test_system_message_of_an_adopted_thread(tmp_path: Path) -> None:
    """It holds as in the plain agent that began the thread."""
    chat = middleware(tmp_path)
    plain = create_agent(chat.model, checkpointer=chat.agent.checkpointer)
    plain.invoke({"messages": [SystemMessage(RULE), HumanMessage("Hi.")]}, THREAD)

    chat.say_all(f"Small talk number {n}." for n in range(20))

    assert {*map(tuple, (said_by_application(one.messages) for one in chat.model.sent[1:]))} == {
        (RULE,)
    }


def test_equal_system_messages_are_one(tmp_path: Path) -> None:
    """As of an application that sends its instructions with each question."""
    chat = graph(tmp_path)

    for n in range(20):
        asked = [SystemMessage(RULE), HumanMessage(f"Question {n}?")]
        state = chat.agent.invoke({"messages": asked}, THREAD)

    assert {*map(tuple, (said_by_application(one.messages) for one in chat.model.sent))} == {
        (RULE,)
    }
    assert len([m for m in state["messages"] if m.type == "system"]) < 20
    assert [m.type for m in chat.turns(state)[9].messages] == ["system", "human", "ai"]


def test_branch_before_a_system_message_does_not_have_it(tmp_path: Path) -> None:
    """It is as in the state that a run goes on from."""
    chat = graph(tmp_path)
    chat.say("Hi.")
    before = chat.agent.get_state(THREAD).config
    chat.agent.invoke({"messages": [SystemMessage(RULE), HumanMessage("And?")]}, THREAD)
    there = said_by_application(chat.last)

    chat.say("Or?", before)

    assert (there, said_by_application(chat.last)) == ([RULE], [])


@pytest.mark.thorough
@pytest.mark.parametrize("forget", [erase, restore])
def test_system_message_holds_when_the_state_is_made_again(tmp_path: Path, forget: Any) -> None:
    """Of the archive, after another turn was erased or the checkpoints were lost."""
    chat = graph(tmp_path)
    chat.agent.invoke({"messages": [SystemMessage(RULE), HumanMessage("Hi.")]}, THREAD)
    chat.say_all(f"Small talk number {n}." for n in range(20))
    if forget is erase:
        erase(chat.agent, THREAD, 12)
    else:
        chat.agent.checkpointer.delete_thread("t")  # type: ignore[union-attr]
        restore(chat.agent, THREAD)
    chat.say("And now?")
    there = said_by_application(chat.last)
    erase(chat.agent, THREAD, 1)
    chat.say("And then?")

    assert (there, said_by_application(chat.last)) == ([RULE], [])


@pytest.mark.thorough
@pytest.mark.parametrize("budget", [2_250, 4_000, 16_000])
def test_too_much_said_by_the_application(tmp_path: Path, budget: int) -> None:
    """The newest stay whole, one banner names the others, and the budget holds."""
    chat = talk(tmp_path, lambda _: "OK. " * 40, settings=Settings(context_budget=budget))
    rules = [f"Rule {n}: {'words of it ' * 20}".strip() for n in range(40)]

    state = chat.agent.invoke(
        {"messages": [*map(SystemMessage, rules), HumanMessage("Hi.")]}, THREAD
    )
    later = chat.say_all("And now? " * 30 for _ in range(9))

    *shown, more = said_by_application(chat.last)
    (banner,) = state["memory"]["banners"]
    assert shown == rules[len(rules) - len(shown) :]
    assert f"{len(rules) - len(shown)} system messages" in banner
    assert f"({len(rules) - len(shown)} " in more
    assert [one["memory"]["banners"] for one in later] == [[]] * 9
    assert max(map(tokens, chat.model.sent)) <= budget


@pytest.mark.thorough
def test_system_message_inside_a_long_turn(tmp_path: Path) -> None:
    """It joins the next call, and stays when the rounds around it leave."""

    def look(n: int) -> str:
        """Look."""
        return f"Part {n}: " + "many words of it " * 60

    rounds = [call("look", n=n) for n in range(40)]
    chat = talk(
        tmp_path,
        [*rounds[:20], "Half.", *rounds[20:], "Done."],
        tools=[look],
        settings=Settings(context_budget=5_000),
    )
    chat.say("Look at half.")
    asked = [HumanMessage("Look at all."), SystemMessage(RULE)]
    state = chat.agent.invoke({"messages": asked}, THREAD)

    assert {tuple(said_by_application(one.messages)) for one in chat.model.sent[21:]} == {(RULE,)}
    assert [m.text for m in state["messages"] if m.type == "system"] == [RULE]
    assert max(map(tokens, chat.model.sent)) <= 5_000


def test_log_that_is_expanded_has_no_system_message(tmp_path: Path) -> None:
    """It stands once in the prompt; the archive has it in its turn."""
    script = [
        *(call("open_effort", name="till"), "Open.", call("close_effort"), "Closed."),
        *(call("expand_effort", effort_id="till"), "Shown.", call("read_log", turns="1"), "Read."),
    ]
    chat = talk(tmp_path, script)
    chat.agent.invoke({"messages": [SystemMessage(RULE), HumanMessage("The till.")]}, THREAD)
    chat.say_all(["Done.", "Show it."])
    shown = said_by_application(chat.last)
    chat.say("Read it.")

    assert shown == [RULE]
    assert RULE in chat.last[-1].text


def test_inspector_shows_what_the_application_said(tmp_path: Path) -> None:
    """The prompts of past calls are made again byte for byte."""
    chat = todo_agent(tmp_path, [call("write_todos", todos=TODOS), *["OK."] * 9])
    chat.agent.invoke({"messages": [SystemMessage(RULE), HumanMessage("Plan.")]}, THREAD)
    states = chat.say_all(["One.", "Two.", "Three."])

    session = Session("", "t")
    found = [prompt(chat.archive, session, tip_in(states[-1]), turn, 0) for turn in range(1, 5)]

    assert [one["exact"] for one in found] == [True] * 4
    assert all(RULE in one["messages"][0]["text"] for one in found)


TODOS = [
    {"content": "Migrate the orders", "status": "completed"},
    {"content": "Migrate the <tariffs>", "status": "in_progress"},
    {"content": "Migrate the refunds", "status": "pending"},
]
OPEN = '[{"content":"Migrate the <tariffs>","status":"in_progress"},'


def todo_agent(root: Path, answers: Any, way: str = "middleware", **options: Any) -> Talk:
    """Return an agent with a to-do list, of `create_agent` or of the graph."""
    made, listing = talk(root, answers), TodoListMiddleware()
    if way == "graph":
        options |= {"tools": listing.tools, "state_schema": listing.state_schema}
        return talk(root, answers, **options)
    memory = EbbtideMiddleware(archive=made.archive, **options)
    both: Any = [listing, memory]
    agent: Any = create_agent(made.model, checkpointer=InMemorySaver(), middleware=both)
    return Talk(agent, made.model, made.archive)


def lists_in(messages: list[BaseMessage]) -> list[str]:
    """Return the notes of a prompt that have open to-dos."""
    return [one.text for one in messages if one.name == "ebbtide" and '"status":' in one.text]


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["graph", "middleware"])
def test_open_todos_are_shown_when_their_call_has_left(tmp_path: Path, way: str) -> None:
    """In the memory's own note, as they are, until all are completed."""
    done = [{**one, "status": "completed"} for one in TODOS]
    answers = [call("write_todos", todos=TODOS), *["Well. " * 60] * 25]
    answers += [call("write_todos", todos=done), *["Well. " * 60] * 25]
    chat = todo_agent(tmp_path, answers, way, settings=Settings(context_budget=5_000))
    chat.say_all(f"Question {n}?" for n in range(25))
    shown = lists_in(chat.last)
    seen = ["Migrate the refunds" in str(one.messages) for one in chat.model.sent[1:]]
    chat.say_all(f"Question {n}?" for n in range(25))

    assert all(seen)
    assert [OPEN in one for one in shown] == [True]
    assert lists_in(chat.last) == []


@pytest.mark.thorough
def test_open_todos_in_a_long_turn(tmp_path: Path) -> None:
    """The newest list is whole in each call."""
    lists = [
        [{"content": f"Look at part {n} of {total}", "status": "pending"} for n in range(total)]
        for total in (3, 4, 5)
    ]
    rounds = [call("read_log", turns="1") for _ in range(20)]
    script = [step for todos in lists for step in (call("write_todos", todos=todos), *rounds)]
    answers = ["Read.", *script, "Done."]
    chat = todo_agent(tmp_path, answers, settings=Settings(context_budget=5_000))
    chat.say("A page of words. " * 300)
    chat.say("Look at everything.")

    for at, sent in enumerate(chat.model.sent[2:]):
        newest = lists[min(at // 21, 2)]
        assert all(one["content"] in str(sent.messages) for one in newest), at
    assert max(map(tokens, chat.model.sent)) <= 5_000
