"""The ambient window of a thread."""

from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from ebbtide import Settings, SettingsError, TurnRunningError, commands, restore
from tests.agents import THREAD, Talk, talk


def ambient(here: Talk) -> tuple[int, ...]:
    """Return the ambient turns that the next call would be sent."""
    shown = commands.show_context(here.agent, THREAD)
    return {tier.name: tier.turns for tier in shown.tiers}["ambient"]


def lived(root: Path) -> Talk:
    """Return an agent after six turns outside of efforts, of which two are in the window."""
    here = talk(root, ["yes"] * 9, settings=Settings(ambient_window=2, window_step=1))
    for turn in range(1, 7):
        here.say(f"number {turn}")
    return here


@pytest.mark.parametrize(
    ("window", "turns"), [(4, (3, 4, 5, 6)), (0, (1, 2, 3, 4, 5, 6)), (1, (6,)), (None, (5, 6))]
)
def test_the_window_of_the_thread_counts(
    tmp_path: Path, window: int | None, turns: tuple[int, ...]
) -> None:
    """It takes the place of the setting; 0 is all, None the setting again."""
    here = lived(tmp_path)
    commands.set_window(here.agent, THREAD, 3)

    commands.set_window(here.agent, THREAD, window)

    assert ambient(here) == turns


def test_it_stays_and_is_the_threads_alone(tmp_path: Path) -> None:
    """The turns that follow have it, another thread does not."""
    here = lived(tmp_path)
    commands.set_window(here.agent, THREAD, 1)

    mine = here.say("next")
    other = here.say("other", {"configurable": {"thread_id": "u"}})

    assert mine["memory"]["position"]["window"] == 1
    assert "window" not in other
    assert ambient(here) == (7,)


def test_it_goes_back_with_time_travel(tmp_path: Path) -> None:
    """A state from before it was set has the setting's window."""
    here = lived(tmp_path)
    commands.set_window(here.agent, THREAD, 4)
    here.say("next")

    commands.undo(here.agent, THREAD)
    commands.undo(here.agent, THREAD)

    assert ambient(here) == (4, 5)


def test_a_thread_that_is_rebuilt_begins_without_it(tmp_path: Path) -> None:
    """It is kept in checkpoints, and lost with them."""
    here = lived(tmp_path)
    commands.set_window(here.agent, THREAD, 4)
    again = talk(tmp_path, [], checkpointer=InMemorySaver())

    restore(again.agent, THREAD)

    assert "window" not in again.agent.get_state(THREAD).values


def test_it_can_be_set_before_the_first_turn(tmp_path: Path) -> None:
    """A new thread takes it, and its first turn is its first."""
    here = talk(tmp_path, ["yes"])

    commands.set_window(here.agent, THREAD, 4)

    state = here.say("hi")
    assert (state["memory"]["turn"], state["memory"]["position"]["window"]) == (1, 4)


@pytest.mark.parametrize("window", [-1, 10_001])
def test_a_window_out_of_range_is_refused(tmp_path: Path, window: int) -> None:
    """The range is that of the setting."""
    here = lived(tmp_path)

    with pytest.raises(SettingsError, match="ambient_window"):
        commands.set_window(here.agent, THREAD, window)


def test_an_unfinished_turn_is_in_the_way(tmp_path: Path) -> None:
    """Nothing is changed under a turn that may yet be resumed."""
    here = talk(tmp_path, [ConnectionError("gone"), "here"])
    with pytest.raises(ConnectionError):
        here.say("question")

    with pytest.raises(TurnRunningError):
        commands.set_window(here.agent, THREAD, 3)

    assert here.agent.get_state(THREAD).next == ("call_model",)


async def test_it_works_with_an_asynchronous_checkpointer(tmp_path: Path) -> None:
    """With checkpoints in SQLite, written asynchronously, it is kept."""
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "c.sqlite")) as saver:
        here = talk(tmp_path / "kept", [], checkpointer=saver)

        await commands.aset_window(here.agent, THREAD, 3)

        assert (await here.agent.aget_state(THREAD)).values["memory"]["position"]["window"] == 3
