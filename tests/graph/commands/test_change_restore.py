"""A thread whose checkpoints are lost is rebuilt from the archive."""

from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState

from ebbtide import MemoryState, commands, erase, restore
from ebbtide.memory.errors import SessionNotFoundError, SettingsError
from ebbtide.memory.turn import Session
from tests.agents import THREAD, Talk, inside, lasting, talk, unreported
from tests.doubles import call

pytestmark = pytest.mark.usefixtures("entry")

LONG = "The refresh token expires after 3600 seconds, and nobody renews it."
SCRIPT = [
    *(call("open_effort", name="a", goal="first"), "opened"),
    *(call("open_effort", name="b"), "opened"),
    *(call("close_effort", effort_id="a"), "closed"),
    *(call("search_efforts", query="refresh"), call("expand_effort", effort_id="a"), "expanded"),
    *(call("read_log", turns=1), "read"),
]


def lived(root: Path) -> tuple[Talk, dict[str, Any]]:
    """Return an agent after five turns, and its state."""
    chat = talk(root, [*SCRIPT])
    states = [chat.say(words) for words in (LONG, LONG, "a is done", "show a", "read turn 1")]
    return chat, states[-1]


def test_state_is_rebuilt(tmp_path: Path) -> None:
    """Turn, efforts, counters and messages are what they were, and it goes on on its branch."""
    _, before = lived(tmp_path)
    chat = talk(tmp_path, ["on we go"], checkpointer=InMemorySaver())

    restore(chat.agent, THREAD)

    after = chat.agent.get_state(THREAD)
    assert lasting(after.values) == lasting(before)
    assert unreported(after.values) == unreported(before)
    assert after.next == ()
    state = chat.say("next")
    assert (state["memory"]["turn"], chat.branches) == (6, 1)
    assert chat.said(state)[-2:] == ["read turn 1", "next"]


@pytest.mark.thorough
@pytest.mark.parametrize("schema", [MemoryState, MessagesState])
def test_the_graph_around_the_agent_is_restored(tmp_path: Path, schema: Any) -> None:
    """It has its messages and the memory again, nothing follows, and the conversation goes on."""
    config: Any = {"configurable": {"thread_id": "t", "user_id": "ann"}}
    script = ["hello", call("open_effort", name="a"), "opened", "yes"]
    chat = talk(tmp_path, script, checkpointer=None)
    lost, outer = inside(chat, schema), inside(chat, schema)
    for words in ("hi", LONG):
        before = lost.invoke({"messages": words}, config)

    restore(outer, config)

    found = outer.get_state(config)
    assert ([m.text for m in found.values["messages"]], found.next) == (
        [m.text for m in before["messages"]],
        (),
    )
    outer.invoke({"messages": "and now?"}, config)
    last = commands.messages(outer, config).lines[0]
    assert (last.turn, last.said) == (3, "and now?")
    assert commands.efforts(outer, config).efforts[0].id == "a"


@pytest.mark.parametrize("named", [True, False])
def test_a_branch_with_an_unfinished_turn(tmp_path: Path, *, named: bool) -> None:
    """It is archived if its branch is named by the turn before, and not if no branch is."""
    chat = talk(tmp_path, ["1", OSError("gone"), "3"], checkpointer=InMemorySaver())
    chat.say("One.")
    (end,) = chat.archive.tips(Session("", "t"))
    with pytest.raises(OSError, match="gone"):
        chat.say("Two.")

    if named:
        restore(chat.agent, THREAD, branch=end.id)
    else:
        with pytest.raises(SettingsError, match="no branch 'nix'"):
            restore(chat.agent, THREAD, branch="nix")

    archived = [tip.turn for tip in chat.archive.tips(Session("", "t"))]
    assert archived == [2 if named else 1]
    assert chat.said(chat.say("Three.")) == ["One.", "Two.", "Three."]


def test_a_branch_can_be_chosen(tmp_path: Path) -> None:
    """A thread that began anew says where it was, and goes on there; no other name is one."""
    lived(tmp_path)
    chat = talk(tmp_path, ["hello", "on we go"], checkpointer=InMemorySaver())

    (left,) = chat.archive.tips(Session("", "t"))
    stray = chat.say("I am back.")
    position = restore(chat.agent, THREAD, branch=left.id[:12])

    assert f"restore(agent, config, branch='{left.id[:12]}')" in stray["memory"]["banners"][0]
    assert (position.turn, *chat.said(chat.say("next"))[-2:]) == (5, "read turn 1", "next")
    with pytest.raises(SettingsError, match="no branch 'nix': use one of "):
        restore(chat.agent, THREAD, branch="nix")


def test_an_erased_past_is_no_silent_beginning(tmp_path: Path) -> None:
    """An old checkpoint that an erasure took away does not hide what the archive has."""
    chat = talk(tmp_path, ["a", "b", "c"])
    chat.say("one")
    old = chat.agent.get_state(THREAD).config
    chat.say("two")
    erase(chat.agent, THREAD, 1)

    state = chat.say("three", old)

    assert "the archive has 2 turns" in "".join(state["memory"]["banners"])


def test_others_are_told_nothing(tmp_path: Path) -> None:
    """A new thread begins without a word, and another user's run in the old one is refused."""
    lived(tmp_path)
    chat = talk(tmp_path, ["a", "b"], checkpointer=InMemorySaver())

    new = chat.say("Hi.", {"configurable": {"thread_id": "new"}})
    with pytest.raises(SessionNotFoundError) as refused:
        chat.say("Hi.", {"configurable": {"thread_id": "t", "user_id": "bob"}})

    assert new["memory"]["banners"] == []
    assert "turns" not in str(refused.value)


@pytest.mark.parametrize("said_before", [0, 1])
def test_turn_that_was_cut_short_is_archived_first(tmp_path: Path, said_before: int) -> None:
    """Its question is in the archive, where the restored thread has it, and is not asked again."""
    script = [*["one"][:said_before], ConnectionError("gone"), "two"]
    chat = talk(tmp_path, script, checkpointer=InMemorySaver())
    chat.say_all(("One.",) * said_before)
    with pytest.raises(ConnectionError):
        chat.say("Cut short.")

    restore(chat.agent, THREAD)

    state = chat.say("New.")
    assert chat.said(state) == ["One."] * said_before + ["Cut short.", "New."]
    assert [turn.status for turn in chat.turns(state)][-2:] == ["aborted", "done"]


def test_first_turn_of_a_lost_thread_that_was_cut_short(tmp_path: Path) -> None:
    """It does not stand in the place of what is restored."""
    lived(tmp_path)
    chat = talk(tmp_path, [ConnectionError("gone"), "six"], checkpointer=InMemorySaver())
    with pytest.raises(ConnectionError):
        chat.say("Cut short.")

    restore(chat.agent, THREAD)

    state = chat.say("New.")
    assert chat.said(state)[:5] == [LONG, LONG, "a is done", "show a", "read turn 1"]
    assert chat.said(state)[-1] == "New."
