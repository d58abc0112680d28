"""What `show_context` says is what the next call sends, byte for byte, and nothing is written."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from langchain.chat_models import init_chat_model
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import (
    DiskArchive,
    Settings,
    SettingsError,
    TurnRunningError,
    commands,
    create_memory_agent,
)
from ebbtide.memory.archive.export import read
from ebbtide.memory.context.budget import PartName
from ebbtide.memory.turn import Session
from tests.agents import SUMMARY, THREAD, shown_turns, talk
from tests.doubles import call, together
from tests.openai_server import Answer, Body, Say, Structured, serving

pytestmark = pytest.mark.usefixtures("entry")

PAGE = "The refresh token expires after 3600 seconds, and nobody renews it. " * 20
LIVED = [
    "Hello 你好 🙂",
    f"open_effort auth: {PAGE}",
    "read_log: what was said first?",
    "close_effort: that is done",
    "expand_effort auth: show me",
    *(f"number {number}: {PAGE}" for number in range(4)),
    "Remember the port.",
    f"open_effort sidebar: {PAGE}",
    f"open_effort footer: {PAGE}",
    *(f"number {number}: {PAGE}" for number in range(4)),
    "How long does a token live?",
]

SESSION = Session("", "t")


def answer(body: Body) -> Answer:
    """Call the tool that the user's message begins with, else answer."""
    if "response_format" in body:
        return Structured(SUMMARY)
    last = body["messages"][-1]
    tool, _, name = str(last["content"]).partition(":")[0].partition(" ")
    arguments: dict[str, Body] = {
        "open_effort": {"name": name, "goal": "it works again"},
        "read_log": {"turns": "1"},
        "close_effort": {},
        "expand_effort": {"effort_id": name},
    }
    if last["role"] == "user" and tool in arguments:
        return Say(calls=[(tool, arguments[tool])])
    if "Remember" in str(last["content"]):
        return Say("Noted.\n\n---STATE---\nTechnical Anchors: port 8443\n---END STATE---")
    return Say(f"Very well. {PAGE}")


@pytest.mark.thorough
@pytest.mark.parametrize(("budget", "unused"), [(3_000, ""), (16_000, "quotes")])
def test_it_is_what_the_server_receives(tmp_path: Path, budget: int, unused: str) -> None:
    """Over conversations with all parts, or all but one, both requests have the same bytes."""
    with serving(by=answer) as server:
        model = init_chat_model("openai:gpt-5-mini", base_url=server.url, api_key="x")
        agent = create_memory_agent(
            model,
            archive=DiskArchive(tmp_path, durable=False),
            checkpointer=InMemorySaver(),
            settings=Settings(context_budget=budget, ambient_window=2),
        )
        used, cut = set[str](), False
        for words in LIVED:
            shown = commands.show_context(agent, THREAD, words)
            begin = len(server.requests)
            state = agent.invoke({"messages": [("user", words)]}, THREAD)
            model.bind_tools([*shown.tools]).invoke(shown.messages)

            said, told = server.requests[begin], server.requests[-1]
            cut = cut or state["memory"]["context_report"]["changed"]["why"] == "high-water"
            used |= {part.name for part in shown.parts if part.tokens}
            is_pass = "response_format" in said.body  # what it shortens, no command knows before
            assert is_pass or json.dumps(said.body) == json.dumps(told.body)
            assert shown.total <= budget

    assert used == {*get_args(PartName)} - {unused}
    assert cut == (budget == 3_000)


def test_nothing_is_written(tmp_path: Path) -> None:
    """Neither the archive nor the checkpoints change, nor what is sent afterwards."""
    chat = talk(tmp_path, ["one", "two"])
    chat.say("hi")
    before = read(chat.archive, SESSION), chat.agent.get_state(THREAD)

    shown = commands.show_context(chat.agent, THREAD, HumanMessage("and now?", id="mine"))

    assert (read(chat.archive, SESSION), chat.agent.get_state(THREAD)) == before
    chat.say("and now?")
    assert [message.content for message in shown.messages] == [m.content for m in chat.last]


def test_an_expanded_log_names_its_turn(tmp_path: Path) -> None:
    """The turn of an expanded log is the one in which it was put."""
    script = [call("open_effort", name="a"), "o", call("close_effort"), "c"]
    chat = talk(tmp_path, [*script, call("expand_effort", effort_id="a"), "e"])
    chat.say_all(("work", "done", "show"))

    shown = commands.show_context(chat.agent, THREAD, "next")

    assert shown_turns(shown)["expanded"] == (3,)


def test_without_a_message_it_is_what_stands_before_one(tmp_path: Path) -> None:
    """The parts are the same, and the current turn is not there."""
    chat = talk(tmp_path, ["one"])
    chat.say("hi")

    bare = commands.show_context(chat.agent, THREAD)
    asked = commands.show_context(chat.agent, THREAD, "well?")

    assert bare.parts == asked.parts[:-1]
    assert (asked.parts[-1].name, bare.turn, bare.unfinished) == ("turn", 2, False)


def page() -> str:
    """Return a text that is too long for a small budget."""
    return PAGE * 10


def broken(root: Path, *answers: Any) -> Any:
    """Return an agent whose turn was left unfinished by its model."""
    chat = talk(root, [*answers, ConnectionError("gone"), "here"])
    with pytest.raises(ConnectionError):
        chat.say("question")
    return chat


@pytest.mark.parametrize("answers", [(), (call("effort_status"),)])
def test_an_unfinished_turn_is_shown_as_resuming_sends_it(tmp_path: Path, answers: Any) -> None:
    """What has been done of it stands there; the next call is sent just that."""
    chat = broken(tmp_path, *answers)

    shown = commands.show_context(chat.agent, THREAD)

    chat.agent.invoke(None, THREAD)
    assert (shown.unfinished, shown.turn) == (True, 1)
    assert [m.content for m in shown.messages] == [m.content for m in chat.last]


def test_what_was_said_beside_an_answer_counts_in_its_turn(tmp_path: Path) -> None:
    """A preview points past the state block too, as it does when the turn is resumed."""
    looking = together(call("page"), text="I look.\n\n---STATE---\nGoal: x\n---END STATE---")
    chat = talk(
        tmp_path,
        [looking, ConnectionError("gone"), "here"],
        tools=[page],
        settings=Settings(context_budget=3_000),
    )
    with pytest.raises(ConnectionError):
        chat.say("question")

    shown = commands.show_context(chat.agent, THREAD)

    chat.agent.invoke(None, THREAD)
    assert 'read_log(turns="1", offset=' in shown.messages[-1].text
    assert [m.content for m in shown.messages] == [m.content for m in chat.last]


def test_a_message_beside_an_unfinished_turn_is_refused(tmp_path: Path) -> None:
    """What a new message would send is not known before the turn is settled."""
    chat = broken(tmp_path)

    with pytest.raises(TurnRunningError, match="turn 1 of thread 't' is not finished"):
        commands.show_context(chat.agent, THREAD, "other")


def test_a_turn_whose_message_is_not_in_the_state_is_refused(tmp_path: Path) -> None:
    """Killed before its first step, a turn is not shown as the one before it."""
    chat = talk(tmp_path, ["one", "two"])
    chat.say("hi")
    chat.say("ho")
    killed = next(s for s in chat.agent.get_state_history(THREAD) if s.next == ("__start__",))

    with pytest.raises(TurnRunningError, match="turn 2 of thread 't' is not finished"):
        commands.show_context(chat.agent, killed.config)


def test_the_context_of_a_run_counts(tmp_path: Path) -> None:
    """Settings of a run shape what is shown as they shape the run."""
    chat = talk(tmp_path, ["yes"] * 5)
    chat.say_all(f"number {turn}" for turn in range(5))

    shown = commands.show_context(chat.agent, THREAD, context={"ambient_window": 4})

    assert shown_turns(shown)["turns"] == (2, 3, 4, 5)


def test_an_agent_without_checkpointer_has_no_threads(tmp_path: Path) -> None:
    """It is refused with what to do."""
    chat = talk(tmp_path, [], checkpointer=None)

    with pytest.raises(SettingsError, match="no checkpointer"):
        commands.show_context(chat.agent, THREAD)
