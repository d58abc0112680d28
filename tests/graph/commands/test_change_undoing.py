"""Going back one turn: a fork, so that nothing is lost."""

from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState

from ebbtide import (
    CommandError,
    MemoryState,
    SessionNotFoundError,
    SettingsError,
    commands,
    erase,
    restore,
    transcript,
)
from ebbtide.memory.errors import EbbtideError
from ebbtide.memory.turn import Session
from ebbtide.testing import ScriptedModel
from tests.agents import THREAD, Talk, inside, talk
from tests.doubles import call
from tests.faults.disks import FullDisk
from tests.graph.test_crash_before_checkpoint import stored

pytestmark = pytest.mark.usefixtures("entry")

SESSION = Session("", "t")
set_window = partial(commands.set_window, turns=1)


def lived(root: Path, turns: int = 3, **options: Any) -> Talk:
    """Return an agent after some turns."""
    chat = talk(root, ["yes"] * 20, **options)
    for turn in range(1, turns + 1):
        chat.say(f"number {turn}")
    return chat


def test_it_goes_back_turn_by_turn_to_the_beginning(tmp_path: Path) -> None:
    """Each undo takes one turn, the first one too; then there is none."""
    chat = lived(tmp_path)

    turns = [commands.undo(chat.agent, THREAD).turn for _ in range(3)]

    assert turns == [2, 1, 0]
    with pytest.raises(CommandError, match="no turn to undo"):
        commands.undo(chat.agent, THREAD)
    state = chat.say("anew")
    assert (state["memory"]["turn"], chat.said(state)) == (1, ["anew"])
    assert stored(chat.archive) == {"number 1", "number 2", "number 3", "anew"}


def test_it_follows_the_lineage_and_not_the_clock(tmp_path: Path) -> None:
    """States of other branches that are newer are no past of this one."""
    chat = lived(tmp_path)
    third = chat.agent.get_state(THREAD).config
    first = next(
        one for one in chat.agent.get_state_history(THREAD) if one.values["memory"]["turn"] == 1
    )
    chat.say("other", first.config)
    chat.say("number 4", third)

    commands.undo(chat.agent, THREAD)

    said = chat.said(chat.agent.get_state(THREAD).values)
    assert said == ["number 1", "number 2", "number 3"]


def test_efforts_go_back_as_well(tmp_path: Path) -> None:
    """An effort that was concluded in the turn is open again, for search and for the model."""
    chat = talk(tmp_path, [call("open_effort", name="a"), "o", call("close_effort"), "c"])
    chat.say("work")
    chat.say("done")

    commands.undo(chat.agent, THREAD)

    (found,) = commands.efforts(chat.agent, THREAD).efforts
    assert (found.status, found.active) == ("open", True)


def test_a_command_is_undone_alone(tmp_path: Path) -> None:
    """What was closed by hand is open again."""
    chat = lived(tmp_path, 1)
    commands.open_effort(chat.agent, THREAD, "a")
    commands.close_effort(chat.agent, THREAD)

    turn = commands.undo(chat.agent, THREAD).turn

    assert (turn, chat.agent.get_state(THREAD).values["memory"]["active_effort"]) == (1, "a")


@pytest.mark.parametrize("before", [0, 2])
def test_an_unfinished_turn_is_archived_and_left_behind(tmp_path: Path, before: int) -> None:
    """What was said in it is kept as aborted on a branch, and the thread is at rest before it."""
    chat = talk(tmp_path, [*["yes"] * before, ConnectionError("gone"), "instead"])
    chat.say_all(f"number {turn}" for turn in range(1, before + 1))
    with pytest.raises(ConnectionError):
        chat.say("question")

    turn = commands.undo(chat.agent, THREAD).turn

    assert (turn, chat.agent.get_state(THREAD).next) == (before, ())
    state = chat.say("other")
    assert chat.said(state)[before:] == ["other"]
    assert "question" in stored(chat.archive)


def test_a_turn_that_only_waits_for_the_archive_is_kept_whole(tmp_path: Path) -> None:
    """A turn with its answer is archived as done before it is left behind."""
    chat = lived(tmp_path, 1, archive=FullDisk(tmp_path, durable=False))
    assert isinstance(chat.archive, FullDisk)
    chat.archive.failures = 3
    with pytest.raises(OSError, match="No space left"):
        chat.say("number 2")

    turn = commands.undo(chat.agent, THREAD).turn

    tip = chat.archive.load(SESSION).tip
    assert tip is not None
    assert turn == 1
    assert [r.status for r in chat.archive.load(SESSION, tip).turns([2])] == ["done"]


def test_a_message_whose_turn_could_not_begin_is_left_behind(tmp_path: Path) -> None:
    """Where the turn was never counted, the thread goes back to its last turn."""
    chat = lived(tmp_path, 2)
    chat.agent.update_state(THREAD, {"messages": [("user", "late")]}, as_node="__start__")

    turn = commands.undo(chat.agent, THREAD).turn

    assert (turn, chat.said(chat.say("on"))) == (2, ["number 1", "number 2", "on"])


def test_without_older_checkpoints_it_says_so(tmp_path: Path) -> None:
    """A thread that was rebuilt cannot go behind the turn it was rebuilt at."""
    lived(tmp_path)
    again = talk(tmp_path, ["yes"], checkpointer=InMemorySaver())
    restore(again.agent, THREAD)
    again.say("number 4")

    turn = commands.undo(again.agent, THREAD).turn

    assert turn == 3
    with pytest.raises(CommandError, match="no earlier checkpoint"):
        commands.undo(again.agent, THREAD)


class NewestOnly(InMemorySaver):
    """Keeps the newest checkpoint of a thread, as some savers do to stay small."""

    def put(self, config: Any, *written: Any) -> Any:
        """Write a checkpoint, and delete the one before it."""
        chosen = config["configurable"]
        there = self.storage[chosen["thread_id"]][chosen["checkpoint_ns"]]
        there.pop(chosen.get("checkpoint_id"), None)
        return super().put(config, *written)


def with_newest_only(root: Path, schema: Any) -> Any:
    """Return an agent, inside a graph if there is a schema, with the newest checkpoint alone."""
    chat = talk(root, ["one", "two", "three"], checkpointer=None if schema else NewestOnly())
    if schema is None:
        return chat.agent
    agent = inside(chat, schema)
    agent.checkpointer = NewestOnly()
    return agent


@pytest.mark.parametrize("schema", [None, MemoryState, MessagesState])
def test_a_checkpoint_that_is_not_kept_is_no_beginning(tmp_path: Path, schema: Any) -> None:
    """The newest one still names the one before it; the thread stays as it is."""
    agent = with_newest_only(tmp_path, schema)
    agent.invoke({"messages": "first"}, THREAD)
    agent.invoke({"messages": "second"}, THREAD)

    with pytest.raises(CommandError, match="no earlier checkpoint"):
        commands.undo(agent, THREAD)

    state = agent.invoke({"messages": "third"}, THREAD)
    assert [m.text for m in state["messages"] if m.type == "human"] == ["first", "second", "third"]


def test_it_goes_back_where_only_the_ends_of_turns_are_kept(tmp_path: Path) -> None:
    """With durability `exit` there is a checkpoint for each turn, which is enough."""
    chat = talk(tmp_path, ["yes"] * 3)
    chat.say("one", durability="exit")
    chat.say("two", durability="exit")
    chat.say("three", durability="exit")

    turns = [commands.undo(chat.agent, THREAD).turn for _ in range(2)]

    assert turns == [2, 1]
    with pytest.raises(CommandError, match="turn 1 cannot be undone"):
        commands.undo(chat.agent, THREAD)


def test_at_the_beginning_nothing_is_known(tmp_path: Path) -> None:
    """A thread that went back to its beginning shows none of the turns that the archive has."""
    chat = lived(tmp_path, 1)

    commands.undo(chat.agent, THREAD)

    with pytest.raises(SessionNotFoundError):
        commands.messages(chat.agent, THREAD)


def test_a_graph_around_the_agent_is_changed(tmp_path: Path) -> None:
    """Window, anchor and undoing work on the memory that it keeps."""
    script = ["one\n\n---STATE---\nGoal: ship\n---END STATE---", "two", "three"]
    chat = talk(tmp_path, script, checkpointer=None, entry="graph")
    outer = inside(chat, MemoryState)
    outer.invoke({"messages": "first"}, THREAD)
    outer.invoke({"messages": "second"}, THREAD)

    source = commands.rebuild_anchor(outer, THREAD).source
    undone = commands.undo(outer, THREAD).turn
    commands.set_window(outer, THREAD, 1)

    assert (source, undone, outer.get_state(THREAD).next) == ("block", 1, ())
    state = outer.invoke({"messages": "third"}, THREAD)
    assert (chat.said(state), state["bookkeeping"]["window"]) == (["first", "third"], 1)


@pytest.mark.parametrize("change", [commands.rebuild_anchor, set_window])
def test_a_graph_that_keeps_messages_alone_says_what_it_lacks(tmp_path: Path, change: Any) -> None:
    """There is nothing in its state that could be changed."""
    chat = talk(tmp_path, ["one"], checkpointer=None)
    outer = inside(chat, MessagesState)
    outer.invoke({"messages": "first"}, THREAD)

    with pytest.raises(SettingsError, match="mix MemoryState"):
        change(outer, THREAD)


@pytest.fixture
def older(tmp_path: Path) -> Talk:
    """Return an agent with a thread of two turns that were said before it had a memory."""
    chat = talk(tmp_path, ["yes"] * 20)
    plain = create_agent(ScriptedModel(["No.", "Still no."]), checkpointer=chat.agent.checkpointer)
    for words in ("Is the gate green?", "And now?"):
        plain.invoke(cast("Any", {"messages": words}), THREAD)
    return chat


def test_adopted_turns_are_not_undone_with_the_first_one(older: Talk) -> None:
    """Before the first turn with a memory stand those that were adopted then, one at a time."""
    older.say("It rains.")
    said = ["Is the gate green?", "And now?", "It rains."]

    assert [m.text for m in transcript(older.agent, THREAD)[0]][::2] == said
    assert commands.undo(older.agent, THREAD).turn == 2
    assert [m.text for m in transcript(older.agent, THREAD)[0]][::2] == said[:2]
    assert commands.undo(older.agent, THREAD).turn == 1
    assert [m.text for m in older.agent.get_state(THREAD).values["messages"]][::2] == said[:1]
    older.say("Go on.")
    assert [m.text for m in transcript(older.agent, THREAD)[0]][::2] == [said[0], "Go on."]


@pytest.mark.parametrize(
    "command",
    [commands.undo, restore, partial(erase, turn=1), commands.efforts, set_window, commands.verify],
)
def test_a_thread_older_than_the_memory(older: Talk, command: Any) -> None:
    """Commands change nothing before it is adopted, and say what to do."""
    before = older.agent.get_state(THREAD)

    with pytest.raises(EbbtideError, match=r"not archived yet|no turn to undo"):
        command(older.agent, THREAD)

    assert older.agent.get_state(THREAD).config == before.config
    assert len(transcript(older.agent, THREAD)[0]) == 4
