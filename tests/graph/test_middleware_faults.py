"""The middleware after crashes, in forks and in another process: SQLite and files, no memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from ebbtide import commands, erase
from tests.agents import THREAD, Talk
from tests.doubles import call
from tests.graph.test_crash_before_checkpoint import Killed, KilledSaver, stored
from tests.graph.test_middleware import made
from tests.test_complaints import orphans

NODES = [
    *("EbbtideMiddleware.before_agent", "model", "EbbtideMiddleware.after_model"),
    "EbbtideMiddleware.after_agent",
]
OPENING = [call("open_effort", name="a"), "opened"]


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[SqliteSaver]:
    """Return a checkpointer on a file."""
    with SqliteSaver.from_conn_string(str(tmp_path / "c.sqlite")) as kept:
        yield kept


def killed(root: Path, after: str) -> Talk:
    """Return an agent that was killed in its second turn, before the checkpoint after a node."""
    saver = KilledSaver()
    chat = made(root, saver, ["yes", *OPENING, *["done"] * 9])
    chat.say("number 1")
    saver.after = after
    with pytest.raises(Killed):
        chat.say("number 2", durability="sync")
    saver.after = ""
    return chat


@pytest.mark.parametrize("after", NODES)
def test_a_killed_turn_is_resumed(tmp_path: Path, after: str) -> None:
    """Wherever it was killed, the turn stands once in the archive, and its calls are answered."""
    chat = killed(tmp_path, after)

    state = chat.agent.invoke(None, THREAD)

    assert chat.said(state) == ["number 1", "number 2"]
    assert [turn.status for turn in chat.turns(state)] == ["done", "done"]
    assert [orphans(sent.messages) for sent in chat.model.sent if sent.messages] == [0] * len(
        chat.model.sent
    )


@pytest.mark.parametrize("after", NODES)
def test_a_new_message_after_a_kill_loses_nothing(tmp_path: Path, after: str) -> None:
    """What the killed turn left is committed first, once."""
    chat = killed(tmp_path, after)

    state = chat.say("number 3")

    assert chat.said(state) == ["number 1", "number 2", "number 3"]
    assert orphans(chat.last) == 0


@pytest.mark.parametrize("after", NODES)
def test_undo_keeps_what_a_killed_turn_said(tmp_path: Path, after: str) -> None:
    """The turn is in the archive before the thread goes back."""
    chat = killed(tmp_path, after)

    assert commands.undo(chat.agent, THREAD).turn == 1

    assert "number 2" in stored(chat.archive)
    assert chat.said(chat.say("instead")) == ["number 1", "instead"]


def test_commands_in_another_process(tmp_path: Path, saver: Any) -> None:
    """The sizes of the application's prompt and tools are those of the thread's last call."""
    first = made(tmp_path, saver, [*OPENING, "yes"], system_prompt="Be brief. " * 99)
    before = commands.show_context(first.agent, THREAD, "open a")
    first.say("open a")
    lived = first.say("hello")["memory"]["context_report"]

    chat = made(tmp_path, saver, ["and on"], system_prompt="Be brief. " * 99)

    shown = commands.show_context(chat.agent, THREAD, "hello")
    sizes = {part.name: part.tokens for part in shown.parts}
    assert ("first" in before.missing, "last" in shown.missing) == (True, True)
    assert before.parts[0].tokens + 200 < sizes["system"] == lived["tokens"]["system"]
    assert sizes["tools"] == lived["tokens"]["tools"]
    assert shown.total > lived["total"]
    assert erase(chat.agent, THREAD, 2).turn == 2
    assert chat.said(chat.say("go on"))[-1] == "go on"
    assert len(chat.model.sent) == 1


def test_no_cost_grows_with_the_session(tmp_path: Path, saver: Any) -> None:
    """Messages in the state stay few, and so do the bytes of a checkpoint."""
    chat = made(tmp_path, saver, lambda _: "a word or two")
    sizes = []
    for turn in range(22):
        state = chat.say(f"number {turn}")
        found = saver.get_tuple(THREAD).checkpoint
        sizes.append(len(str(found["channel_values"])))

    assert len(state["messages"]) == 6
    assert max(sizes[17:]) < 1.1 * max(sizes[10:15])
