"""The transcript of a thread: what its user saw, page by page."""

from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState
from langgraph.types import Command

from ebbtide import (
    CommandError,
    MemoryState,
    SessionNotFoundError,
    erase,
    transcript,
)
from ebbtide.memory.state_block import END
from ebbtide.memory.state_block import START as BEGIN
from tests.agents import THREAD, inside, talk
from tests.doubles import ScriptedModel, approve, call, together

pytestmark = pytest.mark.usefixtures("entry")


def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word}: a word"


def short(messages: list[BaseMessage]) -> list[tuple[str, str]]:
    """Return the type and the text of each message."""
    return [(message.type, message.text) for message in messages]


def turns(messages: list[BaseMessage]) -> list[int]:
    """Return the turn of each message."""
    return [message.response_metadata["ebbtide"]["turn"] for message in messages]


def status(message: BaseMessage) -> str:
    """Return what became of the turn of a message."""
    return str(message.response_metadata["ebbtide"]["status"])


def test_it_is_what_was_said_to_the_user(tmp_path: Path) -> None:
    """Calls of the application's tools are there; the memory's calls and state blocks are not."""
    both = together(call("look_up", word="tide"), call("open_effort", name="a"), text="I look.")
    block = f"A tide.\n\n{BEGIN}\nGoal: tides\n{END}"
    chat = talk(tmp_path, [both, block, call("close_effort"), "Closed."], tools=[look_up])
    chat.say("What is a tide?")
    chat.say("That's done")

    found = transcript(chat.agent, THREAD)[0]

    assert short(found) == [
        ("human", "What is a tide?"),
        ("ai", "I look."),
        ("tool", "tide: a word"),
        ("ai", "A tide."),
        ("human", "That's done"),
        ("ai", "Closed."),
    ]
    assert [one["name"] for one in AIMessage.model_validate(found[1]).tool_calls] == ["look_up"]
    assert turns(found) == [1, 1, 1, 1, 2, 2]
    assert {status(message) for message in found} == {"done"}


def test_it_goes_back_page_by_page(tmp_path: Path) -> None:
    """Each page ends before the first turn of the one after it; the last one is empty."""
    chat = talk(tmp_path, ["yes"] * 6)
    chat.say_all(f"number {turn}" for turn in range(1, 6))

    last = transcript(chat.agent, THREAD, limit=2)[0]
    chat.say("number 6")
    middle, more = transcript(chat.agent, THREAD, limit=2, before=turns(last)[0])
    first, no_more = transcript(chat.agent, THREAD, limit=2, before=turns(middle)[0])

    assert [turns(page) for page in (last, middle, first)] == [[4, 4, 5, 5], [2, 2, 3, 3], [1, 1]]
    assert transcript(chat.agent, THREAD, before=1) == ([], False)
    assert (more, no_more) == (True, False)


@pytest.mark.parametrize("asked", [{"limit": 0}, {"before": 0}])
def test_a_number_below_one_is_refused(tmp_path: Path, asked: Any) -> None:
    """The error says which numbers there are."""
    chat = talk(tmp_path, ["yes"])
    chat.say("hi")

    with pytest.raises(CommandError, match=r"limit=.* before="):
        transcript(chat.agent, THREAD, **asked)


def test_an_erased_turn_is_marked(tmp_path: Path) -> None:
    """Its place is kept by one message that says so and belongs to nobody."""
    chat = talk(tmp_path, ["one", "two"])
    chat.say_all(("secret", "other"))
    erase(chat.agent, THREAD, 1)

    found = transcript(chat.agent, THREAD)[0]

    assert short(found) == [("system", "(erased)"), ("human", "other"), ("ai", "two")]
    assert [status(message) for message in found] == ["erased", "done", "done"]


def test_a_turn_that_waits_for_a_person_is_running(tmp_path: Path) -> None:
    """What was said in it so far is there, on the first page only; afterwards all of it."""
    chat = talk(tmp_path, ["one", call("approve", what="pay"), "paid"], tools=[approve])
    chat.say("hi")
    chat.say("pay")

    found, earlier = transcript(chat.agent, THREAD)[0], transcript(chat.agent, THREAD, before=2)[0]
    chat.agent.invoke(Command(resume="yes"), THREAD)

    assert [(one.type, *turns([one]), status(one)) for one in found[2:]] == [
        ("human", 2, "running"),
        ("ai", 2, "running"),
    ]
    assert earlier == found[:2]
    assert short(transcript(chat.agent, THREAD)[0])[-2:] == [("tool", "pay: yes"), ("ai", "paid")]


def test_a_first_turn_that_waits_is_shown(tmp_path: Path) -> None:
    """Nothing is archived yet."""
    chat = talk(tmp_path, [call("approve", what="pay")], tools=[approve])
    chat.say("pay")

    assert short(transcript(chat.agent, THREAD)[0]) == [("human", "pay"), ("ai", "")]


def test_a_fork_has_its_own(tmp_path: Path) -> None:
    """A state sees the turns of its lineage only."""
    chat = talk(tmp_path, ["one", "two", "three"])
    chat.say("first")
    first = chat.agent.get_state(THREAD).config
    chat.say("second")
    chat.say("other", first)

    assert [text for _, text in short(transcript(chat.agent, THREAD)[0])] == [
        *("first", "one", "other", "three")
    ]


def test_it_needs_no_checkpoints(tmp_path: Path) -> None:
    """What the archive holds of a thread is shown before it is restored."""
    chat = talk(tmp_path, ["one"])
    chat.say("hi")
    again = talk(tmp_path, [], checkpointer=InMemorySaver())

    assert transcript(again.agent, THREAD)[0] == transcript(chat.agent, THREAD)[0]


@pytest.mark.parametrize("schema", [MemoryState, MessagesState])
def test_the_graph_around_the_agent_is_asked(tmp_path: Path, schema: Any) -> None:
    """It finds the agent in it, whether it keeps the memory's state or messages alone."""
    ours: RunnableConfig = {"configurable": {"thread_id": "t", "user_id": "ann"}}
    answers = ["one", "two", call("approve", what="pay"), "paid"]
    chat = talk(tmp_path, answers, tools=[approve], checkpointer=None)
    outer = inside(chat, schema)
    outer.invoke({"messages": "first"}, ours)
    outer.invoke({"messages": "second"}, ours)

    rested = transcript(outer, ours)[0]
    outer.invoke({"messages": "pay"}, ours)
    waiting = transcript(outer, ours)[0]

    assert [text for _, text in short(rested)] == ["first", "one", "second", "two"]
    assert [(one.type, status(one)) for one in waiting[4:]] == [
        ("human", "running"),
        ("ai", "running"),
    ]
    assert [message.id for message in waiting[:4]] == [message.id for message in rested]
    with pytest.raises(SessionNotFoundError):
        transcript(outer, {"configurable": {"thread_id": "t", "user_id": "bob"}})


def test_thread_that_is_older_than_the_memory(tmp_path: Path) -> None:
    """An application's history page shows the old thread on the first day, and an unknown one."""
    saver = InMemorySaver()
    old: Any = create_agent(ScriptedModel(answers=["Hello.", "Me."]), checkpointer=saver)
    for words in ("Hi.", "Who?"):
        old.invoke({"messages": words}, THREAD)
    chat = talk(tmp_path, ["Well."], checkpointer=saver)

    found, more = transcript(chat.agent, THREAD)
    newest, earlier = transcript(chat.agent, THREAD, limit=1)
    before = transcript(chat.agent, THREAD, before=newest[0].response_metadata["ebbtide"]["turn"])

    said = [("human", "Hi."), ("ai", "Hello."), ("human", "Who?"), ("ai", "Me.")]
    assert (short(found), more) == (said, False)
    assert (short(newest), earlier) == (said[2:], True)
    assert (short(before[0]), before[1]) == (said[:2], False)
    assert transcript(chat.agent, {"configurable": {"thread_id": "never"}}) == ([], False)
    chat.say("And?")
    assert [text for _, text in short(transcript(chat.agent, THREAD)[0])] == [
        *("Hi.", "Hello.", "Who?", "Me.", "And?", "Well."),
    ]
