"""What a memory tool works on, and how it finds the effort that the model names."""

from dataclasses import replace
from itertools import count

import pytest

from ebbtide.memory.errors import ToolError
from tests.memory.conversations import Conversation, call


@pytest.fixture
def busy(talk: Conversation) -> Conversation:
    """Return a conversation with one concluded and one open effort, in a running turn."""
    talk.effort("auth-bug", "one")
    talk.turn("two", call("open_effort", name="trip plan"))
    talk.ask("three")
    return talk


@pytest.mark.parametrize("written", ["Auth Bug", "  AUTH_BUG!"])
def test_an_effort_is_found_however_it_is_written(busy: Conversation, written: str) -> None:
    """The name is made a slug before it is looked up."""
    assert busy.work.find(written).id == "auth-bug"


def test_unknown_effort_before_there_is_any(talk: Conversation) -> None:
    """The error says so and names the tool that begins one."""
    talk.ask("Go on with the crane.")

    result = talk.call("switch_effort", effort_id="crane")

    assert result["error"].startswith("no effort 'crane'; this session has none yet: open_effort")


def test_an_unknown_effort_is_an_error_that_lists_what_there_is(busy: Conversation) -> None:
    """The error quotes the name and lists the efforts in the context."""
    with pytest.raises(ToolError) as raised:
        busy.work.find("database")

    assert str(raised.value) == (
        "no effort 'database'. In the context: trip-plan, auth-bug. effort_status lists them"
    )


def test_the_error_lists_ten_efforts_at_most(talk: Conversation) -> None:
    """However many efforts there are, the error stays short."""
    talk.ask("one")
    talk.run(*(call("open_effort", name=f"effort {number}") for number in range(30)))

    with pytest.raises(ToolError, match=r"In the context: effort-20, .*, effort-29\."):
        talk.work.find("database")


def test_what_is_made_of_turns_is_made_once(talk: Conversation) -> None:
    """It is held for each form of it."""
    made = count()
    talk.ask("one")
    small = talk.answer()
    talk.ask("word " * 10_000)
    large = talk.answer()

    turns = [small, large, small, replace(small), replace(small, status="erased")]
    found = [talk.work.once(("form",), one, lambda _: next(made)) for one in turns]
    other = talk.work.once(("other",), small, lambda _: next(made))

    assert found == [0, 1, 0, 0, 2]
    assert other == 3
