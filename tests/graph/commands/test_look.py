"""The commands that only look."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState

from ebbtide import CommandError, MemoryState, SettingsError, commands, erase
from tests.agents import THREAD, Talk, inside, talk
from tests.doubles import approve, call
from tests.memory.turns import turn

pytestmark = pytest.mark.usefixtures("entry")

LONG = "The refresh token expires after 3600 seconds, and nobody renews it."
SCRIPT = [
    *("hello", call("open_effort", name="auth bug"), "opened", call("close_effort"), "closed"),
    *(call("open_effort", name="css"), "opened"),
]


def lived(root: Path, **options: Any) -> Talk:
    """Return an agent after a turn outside, one effort concluded and one open."""
    chat = talk(root, SCRIPT, **options)
    for words in ("hi", LONG, "done", "The sidebar overlaps."):
        chat.say(words)
    return chat


def test_messages_has_pages(tmp_path: Path) -> None:
    """Twenty turns stand on a page; a page that is not there is an error that says which are."""
    chat = talk(tmp_path, ["yes"] * 21)
    chat.say_all(f"number {turn}" for turn in range(1, 22))

    found = commands.messages(chat.agent, THREAD, 2)

    assert [line.said for line in found.lines] == ["number 1"]
    newest = commands.messages(chat.agent, THREAD).lines
    assert [line.turn for line in newest] == [*range(21, 1, -1)]
    with pytest.raises(CommandError, match="no page 3: the pages are 1-2"):
        commands.messages(chat.agent, THREAD, 3)


def test_efforts_are_what_the_tool_says(tmp_path: Path) -> None:
    """Status, activity and turns of each effort, each turn once."""
    chat = lived(tmp_path)

    found = commands.efforts(chat.agent, THREAD).efforts

    listed = [(one.id, one.status, one.active, one.turns) for one in found]
    assert listed == [("css", "open", True, "4"), ("auth-bug", "concluded", False, "2-3")]


def test_stats_are_of_the_lineage(tmp_path: Path) -> None:
    """A turn that was undone does not count."""
    chat = lived(tmp_path)
    before = commands.stats(chat.agent, THREAD)
    commands.undo(chat.agent, THREAD)

    after = commands.stats(chat.agent, THREAD)

    assert after.turns == before.turns[:-1]


@pytest.mark.parametrize("look", [commands.messages, commands.stats])
def test_a_thread_without_checkpoints_is_read_from_the_archive(tmp_path: Path, look: Any) -> None:
    """What the archive holds of a thread can be looked at before it is restored."""
    chat = lived(tmp_path)
    again = talk(tmp_path, [], checkpointer=InMemorySaver())

    found = look(again.agent, THREAD)

    assert found == look(chat.agent, THREAD)


def test_ids_that_no_file_can_hold_name_the_same_thread(tmp_path: Path) -> None:
    """A thread's lone surrogates are read as turns read them; in a user's id they are refused."""
    ours: RunnableConfig = {"configurable": {"thread_id": "t\ud800", "user_id": "ann"}}
    chat = talk(tmp_path, ["one"])
    chat.say("hi", ours)

    assert commands.messages(chat.agent, ours).lines[0].said == "hi"
    assert erase(chat.agent, ours, 1).turn == 1
    with pytest.raises(SettingsError, match="user_id: pass "):
        commands.messages(chat.agent, {"configurable": {"thread_id": "t", "user_id": "ann\ud800"}})


@pytest.mark.thorough
@pytest.mark.parametrize("schema", [MemoryState, MessagesState])
def test_the_graph_around_the_agent_is_asked(tmp_path: Path, schema: Any) -> None:
    """What is shown of it is what the agent alone would show, and what it sends next."""
    alone = lived(tmp_path / "alone")
    chat = talk(tmp_path / "inside", [*SCRIPT, "It does."], checkpointer=None)
    outer = inside(chat, schema)
    for words in ("hi", LONG, "done", "The sidebar overlaps."):
        outer.invoke({"messages": words}, THREAD)

    assert commands.efforts(outer, THREAD) == commands.efforts(alone.agent, THREAD)
    assert [one.said for one in commands.messages(outer, THREAD).lines] == [
        one.said for one in commands.messages(alone.agent, THREAD).lines
    ]
    assert commands.search(outer, THREAD, "refresh token").results[0].id == "auth-bug"
    assert [line.turn for line in commands.stats(outer, THREAD).turns] == [1, 2, 3, 4]
    shown = commands.show_context(outer, THREAD, "Does it?")
    outer.invoke({"messages": "Does it?"}, THREAD)
    assert [m.text for m in shown.messages] == [m.text for m in chat.last]
    assert shown.turn == 5


@pytest.mark.parametrize("schema", [MemoryState, MessagesState])
def test_an_unfinished_turn_inside_a_graph_is_shown(tmp_path: Path, schema: Any) -> None:
    """While a tool waits for a person, the context is the one of the turn that waits."""
    script = ["hello", call("approve", what="pay")]
    chat = talk(tmp_path, script, tools=[approve], checkpointer=None)
    outer = inside(chat, schema)
    outer.invoke({"messages": "hi"}, THREAD)
    outer.invoke({"messages": "pay"}, THREAD)

    shown = commands.show_context(outer, THREAD)

    assert (shown.turn, shown.unfinished) == (2, True)
    assert [m.text for m in shown.messages if m.type == "human"][1:] == ["hi", "pay"]
    assert [line.turn for line in commands.messages(outer, THREAD).lines] == [1]


def test_verify_names_ends_without_a_checkpoint(tmp_path: Path) -> None:
    """A fork has its checkpoint; a turn whose process died before it was written has none."""
    chat = talk(tmp_path, lambda _: "OK.", checkpointer=InMemorySaver())
    chat.say("One.")
    first = chat.agent.get_state(THREAD).config
    chat.say("Two.")
    chat.say("Zwei.", first)
    (session,) = chat.archive.sessions("")
    lost = chat.archive.commit(session, chat.archive.tips(session)[0], turn(3)).tip

    findings = commands.verify(chat.agent, THREAD)

    assert [one.fatal for one in findings] == [False] * len(findings)
    unnamed = [one.where for one in findings if one.what == "no checkpoint names it"]
    assert unnamed == [f"turn 3 ({lost.id[:12]})"]
