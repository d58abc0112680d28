"""The messages in state are told apart: archived turns, a broken one, a new one."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from ebbtide import DiskArchive
from ebbtide.memory.errors import InputError
from ebbtide.memory.turn import Session, Tip
from ebbtide.memory.view import view_at
from ebbtide.nodes.turn.arrivals import SplitInput, split_input
from ebbtide.nodes.turn.edits import Compared
from tests.doubles import call

ONE, A = HumanMessage("one", id="1"), AIMessage("a", id="2")
TWO, B = HumanMessage("two", id="3"), AIMessage("b", id="4")
ASKS = call("add", a=1)
ASKS.id = "4"
FIRST: dict[str, Any] = {"turn": 1, "persisted": 1, "asked": {"1": 1}}
SETTLED: dict[str, Any] = {**FIRST, "archived": "2"}
RUNNING: dict[str, Any] = {**SETTLED, "turn": 2, "asked": {"1": 1, "3": 2}}


def arrived(root: Path, messages: list[BaseMessage], **marks: Any) -> SplitInput:
    """Return what came in; the archive is empty."""
    state: Any = {"messages": messages, **marks}
    return split_input(state, view_at(DiskArchive(root), Session("ann", "t"), Tip()))


def test_what_follows_the_archived_turn_is_new(tmp_path: Path) -> None:
    """What comes before it stays what it was."""
    found = arrived(tmp_path, [ONE, A, TWO], **SETTLED)

    assert (found.past, found.unfinished, found.new) == ([ONE, A], [], [TWO])


def test_a_broken_turn_is_closed(tmp_path: Path) -> None:
    """A call that a broken turn left open gets an error result before the new message."""
    found = arrived(tmp_path, [ONE, A, TWO, ASKS, HumanMessage("three", id="9")], **RUNNING)

    result = found.unfinished[-1]
    assert found.unfinished[:-1] == [TWO, ASKS]
    assert isinstance(result, ToolMessage)
    assert (result.tool_call_id, result.status) == ("call_1_add", "error")
    assert [message.text for message in found.new] == ["three"]
    assert found.past == [ONE, A]


def test_a_question_that_is_asked_again_is_new(tmp_path: Path) -> None:
    """The unanswered question of a broken turn, sent with its id, gets another one."""
    found = arrived(tmp_path, [ONE, A, TWO], **RUNNING)

    assert found.unfinished == [TWO]
    assert [message.text for message in found.new] == ["two"]
    assert found.new[0].id != TWO.id


@pytest.mark.parametrize(
    ("messages", "marks"), [([], {}), ([ONE, A], SETTLED), ([ONE, A, TWO, B], RUNNING)]
)
def test_nothing_new_is_an_error(
    tmp_path: Path, messages: list[BaseMessage], marks: dict[str, Any]
) -> None:
    """A run with nothing to answer says so."""
    with pytest.raises(InputError, match="no new message"):
        arrived(tmp_path, messages, **marks)


@pytest.mark.parametrize(
    ("window", "kept"), [(0, {}), (1, {2: [TWO, B]}), (5, {1: [ONE, A], 2: [TWO, B]})]
)
def test_the_newest_turns_are_kept(window: int, kept: dict[int, list[BaseMessage]]) -> None:
    """As many earlier turns stay in the messages as the window says, a broken one included."""
    found = SplitInput([ONE, A], [TWO, B], [], Compared({1: [ONE, A]}))

    assert found.kept_turns(2, window) == kept
