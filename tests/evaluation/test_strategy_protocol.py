"""What strategies share, and the two plain ones."""

from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage

from ebbtide.evaluation.strategies import (
    STRATEGIES,
    select,
)
from ebbtide.evaluation.strategy_protocol import StrategyInputs, as_messages, as_text
from ebbtide.evaluation.template import EvaluationError, read_template
from ebbtide.memory.settings import Settings
from tests.doubles import ScriptedModel
from tests.evaluation.conversations import PORT, shed

TURNS = shed().turns


def means(folder: Path) -> StrategyInputs:
    """Return what a strategy works with, with a model that must not be asked."""
    return StrategyInputs(ScriptedModel(), None, folder)


def test_a_transcript_shows_calls_and_results() -> None:
    """A context is read as lines with who speaks, calls and results included."""
    output = as_text([HumanMessage("Hi."), *as_messages(TURNS[1:2])])

    assert output == (
        "user: Hi.\nassistant calls measure {'what': 'shed'}\n"
        f"tool: {PORT}\nassistant: I looked it up."
    )


def test_strategies_are_chosen_by_name() -> None:
    """Without names they are all; an unknown one is answered with those there are."""
    assert [*select([])] == [*STRATEGIES]
    assert [*select(["rolling-window"])] == ["rolling-window"]
    with pytest.raises(EvaluationError, match="unknown strategy 'mine': use one of full-history, "):
        select(["mine"])


@pytest.mark.thorough
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", ["selective-salience", "ebbtide"])
def test_settings_reach_what_compresses(tmp_path: Path, name: str) -> None:
    """Of a conversation too long for the budget a part leaves, by rules if the model is slow."""
    slow = ScriptedModel(
        answers=lambda _: "All is well.", structured=lambda _: TimeoutError("no answer")
    )
    template = read_template("long-support-case")
    small = Settings(context_budget=2_500)
    strategy = STRATEGIES[name](StrategyInputs(slow, None, tmp_path, small))
    strategy.initialize(template.initial_setup.original_goal, [])

    context = strategy.compress(template.points[1].turns)

    extractions = [call for call in context.calls if call.what == "extraction"]
    assert context.fallbacks == len(extractions) > 0
