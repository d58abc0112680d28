"""The agents that the benchmarks compare do what they are compared for."""

from collections.abc import Mapping
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.sqlite import SqliteSaver

from tests.processes import ROOT

CONFIG: Any = {"configurable": {"thread_id": "t"}}
TURNS = 60
"""So many that the messages are stored whole at least once, which is at each hundredth update."""


def held(name: str, path: Path) -> Mapping[str, Any]:
    """Return what a peer was sent in a conversation, and what a new agent finds of it."""
    peers, talks = import_module("peers"), import_module("talks")
    sent: list[list[tuple[Any, ...]]] = []
    model = talks.TalkingModel(take=lambda messages, *_: sent.append([*map(said, messages)]))
    with SqliteSaver.from_conn_string(str(path)) as saver:
        agent = peers.PEERS[name][0](model, saver, path.parent)
        for turn in islice(talks.TALKS["scripted"][0](500), TURNS):
            model.begin(turn)
            agent.invoke({"messages": [("user", turn.question)]}, CONFIG)
    with SqliteSaver.from_conn_string(str(path)) as saver:
        again = peers.PEERS[name][0](model, saver, path.parent)
        kept = again.get_state(CONFIG).values["messages"]
    return {"sent": sent, "kept": [*map(said, kept)], "ids": {message.id for message in kept}}


def said(message: BaseMessage) -> tuple[Any, ...]:
    """Return a message without its id."""
    calls = getattr(message, "tool_calls", None)
    return message.type, message.content, calls, getattr(message, "tool_call_id", None)


@pytest.mark.thorough
def test_delta_channel_keeps_what_create_agent_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both send the same prompts and hold the same messages; one stores them at each step."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")

    plain = held("create_agent", tmp_path / "plain")
    delta = held("DeltaChannel", tmp_path / "delta")

    assert delta["sent"] == plain["sent"]
    assert delta["kept"] == plain["kept"]
    assert len(delta["ids"]) == len(delta["kept"]) > 2 * TURNS
    sizes = [(tmp_path / name).stat().st_size for name in ("delta", "plain")]
    assert sizes[0] < sizes[1] / 4
