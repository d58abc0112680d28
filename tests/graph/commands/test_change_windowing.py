"""The ambient window of a thread."""

from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import Settings, commands, restore
from tests.agents import THREAD, Talk, shown_turns, talk

pytestmark = pytest.mark.usefixtures("entry")


def ambient(chat: Talk) -> tuple[int, ...]:
    """Return the ambient turns that the next call would be sent."""
    shown = commands.show_context(chat.agent, THREAD)
    return shown_turns(shown)["turns"]


def lived(root: Path) -> Talk:
    """Return an agent after seven turns outside of efforts, of which four are in the window."""
    chat = talk(root, ["yes"] * 10, settings=Settings(ambient_window=4, rebuild="every-turn"))
    for turn in range(1, 8):
        chat.say(f"number {turn}")
    return chat


def test_a_new_window_is_why_the_context_is_rebuilt(tmp_path: Path) -> None:
    """A change of settings takes effect at once, also where rebuilding waits."""
    chat = talk(tmp_path, ["yes"] * 9)
    chat.say_all(f"number {turn}" for turn in range(1, 8))
    commands.set_window(chat.agent, THREAD, 4)

    report = chat.say("next")["memory"]["context_report"]

    assert report["changed"] == {"after_turn": 7, "why": "settings"}
    assert report["left_out"]["turns"] == "1-3"


def test_a_run_that_sets_its_own_window_has_that(tmp_path: Path) -> None:
    """What the application says of one run comes before what was set for the thread."""
    chat = lived(tmp_path)
    commands.set_window(chat.agent, THREAD, 3)

    state = chat.agent.invoke(
        {"messages": [("user", "next")]}, THREAD, context={"ambient_window": 6}
    )

    assert state["memory"]["context_report"]["left_out"]["turns"] == "1"


def test_it_stays_and_is_the_threads_alone(tmp_path: Path) -> None:
    """The turns that follow have it, another thread does not."""
    chat = lived(tmp_path)
    commands.set_window(chat.agent, THREAD, 5)

    mine = chat.say("next")
    other = chat.say("other", {"configurable": {"thread_id": "u"}})

    assert mine["bookkeeping"]["window"] == 5
    assert "window" not in other["bookkeeping"]
    assert ambient(chat) == (4, 5, 6, 7, 8)


def test_it_goes_back_with_time_travel(tmp_path: Path) -> None:
    """A state from before it was set has the setting's window."""
    chat = lived(tmp_path)
    commands.set_window(chat.agent, THREAD, 6)
    chat.say("next")

    commands.undo(chat.agent, THREAD)
    commands.undo(chat.agent, THREAD)

    assert ambient(chat) == (3, 4, 5, 6)


def test_without_a_turn_after_it_a_rebuilt_thread_begins_without_it(tmp_path: Path) -> None:
    """Until the next turn it is kept in checkpoints alone, and lost with them."""
    chat = lived(tmp_path)
    commands.set_window(chat.agent, THREAD, 4)
    again = talk(tmp_path, [], checkpointer=InMemorySaver())

    restore(again.agent, THREAD)

    assert "window" not in again.agent.get_state(THREAD).values["bookkeeping"]


@pytest.mark.parametrize("window", [0, 1, 3])
def test_a_turn_is_archived_with_it(tmp_path: Path, window: int) -> None:
    """A thread that is rebuilt has the window of its last turn."""
    chat = lived(tmp_path)
    commands.set_window(chat.agent, THREAD, window)
    chat.say("next")

    restore(chat.agent, THREAD)

    assert chat.agent.get_state(THREAD).values["bookkeeping"]["window"] == window


def test_an_older_state_goes_on_even_if_it_has_that_window(tmp_path: Path) -> None:
    """The state that is named becomes the newest of the thread, whatever its window was."""
    chat = lived(tmp_path)
    commands.set_window(chat.agent, THREAD, 3)
    older = chat.agent.get_state(THREAD).config
    chat.say("number 8")

    commands.set_window(chat.agent, older, 3)

    assert chat.agent.get_state(THREAD).values["memory"]["turn"] == 7


def test_it_can_be_set_before_the_first_turn(tmp_path: Path) -> None:
    """A new thread takes it, and its first turn is its first."""
    chat = talk(tmp_path, ["yes"])

    commands.set_window(chat.agent, THREAD, 4)

    state = chat.say("hi")
    assert (state["memory"]["turn"], state["bookkeeping"]["window"]) == (1, 4)
