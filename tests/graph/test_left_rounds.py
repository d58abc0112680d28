"""A turn of many rounds: those that left the prompt leave `messages`, and lie in the archive."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any, cast

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import PIIMiddleware
from langchain_core.messages import BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import GraphRecursionError
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, interrupt

from ebbtide import DiskArchive, EbbtideMiddleware, Settings, erase, transcript
from ebbtide.memory.archive.copy import copy
from ebbtide.memory.messages import text
from ebbtide.memory.turn import Part, Session, StoredTurn
from ebbtide.testing import ScriptedModel
from tests.agents import THREAD, Talk, archive_in, talk
from tests.doubles import call, together
from tests.test_complaints import holding, orphans

SESSION = Session("", "t")
SMALL = Settings(context_budget=4_000)
REQUEST = "Look at every stone, and never use tabs."
ROUNDS = 24


@tool
def look(stone: int) -> str:
    """Look at a stone."""
    return f"stone<{stone}> " + " ".join(f"w{stone * k % 997}" for k in range(120))


@tool
def ask(question: str) -> str:
    """Ask a person."""
    return f"a person says {interrupt(question)}"


@tool
def clear(call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Clear the chat."""
    cleared = [RemoveMessage(REMOVE_ALL_MESSAGES), ToolMessage("Cleared.", tool_call_id=call_id)]
    return Command(update={"messages": cleared})


@tool
def clear_bare() -> Command[Any]:
    """Clear the chat, with no result of its own."""
    return Command(update={"messages": [RemoveMessage(REMOVE_ALL_MESSAGES)]})


def looks(first: int, last: int) -> list[Any]:
    """Return the calls that look at these stones, one in a round."""
    return [call("look", stone=number) for number in range(first, last + 1)]


def looking(root: Path, answers: list[Any], **options: Any) -> Talk:
    """Return an agent that looks at stones."""
    options = {"settings": SMALL, "tools": [look, ask], **options}
    return talk(root, answers, **options)


def go_on(chat: Talk, given: Any, **options: Any) -> dict[str, Any]:
    """Run the thread, with as many steps as a long turn needs."""
    found: dict[str, Any] = chat.agent.invoke(given, {**THREAD, "recursion_limit": 500}, **options)
    return found


def then(chat: Talk, *answers: Any) -> None:
    """Let the model give these answers next, instead of those of its script."""
    assert isinstance(chat.model.answers, list)
    chat.model.answers[len(chat.model.sent) :] = answers


def stones(messages: Any) -> list[int]:
    """Return the stones in the results among messages, or among those of a record."""
    said = [text(message) for message in messages if message.type == "tool"]
    return [int(number) for words in said for number in re.findall(r"^stone<(\d+)>", words)]


def records(chat: Talk) -> list[StoredTurn]:
    """Return the last turn of each branch."""
    tips = chat.archive.tips(SESSION)
    return [turn for tip in tips for turn in chat.archive.load(SESSION, tip).turns([tip.turn])]


def part_of(values: dict[str, Any]) -> str:
    """Return the last part of the turn in a state."""
    return str(values["bookkeeping"].get("round", ""))


@pytest.mark.usefixtures("entry")
def test_rounds_leave_and_are_committed(tmp_path: Path) -> None:
    """The state has the last rounds, the archive and the transcript all of them, in order."""
    chat = looking(tmp_path, [*looks(1, ROUNDS), "Done."])

    state = go_on(chat, {"messages": REQUEST})

    assert len(state["messages"]) < ROUNDS
    assert state["messages"][0].text == REQUEST
    assert stones(records(chat)[0].messages) == [*range(1, ROUNDS + 1)]
    assert stones(transcript(chat.agent, THREAD)[0]) == [*range(1, ROUNDS + 1)]
    assert chat.archive.verify(SESSION) == ()


def test_nothing_leaves_without_a_window(tmp_path: Path) -> None:
    """With `messages_window=None` all rounds stay in `messages`."""
    settings = SMALL.model_copy(update={"messages_window": None})
    chat = looking(tmp_path, [*looks(1, 12), "Done.", "Yes."], settings=settings)
    go_on(chat, {"messages": REQUEST})

    state = go_on(chat, {"messages": "Really?"})

    assert stones(state["messages"]) == [*range(1, 13)]


@pytest.mark.thorough
def test_another_process_sends_the_same(tmp_path: Path) -> None:
    """A turn that is resumed before each call, in a new process, sends what one whole turn does."""
    answers = [*looks(1, 12), call("read_log", turns="1", offset=0), *looks(13, 20), "Done."]
    whole = looking(tmp_path / "whole", answers)
    go_on(whole, {"messages": REQUEST})

    saver, sent = InMemorySaver(), list[Any]()
    given: Any = {"messages": REQUEST}
    while given or len(sent) < len(answers):
        archive = archive_in(tmp_path / "broken")
        rest = answers[len(sent) :]
        chat = looking(tmp_path / "broken", rest, archive=archive, checkpointer=saver)
        go_on(chat, given, interrupt_before=["assemble_context"])
        given, sent = None, [*sent, *chat.model.sent]

    contents = [
        [[m.content for m in one.messages] for one in each] for each in (whole.model.sent, sent)
    ]
    assert contents[0] == contents[1]
    assert stones(records(chat)[0].messages) == [*range(1, 21)]


class FullArchive(DiskArchive):
    """An archive whose disk has no room for parts."""

    def add_part(self, session: Session, part: Part) -> str:
        """Fail as a full disk does."""
        raise OSError(session.thread, part.id)


def test_rounds_stay_if_they_cannot_be_stored(tmp_path: Path) -> None:
    """An archive that takes no part takes nothing away; the turn is committed as a whole."""
    archive = FullArchive(tmp_path, durable=False)
    chat = looking(tmp_path, [*looks(1, 15), "Done."], archive=archive)

    state = go_on(chat, {"messages": REQUEST})

    assert stones(state["messages"]) == stones(records(chat)[0].messages) == [*range(1, 16)]


def at_round(chat: Talk, number: int) -> RunnableConfig:
    """Return the config of the checkpoint in which the model is called after so many rounds."""
    for state in chat.agent.get_state_history(THREAD):
        seen = max(stones(state.values["messages"]), default=0)
        if state.next == ("call_model",) and seen == number:
            return cast("RunnableConfig", {**state.config, "recursion_limit": 500})
    raise LookupError(number)


@pytest.mark.thorough
def test_fork_in_the_middle(tmp_path: Path) -> None:
    """A committed turn that goes on from its middle has its own rounds and no others."""
    chat = looking(tmp_path, [*looks(1, 25), "Done.", *looks(101, 110), "Other."])
    go_on(chat, {"messages": REQUEST})

    state = chat.agent.invoke(None, at_round(chat, 15))

    assert part_of(state) != ""
    assert [stones(turn.messages) for turn in records(chat)] == [
        [*range(1, 26)],
        [*range(1, 16), *range(101, 111)],
    ]
    assert chat.archive.verify(SESSION)[0].fatal is False


def test_edit_in_the_middle(tmp_path: Path) -> None:
    """A request that is edited while its turn runs keeps the rounds; so does a dropped round."""
    chat = looking(tmp_path, [*looks(1, 20), "Done."])
    go_on(chat, {"messages": REQUEST}, interrupt_before=["call_model"])
    for _ in range(15):
        go_on(chat, None, interrupt_before=["call_model"])
    messages = chat.agent.get_state(THREAD).values["messages"]
    edits: list[BaseMessage] = [HumanMessage("Look, please.", id=messages[0].id)]
    edits += [RemoveMessage(id=message.id) for message in messages[-2:]]

    chat.agent.update_state(THREAD, {"messages": edits}, as_node="assemble_context")
    go_on(chat, None)

    (turn,) = records(chat)
    assert text(turn.messages[0]) == "Look, please."
    assert stones(turn.messages) == [n for n in range(1, 21) if n != 15]


def test_edit_after_the_commit(tmp_path: Path) -> None:
    """An edited answer makes a branch whose turn has all rounds; without an edit there is none."""
    chat = looking(tmp_path, [*looks(1, 20), "Done.", "Yes.", "Yes."])
    state = go_on(chat, {"messages": REQUEST})
    before = chat.agent.get_state(THREAD).config
    go_on(chat, {"messages": "Really?"})
    assert chat.branches == 1

    edit = [state["messages"][-1].model_copy(update={"content": "Almost done."})]
    config = chat.agent.update_state(before, {"messages": edit})
    chat.agent.invoke({"messages": "Really?"}, config)

    edited, *_ = chat.turns(chat.agent.get_state(THREAD).values)
    assert text(edited.messages[-1]) == "Almost done."
    assert stones(edited.messages) == [*range(1, 21)]


@pytest.mark.usefixtures("entry")
def test_new_message_in_the_middle(tmp_path: Path) -> None:
    """A turn that ran into the recursion limit is kept, each result once, when another comes."""
    chat = looking(tmp_path, [*looks(1, ROUNDS), "Done."])
    with pytest.raises(GraphRecursionError):
        chat.agent.invoke({"messages": REQUEST}, {**THREAD, "recursion_limit": 60})
    done = stones(transcript(chat.agent, THREAD)[0])
    then(chat, "That is all.")

    state = go_on(chat, {"messages": "What did you find?"})

    first, second = chat.turns(state)
    assert (first.status, second.status) == ("aborted", "done")
    assert stones(first.messages) == done == [*range(1, len(done) + 1)]
    assert len(done) >= 15
    assert f"stone<{done[-1]}>" in chat.model.sent[-1].text


@pytest.mark.thorough
@pytest.mark.parametrize("resumed", [True, False])
@pytest.mark.usefixtures("entry")
def test_interrupt_in_the_middle(tmp_path: Path, *, resumed: bool) -> None:
    """A person answers after 20 rounds, or says something else: each result is kept once."""
    script = [*looks(1, 20), call("ask", question="May I?"), *looks(21, ROUNDS), "Done."]
    chat = looking(tmp_path, script)
    state = go_on(chat, {"messages": REQUEST})
    assert "__interrupt__" in state

    if resumed:
        state = go_on(chat, Command(resume="yes"))
    else:
        then(chat, "Stopped.")
        state = go_on(chat, {"messages": "No, stop."})

    last = ROUNDS if resumed else 20
    first, *_ = chat.turns(state)
    assert stones(first.messages) == [*range(1, last + 1)]
    results = [text(m) for m in first.messages if m.name == "ask"]
    assert len(results) == 1
    assert ("a person says yes" in results[0]) == resumed


@pytest.mark.usefixtures("entry")
def test_parallel_result_survives_a_new_message(tmp_path: Path, entry: str) -> None:
    """What a tool found while another one waits for a person is kept if the user moves on.

    With the middleware LangGraph has dropped it before the turn begins.
    """
    both = together(call("ask", question="May I?"), call("look", stone=21))
    chat = looking(tmp_path, [*looks(1, 20), both, "Stopped."])
    go_on(chat, {"messages": REQUEST})

    state = go_on(chat, {"messages": "No, stop."})

    first, _ = chat.turns(state)
    assert stones(first.messages) == [*range(1, 22 if entry == "graph" else 21)]
    assert [orphans(sent.messages) for sent in chat.model.sent] == [0] * 22


@pytest.mark.usefixtures("entry")
def test_turn_after_one_whose_rounds_left(tmp_path: Path) -> None:
    """What left of a turn leaves nothing of the next one, which still has that turn's plan."""

    @tool
    def note(word: str) -> str:
        """Note a word."""
        return f"noted {word}"

    several = together(*(call("note", word=word) for word in "abcdefghijklm"))
    script = [*looks(1, 9), "Seen.", several, call("note", word="n"), "Done."]
    chat = talk(tmp_path, script, tools=[look, note], settings=SMALL)
    rounds = go_on(chat, {"messages": REQUEST})["bookkeeping"]["plan"]["rounds"]

    state = go_on(chat, {"messages": "And the words?"})

    kinds = [message.type for message in chat.turns(state)[-1].messages]
    assert 1 < rounds["left"] < len(kinds) - 3
    assert state["bookkeeping"]["plan"]["rounds"] == rounds
    assert kinds == ["human", "ai", *["tool"] * 13, "ai", "tool", "ai"]


@pytest.mark.thorough
@pytest.mark.parametrize("waiting", ["call", "answer"])
def test_message_that_is_put_into_the_middle(tmp_path: Path, waiting: str) -> None:
    """The turn goes on after its waiting calls, and the model reads what was said meanwhile."""
    steps = {"call": ("call_model", "application_tools"), "answer": ("application_tools", "")}
    after, before = steps[waiting]
    chat = looking(tmp_path, [*looks(1, 15), "Done."])
    stop: Any = {"interrupt_before": [before]} if before else {"interrupt_after": [after]}
    go_on(chat, {"messages": REQUEST}, **stop)
    for _ in range(10):
        go_on(chat, None, **stop)

    chat.agent.update_state(THREAD, {"messages": [HumanMessage("Quickly.")]}, as_node="call_model")
    state = go_on(chat, None)

    (turn,) = records(chat)
    assert (turn.status, state["messages"][-1].text) == ("done", "Done.")
    assert stones(turn.messages) == [*range(1, 16)]
    assert "Quickly." in chat.model.sent[-1].text


@pytest.mark.usefixtures("entry")
def test_rounds_outlive_messages_that_are_removed(tmp_path: Path) -> None:
    """Rounds that left are in the archive, whatever an application removes of the state then."""
    chat = looking(tmp_path, [*looks(1, ROUNDS), "Done."])
    with pytest.raises(GraphRecursionError):
        chat.agent.invoke({"messages": REQUEST}, {**THREAD, "recursion_limit": 60})
    there = stones(chat.agent.get_state(THREAD).values["messages"])
    chat.agent.update_state(THREAD, {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES)]})
    then(chat, "Hello.")

    state = go_on(chat, {"messages": "Hello?"})

    first, second = chat.turns(state)
    assert (first.status, second.status) == ("aborted", "done")
    assert stones(first.messages) == [*range(1, there[0])]
    assert chat.archive.verify(SESSION) == ()


@pytest.mark.thorough
@pytest.mark.parametrize("clearing", ["clear", "clear_bare"])
@pytest.mark.usefixtures("entry")
def test_tool_that_removes_all_messages(tmp_path: Path, clearing: str) -> None:
    """Earlier turns leave `messages`; the running turn, which no archive has yet, stays whole."""
    before, after = looks(11, 12)
    at_once = together(before, call(clearing), call(clearing), after)
    script = [*looks(1, 10), at_once, *looks(13, 15), "Done."]
    chat = looking(tmp_path, ["Hi.", *script], tools=[look, clear, clear_bare])
    go_on(chat, {"messages": "Hello."})

    state = go_on(chat, {"messages": REQUEST})

    assert [m.text for m in state["messages"] if m.type == "human"] == [REQUEST]
    assert REQUEST in chat.model.sent[-1].text
    assert [orphans(sent.messages) for sent in chat.model.sent] == [0] * len(chat.model.sent)
    assert [text(turn.messages[0]) for turn in chat.turns(state)] == ["Hello.", REQUEST]
    assert stones(records(chat)[0].messages) == [*range(1, 16)]


def test_what_is_redacted_is_in_no_row(tmp_path: Path) -> None:
    """What the PII middleware takes out of results is not in rounds that no commit reaches."""

    @tool
    def find(number: int) -> str:
        """Find a person."""
        return f"number {number} is ann{number}@example.com, " + "as the list says. " * 60

    rounds = [call("find", number=number) for number in range(ROUNDS)]
    middleware: list[Any] = [
        PIIMiddleware("email", strategy="redact", apply_to_tool_results=True),
        EbbtideMiddleware(archive=DiskArchive(tmp_path), settings=SMALL),
    ]
    model, saver = ScriptedModel([*rounds, ValueError("overloaded")]), InMemorySaver()
    agent = create_agent(model, [find], middleware=middleware, checkpointer=saver)
    with pytest.raises(ValueError, match="overloaded"):
        agent.invoke(cast("Any", {"messages": REQUEST}), {**THREAD, "recursion_limit": 500})

    state = agent.get_state(THREAD).values
    assert part_of(state) != ""
    assert holding(tmp_path, "REDACTED") == {"ebbtide.sqlite-wal"}
    assert holding(tmp_path, "@example.com") == set()


def test_limit_counts_rounds_that_left(tmp_path: Path) -> None:
    """`max_tool_rounds` counts all rounds of the turn."""
    settings = SMALL.model_copy(update={"max_tool_rounds": 15})
    chat = looking(tmp_path, [*looks(1, 15), "That is what I have."], settings=settings)

    state = go_on(chat, {"messages": REQUEST})

    assert state["messages"][-1].text == "That is what I have."
    assert chat.model.sent[-1].tool_choice == "none"


def test_transcript_while_the_turn_runs(tmp_path: Path) -> None:
    """A chat UI that opens the thread meanwhile sees all rounds."""
    chat = looking(tmp_path, [*looks(1, 15), call("ask", question="May I?")])
    go_on(chat, {"messages": REQUEST})

    messages, _ = transcript(chat.agent, THREAD)

    assert messages[0].text == REQUEST
    assert stones(messages) == [*range(1, 16)]


@pytest.mark.thorough
def test_erasing_reaches_the_parts(tmp_path: Path) -> None:
    """After a turn is erased no file holds anything of its rounds."""
    chat = looking(tmp_path / "archive", [*looks(1, 20), "Done.", "Yes."])
    go_on(chat, {"messages": REQUEST})
    go_on(chat, {"messages": "Really?"})

    erase(chat.agent, THREAD, 1)

    with closing(sqlite3.connect(tmp_path / "archive" / "ebbtide.sqlite")) as files:
        assert files.execute("SELECT count(*) FROM ebbtide_parts").fetchone() == (0,)


def test_forged_part_is_no_harm(tmp_path: Path) -> None:
    """A part that the archive has not is left out, and the turn goes on."""
    chat = looking(tmp_path, [*looks(1, 3), "Done."])
    go_on(chat, {"messages": REQUEST}, interrupt_before=["call_model"])
    forged = {"bookkeeping": {"round": Part("ab", "", ()).id}}
    chat.agent.update_state(THREAD, forged, as_node="assemble_context")

    state = go_on(chat, None)

    assert state["messages"][-1].text == "Done."
    assert stones(records(chat)[0].messages) == [1, 2, 3]


@contextmanager
def saving(path: Path) -> Iterator[tuple[SqliteSaver, sqlite3.Connection]]:
    """Yield a checkpointer on a file, and its connection."""
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        yield SqliteSaver(connection), connection


_SIZE = """
SELECT (SELECT coalesce(sum(length(checkpoint) + length(metadata)), 0) FROM checkpoints)
     + (SELECT coalesce(sum(length(value)), 0) FROM writes)
"""


@pytest.mark.thorough
@pytest.mark.usefixtures("entry")
def test_bytes_of_a_late_round(tmp_path: Path) -> None:
    """Rounds 45 to 60 write no more than 1.2 of what rounds 15 to 30 do."""
    with saving(tmp_path / "checkpoints.sqlite") as (saver, connection):
        chat = looking(tmp_path, [*looks(1, 60), "Done."], checkpointer=saver)
        config: Any = {**THREAD, "recursion_limit": 1_000}
        steps = chat.agent.stream({"messages": REQUEST}, config, durability="sync")
        sizes = [
            connection.execute(_SIZE).fetchone()[0]
            for step in steps
            if step.keys() & {"application_tools", "tools"}
        ]

    assert len(sizes) == 60
    assert sizes[59] - sizes[44] <= 1.2 * (sizes[29] - sizes[14])


@pytest.mark.usefixtures("entry")
def test_lost_rounds_are_said(tmp_path: Path) -> None:
    """A turn whose parts are not in the archive any more goes on with the rounds that it has."""
    chat = looking(tmp_path, [*looks(1, 15), call("ask", question="Go on?")])
    stopped = go_on(chat, {"messages": REQUEST})
    kept = stones(stopped["messages"])
    with closing(sqlite3.connect(tmp_path / "ebbtide.sqlite")) as connection, connection:
        connection.execute("DELETE FROM ebbtide_parts")
    again = looking(tmp_path, [*looks(16, 17), "Done."], checkpointer=chat.agent.checkpointer)

    state = go_on(again, Command(resume="yes"))

    assert 1 < kept[0] < kept[-1] == 15
    assert [one for one in state["memory"]["banners"] if "Lost rounds" in one]
    assert stones(again.model.sent[0].messages)[-1] == 15
    assert stones(again.model.sent[-1].messages)[-2:] == [16, 17]
    assert stones(records(again)[0].messages) == [*kept, 16, 17]


def test_turn_goes_on_with_a_copy_of_the_archive(tmp_path: Path) -> None:
    """A turn that waits for a person while its archive is copied ends with all its rounds."""
    chat = looking(tmp_path / "one", [*looks(1, 15), call("ask", question="Go on?")])
    go_on(chat, {"messages": REQUEST})
    copied = archive_in(tmp_path / "two")
    copy(chat.archive, copied)
    saver = chat.agent.checkpointer
    again = looking(tmp_path / "two", [*looks(16, 17), "Done."], archive=copied, checkpointer=saver)

    state = go_on(again, Command(resume="yes"))

    assert stones(records(again)[0].messages) == [*range(1, 18)]
    assert stones(transcript(again.agent, THREAD)[0]) == [*range(1, 18)]
    assert not [one for one in state["memory"]["banners"] if "ost rounds" in one]
    assert copied.verify(SESSION) == ()
