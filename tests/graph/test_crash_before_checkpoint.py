"""Commands on a thread that was killed between what a node wrote and its checkpoint.

LangGraph then says that no node follows, although the turn is not in the archive.
"""

import asyncio
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import DiskArchive, Settings, TurnRunningError, commands, erase
from ebbtide.cli.conversation import Conversation
from ebbtide.memory.messages import text
from ebbtide.memory.turn import Session
from tests.agents import THREAD, Talk, talk
from tests.doubles import call

SESSION = Session("", "t")
NODES = ["begin_turn", "call_model", "persist"]


class Killed(Exception):  # noqa: N818 (what happens to a process)
    """The process ended."""


class KilledSaver(InMemorySaver):
    """A checkpointer that keeps what a node wrote and is killed before the checkpoint after it."""

    after = ""
    seen: Mapping[str, Any] = MappingProxyType({})

    def put(self, config: RunnableConfig, checkpoint: Any, *more: Any) -> RunnableConfig:
        """Keep a checkpoint, but for the first one that has seen the node."""
        seen = deepcopy(checkpoint["versions_seen"])
        ran = {name for name in seen if seen[name] != self.seen.get(name)}
        if self.after and any(self.after in name for name in ran):
            raise Killed
        self.seen = seen
        return super().put(config, checkpoint, *more)


def killed(root: Path, after: str, turns: int = 2) -> Talk:
    """Return an agent that was killed after a node of its last turn; no node follows."""
    saver = KilledSaver()
    chat = talk(root, ["yes"] * 9, checkpointer=saver)
    for turn in range(1, turns):
        chat.say(f"number {turn}")
    saver.after = after
    with pytest.raises(Killed):
        chat.say(f"number {turns}", durability="sync")
    saver.after = ""
    assert chat.agent.get_state(THREAD).next == ()
    return chat


def stored(archive: DiskArchive) -> set[str]:
    """Return what the user said in any turn of any branch."""
    tips = archive.tips(SESSION)
    turns = [r for tip in tips for r in archive.load(SESSION, tip).turns(range(1, tip.turn + 1))]
    return {text(m) for r in turns for m in r.messages if m.type == "human"}


@pytest.mark.parametrize("after", ["__start__", *NODES])
def test_a_chat_says_what_is_unfinished(tmp_path: Path, after: str) -> None:
    """Who opens the thread again is told the question, also of a turn that no node had begun."""
    chat = killed(tmp_path, after)
    with asyncio.Runner() as runner:
        opened = Conversation(runner, chat.agent, SESSION, tmp_path / "history", 16_000)
        assert opened.unfinished() == "number 2"

        opened.run(None, lambda *_: None)

        assert opened.unfinished() is None
    assert stored(chat.archive) == {"number 1", "number 2"}


@pytest.mark.parametrize("after", NODES[:-1])
def test_nothing_is_erased(tmp_path: Path, after: str) -> None:
    """The turn is not finished, so erasing raises, and resuming finishes it."""
    chat = killed(tmp_path, after)

    with pytest.raises(TurnRunningError, match="turn 2 of thread 't' is not finished"):
        erase(chat.agent, THREAD, 1)

    state = chat.agent.invoke(None, THREAD)
    assert chat.said(state) == ["number 1", "number 2"]
    assert erase(chat.agent, THREAD, 1).turn == 1


def test_a_turn_that_the_archive_has_is_no_hindrance(tmp_path: Path) -> None:
    """When only the checkpoint after `persist` is missing, the thread is at rest."""
    chat = killed(tmp_path, "persist")

    erase(chat.agent, THREAD, 1)

    assert chat.said(chat.say("number 3")) == ["number 2", "number 3"]


@pytest.mark.parametrize("after", NODES)
@pytest.mark.parametrize("turns", [1, 2])
def test_undo_keeps_what_was_said(tmp_path: Path, after: str, turns: int) -> None:
    """The turn is in the archive before the thread goes back, and the one before it stays."""
    chat = killed(tmp_path, after, turns)

    assert commands.undo(chat.agent, THREAD).turn == turns - 1

    assert f"number {turns}" in stored(chat.archive)
    state = chat.say("instead")
    assert chat.said(state) == [*["number 1"] * (turns - 1), "instead"]


def test_what_faded_in_a_turn_that_the_archive_has_stays_gone(tmp_path: Path) -> None:
    """A new message goes on with the memory that was stored with the turn, not the one before."""
    saver = KilledSaver()
    answers = [call("open_effort", name="a"), "opened", call("close_effort"), "closed"]
    answers += [call("expand_effort", effort_id="a"), "shown", "yes", "yes"]
    chat = talk(tmp_path, answers, checkpointer=saver, settings=Settings(decay_threshold=1))
    chat.say_all(("open it", "close it", "show it"))
    saver.after = "persist"
    with pytest.raises(Killed):
        chat.say("and now?", durability="sync")
    saver.after = ""

    state = chat.say("next")

    collapsed = [e for r in chat.turns(state) for e in r.events if e["type"] == "collapsed"]
    assert (state["memory"]["expanded"], len(collapsed)) == ({}, 1)
    assert chat.said(state)[-2:] == ["and now?", "next"]


@pytest.mark.parametrize("command", ["open", "window", "rebuild", "show"])
def test_other_commands_wait(tmp_path: Path, command: str) -> None:
    """What changes a thread at rest is refused as for any turn that is not finished."""
    chat = killed(tmp_path, "call_model")
    does: dict[str, Any] = {
        "open": lambda: commands.open_effort(chat.agent, THREAD, "a"),
        "window": lambda: commands.set_window(chat.agent, THREAD, 3),
        "rebuild": lambda: commands.rebuild_anchor(chat.agent, THREAD),
        "show": lambda: commands.show_context(chat.agent, THREAD, "and now?"),
    }

    with pytest.raises(TurnRunningError):
        does[command]()


def test_the_context_of_resuming_can_be_seen(tmp_path: Path) -> None:
    """Without a message it is what resuming would send."""
    chat = killed(tmp_path, "begin_turn")

    shown = commands.show_context(chat.agent, THREAD)

    chat.agent.invoke(None, THREAD)
    assert (shown.turn, shown.unfinished) == (2, True)
    assert [m.text for m in shown.messages] == [m.text for m in chat.last]
