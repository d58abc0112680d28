"""The memory in a state: what may stand there, and what happens to anything else."""

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.types import Overwrite

from ebbtide import DiskArchive, EbbtideError, StateError, TipNotFoundError, commands, restore
from ebbtide.graph.commands.threads import place_of
from ebbtide.nodes.turn.state import merged
from ebbtide.nodes.turn.values import sealed, trusted
from tests.agents import THREAD, lasting, talk

SHOWN = {"expanded_turn": 1, "last_referenced_turn": 1}
WRONG: list[tuple[Any, str]] = [
    (5, r"^memory: .* \(got 5\)"),
    ({"turn": "two"}, r"^memory\.turn: .* \(got 'two'\)"),
    ({"banners": 5}, r"^memory\.banners: .* \(got 5\)"),
    ({"summaries": {"a": "b"}}, r"^memory\.summaries\.a: .* \(got 'b'\)"),
    ({"anchor": {"Goal": AIMessage("x")}}, r"^memory\.anchor\.Goal: .* \(got AIMessage"),
    ({"context_report": {"total": AIMessage("x")}}, r"^memory\.context_report\.total: .*AIMessage"),
    ({"position": {"session": 7}}, r"^memory\.position\.session: .* \(got 7\)"),
    ({"position": {"events": 3}}, r"^memory\.position\.events: .* \(got 3\)"),
    ({"position": None}, r"^memory\.position: .* \(got None\)"),
    ({"tip": "ab"}, r"^memory\.tip: .* \(got 'ab'\)"),
    ({"turn": -7}, r"^memory\.turn: .* \(got -7\)"),
    ({"turn": 1 << 40}, r"^memory\.turn: .* \(got 1099511627776\)"),
    ({"open_efforts": {"a": {}}}, r"^memory\.open_efforts\.a\.opened_turn: .* \(got {}\)"),
    ({"expanded": {"a": {"bad": 1}}}, r"^memory\.expanded\.a\.expanded_turn: .*'bad': 1"),
    ({"expanded": {"a": {**SHOWN, "turns": 1}}}, r"^memory\.expanded\.a\.turns: .* \(got 1\)"),
    ({"context_report": {"total": "x"}}, r"^memory\.context_report: .*'total': 'x'"),
    ({"position": {"session": {"thread": "x"}}}, r"^memory\.position\.session\.user: .*'x'"),
    ({"position": {"seal": "x"}}, r"^memory\.position\.seal: .* \(got 'x'\)"),
    ({"position": {"persisted": -5}}, r"^memory\.position\.persisted: .* \(got -5\)"),
    ({"position": {"window": -3}}, r"^memory\.position\.window.*: .* \(got -3\)"),
    ({"position": {"events": [{}]}}, r"^memory\.position\.events\.0: .* \(got {}\)"),
    ({"position": {"view": {"turns": "1"}}}, r"^memory\.position\.view\.built: Field required"),
    ({"position": {"view": {"built": 1, "turns": "x"}}}, r"\.view\.turns: .* \(got 'x'\)"),
    ({"position": {"view": {"built": 1, "short": {"a": [1, 2]}}}}, r"\.view\.short\.a"),
    ({"position": {"view": {"built": 1, "why": "x"}}}, r"\.view\.why: .* \(got 'x'\)"),
]


@pytest.mark.parametrize(("memory", "message"), WRONG)
def test_a_wrong_update_changes_nothing(tmp_path: Path, memory: Any, message: str) -> None:
    """The key and the value are named, and the thread is as it was and goes on."""
    chat = talk(tmp_path, ["yes", "yes"])
    chat.say("one")
    before = chat.agent.get_state(THREAD)

    with pytest.raises(StateError, match=message) as raised:
        chat.agent.update_state(THREAD, {"memory": memory})

    assert "`restore`" in str(raised.value)
    assert isinstance(raised.value, EbbtideError)
    assert chat.agent.get_state(THREAD) == before
    assert chat.said(chat.say("two")) == ["one", "two"]


@pytest.mark.parametrize(("memory", "message"), WRONG)
def test_a_memory_that_was_forced_in_is_refused_and_restored(
    tmp_path: Path, memory: Any, message: str
) -> None:
    """Where no update was looked at, nodes and commands refuse the value, and nothing is lost."""
    chat = talk(tmp_path, ["yes", "yes"])
    before = chat.say("one")
    chat.agent.update_state(THREAD, {"memory": Overwrite(memory)}, as_node="compress")

    with pytest.raises(StateError, match=message):
        chat.say("two")
    with pytest.raises(StateError, match=message):
        commands.stats(chat.agent, THREAD)

    restore(chat.agent, THREAD)
    assert lasting(chat.agent.get_state(THREAD).values) == lasting(before)
    assert chat.said(chat.say("two")) == ["one", "two"]


@pytest.mark.usefixtures("entry")
def test_an_edit_of_one_key_is_refused_and_restored(tmp_path: Path) -> None:
    """Not even the anchor is set by anybody but the nodes."""
    chat = talk(tmp_path, ["yes", "yes"])
    before = chat.say("one")
    edit = {"memory": {"anchor": {"Goal": "tea"}}}
    chat.agent.update_state(THREAD, edit, as_node=place_of(chat.agent).last_node)

    with pytest.raises(TipNotFoundError, match="`restore`"):
        chat.say("two")
    with pytest.raises(TipNotFoundError, match="`restore`"):
        commands.show_context(chat.agent, THREAD, "two")

    restore(chat.agent, THREAD)
    assert lasting(chat.agent.get_state(THREAD).values) == lasting(before)
    assert chat.said(chat.say("two")) == ["one", "two"]


def test_a_memory_that_went_through_a_browser_is_the_same(tmp_path: Path) -> None:
    """JavaScript writes whole numbers without a point, and keys in an order of its own."""
    archive = DiskArchive(tmp_path)
    memory = sealed({"turn": 1, "view": {"built": 1, "hold": 3.0}}, {}, archive)["memory"]
    written = json.dumps(memory, sort_keys=True)
    assert "3.0" in written
    again = json.loads(written.replace(".0", ""))

    state = trusted({"memory": again}, archive)

    assert state["view"] == {"built": 1, "hold": 3}


def test_people_read_what_changes_in_one_order() -> None:
    """Whatever was written last, the bookkeeping stands at the end."""
    memory = merged(
        {"banners": [], "position": {"tip": "a"}}, {"turn": 1, "position": {"sent": ""}}
    )

    assert [*memory] == ["turn", "banners", "position"]
    assert memory["position"] == {"tip": "a", "sent": ""}
