"""What a provider says that a call cost, held against what was counted."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from ebbtide.nodes.call_model import corrected
from ebbtide.nodes.turn.state import TurnState
from tests.doubles import ScriptedModel

REPORT = {"tokens": {"turn": 1_000}, "total": 1_000, "safety_factor": 1.1}


def answer(read: int, **options: Any) -> AIMessage:
    """Return an answer to a request of so many tokens."""
    usage: Any = {"input_tokens": read, "output_tokens": 1, "total_tokens": read + 1}
    return AIMessage("Fine.", usage_metadata=usage, **options)


def test_a_larger_figure_changes_state_and_report() -> None:
    """The factor is in both, and the rest of the report is as it was."""
    update = corrected(TurnState(safety_factor=1.1), REPORT, answer(1_250), ScriptedModel())

    assert update == {"safety_factor": 1.25, "context_report": {**REPORT, "safety_factor": 1.25}}


@pytest.mark.parametrize("read", [0, 900, 1_000, 1_100])
def test_a_figure_that_the_factor_covers_changes_nothing(read: int) -> None:
    """What is no more than was expected with the factor so far is no news."""
    update = corrected(TurnState(safety_factor=1.1), REPORT, answer(read), ScriptedModel())

    assert update == {}


@pytest.mark.parametrize(
    ("metadata", "name"), [({"model_name": "greedy-1"}, "greedy-1"), ({}, "ScriptedModel")]
)
def test_the_log_names_the_model(
    caplog: pytest.LogCaptureFixture, metadata: dict[str, Any], name: str
) -> None:
    """It is the name in the answer, or the class of the model where there is none."""
    corrected(TurnState(), REPORT, answer(1_250, response_metadata=metadata), ScriptedModel())

    (line,) = caplog.messages
    assert line == (
        f"{name} read 1250 tokens where 1000 were counted: the thread's safety factor is 1.25 "
        "from now on, it was 1.0"
    )
