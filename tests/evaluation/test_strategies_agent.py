"""The whole agent as a strategy."""

import re
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from langchain_core.messages import BaseMessage

from ebbtide.evaluation.harness import size
from ebbtide.evaluation.strategies import BUDGET, EbbtideAgent
from ebbtide.evaluation.strategy_protocol import (
    Context,
    StrategyInputs,
    after,
    as_text,
)
from ebbtide.evaluation.template import Template, read_template, stands_in
from ebbtide.memory.settings import Settings
from tests.doubles import ScriptedModel
from tests.evaluation.conversations import CHANGE, NEWER, shed

CODING = read_template("coding-session")


def quoting(messages: list[BaseMessage]) -> dict[str, Any]:
    """Return what a model extracts: the first sentence of what the user said first."""
    said = re.findall(r"user: ([^.?\n]+[.?])", str(messages[-1].text))
    return {"new": [{"quote": said[0], "kind": "fact"}]}


def lived(
    folder: Path, template: Template, structured: Any = quoting, **settings: Any
) -> tuple[list[Context], ScriptedModel]:
    """Let the agent live through a template; return its contexts and the model that compressed."""
    model = ScriptedModel(structured=structured, answers=lambda _: "All is well.")
    strategy = EbbtideAgent(StrategyInputs(model, None, folder, Settings(**settings)))
    setup = template.initial_setup
    strategy.initialize(setup.original_goal, setup.hard_constraints)
    contexts = []
    for point in template.points:
        for turn in after(point.turns, strategy.last_turn):
            if turn.goal_change:
                change = turn.goal_change
                strategy.update_goal(change.goal, change.rationale, turn.turn_id)
        contexts.append(strategy.compress(point.turns))
    return contexts, model


Lived: TypeAlias = tuple[list[Context], ScriptedModel]


@pytest.fixture(scope="module")
def coding(tmp_path_factory: pytest.TempPathFactory) -> Lived:
    """Let the agent live through a long conversation, once for all tests."""
    return lived(tmp_path_factory.mktemp("coding"), CODING)


def test_it_compresses_in_its_own_time(coding: Lived) -> None:
    """On a long conversation it quotes, stays within its budget and keeps the end as it was."""
    contexts, model = coding
    last = contexts[-1]

    assert all(size(context.messages) < BUDGET for context in contexts)
    assert last.quotes
    assert last.fallbacks == 0
    assert last.through in {turn.turn_id for turn in CODING.turns}
    assert all(stands_in(quote, CODING.until(last.through or 0)) for quote in last.quotes)
    assert CODING.turns[-1].content in as_text(last.messages)
    assert model.asked


def test_goal_and_constraints_are_those_of_an_effort(tmp_path: Path) -> None:
    """The effort is opened with goal and constraints, and a change of the goal is in view."""
    first, second = (as_text(one.messages) for one in lived(tmp_path, shed())[0])

    assert "'goal': 'Paint the shed before the rain comes.'" in first
    assert "'constraints': ['Use no more than two tins.']" in first
    assert "'goal': 'Paint the fence.'" in second


def test_goals_change_where_they_are_said(tmp_path: Path) -> None:
    """The agent hears of each new goal in the turn that holds it, before its words there."""
    strategy = EbbtideAgent(StrategyInputs(ScriptedModel(), None, tmp_path))
    strategy.initialize("Paint the shed.", [])
    strategy.update_goal("Paint the fence.", "The shed is gone.", 11)
    strategy.update_goal("Paint the gate.", "The fence is gone.", 20)

    text = as_text(strategy.compress(shed().turns).messages)
    parts = [
        NEWER,
        "'goal': 'Paint the fence.'",
        CHANGE,
        "'goal': 'Paint the gate.'",
        "green paint",
    ]
    places = [text.index(part) for part in parts]

    assert places == sorted(places)
    assert text.count("update_goal") == 2
