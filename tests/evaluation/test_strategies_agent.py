"""The whole agent as a strategy."""

import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from ebbtide.evaluation.strategies import BUDGET, EbbtideAgent
from ebbtide.evaluation.strategy_protocol import (
    StrategyInputs,
    after,
    as_text,
)
from ebbtide.evaluation.template import read_template, stands_in
from ebbtide.memory.settings import Settings
from ebbtide.memory.tokens import count_messages
from tests.doubles import ScriptedModel
from tests.evaluation.conversations import CHANGE, NEWER, shed

CODING = read_template("coding-session")


def quoting(messages: list[BaseMessage]) -> dict[str, Any]:
    """Return what a model extracts: the first sentence of what the user said first."""
    said = re.findall(r"user: ([^.?\n]+[.?])", str(messages[-1].text))
    return {"new": [{"quote": said[0], "kind": "fact"}]}


@pytest.mark.thorough
def test_it_compresses_in_its_own_time(tmp_path: Path) -> None:
    """On a long conversation it quotes, stays within its budget and keeps the end as it was."""
    model = ScriptedModel(structured=quoting, answers=lambda _: "All is well.")
    strategy = EbbtideAgent(StrategyInputs(model, None, tmp_path, Settings()))
    setup = CODING.initial_setup
    strategy.initialize(setup.original_goal, setup.hard_constraints)
    contexts = []
    for point in CODING.points:
        for turn in after(point.turns, strategy.last_turn):
            if turn.goal_change:
                change = turn.goal_change
                strategy.update_goal(change.goal, change.rationale, turn.turn_id)
        contexts.append(strategy.compress(point.turns))
    last = contexts[-1]

    assert all(count_messages(context.messages) < BUDGET for context in contexts)
    assert last.quotes
    assert last.fallbacks == 0
    assert last.through in {turn.turn_id for turn in CODING.turns}
    assert all(stands_in(quote, CODING.until(last.through or 0)) for quote in last.quotes)
    assert CODING.turns[-1].content in as_text(last.messages)
    assert model.asked


def test_goals_change_where_they_are_said(tmp_path: Path) -> None:
    """The effort has goal and constraints; each new goal stands before the words of its turn."""
    strategy = EbbtideAgent(StrategyInputs(ScriptedModel(), None, tmp_path))
    strategy.initialize("Paint the shed.", ["Two tins."])
    strategy.update_goal("Paint the fence.", "The shed is gone.", 11)
    strategy.update_goal("Paint the gate.", "The fence is gone.", 20)

    text = as_text(strategy.compress(shed().turns).messages)
    parts = [
        "'goal': 'Paint the shed.'",
        "'constraints': ['Two tins.']",
        NEWER,
        "'goal': 'Paint the fence.'",
        CHANGE,
        "'goal': 'Paint the gate.'",
        "green paint",
    ]
    places = [text.index(part) for part in parts]

    assert places == sorted(places)
    assert text.count("update_goal") == 2
