"""Erasing a turn, a session or a user, given the graph around the agent."""

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from typing_extensions import TypedDict

from ebbtide import (
    MemoryState,
    TurnNotFoundError,
    TurnRunningError,
    commands,
    delete_session,
    delete_user,
    erase,
)
from ebbtide.memory.turn import Session
from tests.agents import THREAD, Talk, talk
from tests.doubles import call
from tests.graph.erase.test_erase import traces

TOLD = "The key of the north gate is kept with Marion, tell nobody."
ANSWER = "I shall not mention Marion's key to anybody at all."
SCRIPT = ("Hello.", call("open_effort", name="keys", goal="gates"), ANSWER, "Well.", "Fine.", "On.")
WORDS = ("Hello there.", TOLD, "And the garden gate?")
SESSION = Session("", "t", "agent")
ANN: Any = {"configurable": {"thread_id": "t", "user_id": "ann"}}


class Kept(MemoryState, total=False):
    """A graph that keeps the memory, and something of its own."""

    visits: Annotated[list[str], operator.add]


class Said(MessagesState):
    """A graph that keeps messages, and something of its own."""

    visits: Annotated[list[str], operator.add]


class Counted(TypedDict):
    """What the graph beside the agent counts."""

    runs: Annotated[int, operator.add]


def runs(outer: Any) -> int:
    """Return what the graph beside the agent has counted."""
    inner = {"configurable": {"thread_id": "t", "checkpoint_ns": "tally"}}
    found = outer.checkpointer.get_tuple(inner)
    return int(found.checkpoint["channel_values"]["runs"])


pytestmark = [
    pytest.mark.usefixtures("entry"),
    pytest.mark.parametrize("schema", [Kept, Said]),
]


@contextmanager
def begun(root: Path, schema: Any, config: Any = THREAD) -> Iterator[tuple[Talk, Any]]:
    """Have a conversation with a graph around an agent, on files below a folder.

    Beside the agent, another graph inside counts its runs in a state of its own.
    """
    chat = talk(root / "archive", list(SCRIPT), checkpointer=None)
    counting = StateGraph(Counted)
    counting.add_node("count", lambda _: {"runs": 1})
    counting.add_edge(START, "count")
    graph = StateGraph(schema)
    graph.add_node("count", lambda state: {"visits": [f"{len(state['messages'])} messages"]})
    graph.add_node("tally", counting.compile(checkpointer=True))
    graph.add_node("agent", chat.agent)
    graph.add_edge(START, "count")
    graph.add_edge("count", "tally")
    graph.add_edge("tally", "agent")
    with SqliteSaver.from_conn_string(str(root / "checkpoints.sqlite")) as saver:
        outer: Any = graph.compile(checkpointer=saver)
        for words in WORDS:
            outer.invoke({"messages": words}, config)
        try:
            yield chat, outer
        finally:
            chat.archive.close()


@pytest.mark.parametrize("turn", [1, 2, 3])
def test_nothing_of_the_text_is_left(tmp_path: Path, schema: Any, turn: int) -> None:
    """The thread goes on after it, with the keys of the graph and all other turns."""
    gone = {1: ["Hello there."], 2: [TOLD, ANSWER], 3: ["And the garden gate?"]}[turn]
    with begun(tmp_path, schema) as (chat, outer):
        before = traces(tmp_path, gone)
        counted = outer.get_state(THREAD).values["visits"]

        report = erase(outer, THREAD, turn)

        left = traces(tmp_path, gone)
        kept = outer.get_state(THREAD)
        counted_inside = runs(outer)
        state = outer.invoke({"messages": "on"}, THREAD)
        counted_later = runs(outer)
        (tip,) = chat.archive.tips(SESSION)
        turns = chat.archive.load(SESSION, tip).turns(range(1, 5))
    said = [words for at, words in enumerate(WORDS, 1) if at != turn]
    assert (before != [], left, report.turn) == (True, [], turn)
    assert [m.text for m in kept.values["messages"] if m.type == "human"] == said
    assert (counted_inside, counted_later) == (3, 4)
    assert (kept.values["visits"], len(state["visits"]), kept.next) == (counted, 4, ())
    assert [stored.status == "erased" for stored in turns] == [at == turn for at in range(1, 5)]
    assert state["memory"]["active_effort"] == "keys" if "memory" in state else True


def test_crash_loses_nothing_of_the_graph_around(
    tmp_path: Path, schema: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed when the checkpoints are deleted, the erasure is completed by erasing again."""

    def die(saver: SqliteSaver, thread: str) -> None:
        delete_thread(saver, thread)
        if thread == "t":
            raise KeyboardInterrupt

    delete_thread = SqliteSaver.delete_thread
    with begun(tmp_path, schema) as (_, outer):
        counted = outer.get_state(THREAD).values["visits"]
        with monkeypatch.context() as dying:
            dying.setattr(SqliteSaver, "delete_thread", die)
            with pytest.raises(KeyboardInterrupt):
                erase(outer, THREAD, 2)
        before = outer.get_state(THREAD).values

        erase(outer, THREAD, 2)

        assert (before, runs(outer)) == ({}, 3)
        assert outer.get_state(THREAD).values["visits"] == counted
        assert traces(tmp_path, [TOLD, ANSWER]) == []


@pytest.mark.thorough
def test_one_turn_after_the_other(tmp_path: Path, schema: Any) -> None:
    """With all of them erased the thread still goes on as it was."""
    with begun(tmp_path, schema) as (chat, outer):
        for turn in (2, 1, 3, 3):
            erase(outer, THREAD, turn)
        commands.open_effort(outer, THREAD, "other")
        outer.invoke({"messages": "on"}, THREAD)
        (tip,) = chat.archive.tips(SESSION)
        open_ = [one.id for one in commands.efforts(outer, THREAD).efforts]

    assert (tip.turn, sorted(open_)) == (4, ["keys", "other"])


def test_what_cannot_be_erased_changes_nothing(tmp_path: Path, schema: Any) -> None:
    """A turn that is not there, or a graph that still runs, is refused."""
    with begun(tmp_path, schema) as (chat, outer):
        before = outer.get_state(THREAD)
        with pytest.raises(TurnNotFoundError):
            erase(outer, THREAD, 4)
        assert outer.get_state(THREAD) == before
        chat.model.answers = [*SCRIPT[:4], ConnectionError("gone")] * 2
        with pytest.raises(ConnectionError):
            outer.invoke({"messages": "on"}, THREAD)
        with pytest.raises(TurnRunningError):
            erase(outer, THREAD, 2)


@pytest.mark.parametrize("of_user", [False, True])
def test_a_session_or_user_is_deleted(tmp_path: Path, schema: Any, *, of_user: bool) -> None:
    """With all checkpoints, of which the graph around has some."""
    with begun(tmp_path, schema, ANN) as (_, outer):
        report = delete_user(outer, "ann") if of_user else delete_session(outer, ANN)

        left = traces(tmp_path, [TOLD, ANSWER])
        assert outer.get_state(ANN).values == {}
    assert ([one.thread for one in report.sessions], report.not_erased, left) == (["t"], (), [])
