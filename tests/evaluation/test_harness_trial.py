"""One trial: who is told what, when, and what becomes of errors."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from ebbtide.evaluation.answers import AnswerMissingError, Answers
from ebbtide.evaluation.harness import Plan
from ebbtide.evaluation.judge import Judge
from ebbtide.evaluation.results import Job, TrialResult
from ebbtide.evaluation.strategy_protocol import Context, Strategy, StrategyInputs, as_messages
from ebbtide.evaluation.template import Template, TemplateTurn
from tests.doubles import ScriptedModel
from tests.evaluation.conversations import GOAL, LIMIT, plain, shed
from tests.evaluation.outcomes import SETUP

JOB = Job(strategy="last", template="shed", trial=1)


class Last(Strategy):
    """Keeps the last turn, and notes what it was told; it fails at the turn `fails_at`."""

    name = "last"

    def __init__(self, fails_at: int = 0) -> None:
        """Note nothing yet."""
        super().__init__(StrategyInputs(ScriptedModel(), None, Path()))
        self.told: list[Any] = []
        self.fails_at = fails_at

    def initialize(self, goal: str, constraints: Sequence[str]) -> None:
        """Note it."""
        self.told.append((goal, tuple(constraints)))

    def update_goal(self, goal: str, rationale: str, turn_id: int) -> None:
        """Note it."""
        self.told.append((goal, rationale, turn_id))

    def _compressed(self, turns: Sequence[TemplateTurn]) -> Context:
        """Note which turns there are."""
        self.told.append([turn.turn_id for turn in turns])
        if turns[-1].turn_id == self.fails_at:
            raise OSError("the disk\ud800 is\nfull")
        return Context(as_messages(turns[-1:]))


def judged(messages: list[BaseMessage]) -> str:
    """Judge: the goal is known if the answer is long, constraints are, behaviour is half right."""
    asked = str(messages[-1].text)
    if "numbered list of" in asked:
        return '{"known": [true], "invented": []}'
    if "tempts" in asked:
        return '{"score": 0.5}'
    return json.dumps({"score": 1 if "a long answer" in asked else 0.25})


def answered(messages: list[BaseMessage]) -> str:
    """Answer at length if the first turn stands in the context."""
    return "a long answer" if GOAL in str(messages[-1].text) else "short"


def run(
    made: Callable[[StrategyInputs], Strategy], template: Template | None = None, **parts: Any
) -> TrialResult:
    """Run a trial of a strategy, with nobody who judges if none is among the parts of its plan."""
    plan = Plan(
        strategies={"last": made},
        templates={"shed": template or shed()},
        setup=SETUP,
        **{"model": ScriptedModel(), **parts},
    )
    return plan.run_trial(JOB)


def tried(
    tmp_path: Any, strategy: Last, template: Template | None = None, judge: Any = judged
) -> tuple[TrialResult, ScriptedModel]:
    """Run a trial with scripted models; return its result and the model that answered."""
    model = ScriptedModel(answers=answered)
    judging = Judge("j", ScriptedModel(answers=judge), Answers(tmp_path / "judged.jsonl"))
    return run(lambda _: strategy, template, model=model, judge=judging), model


def test_a_strategy_is_told_in_order(tmp_path: Any) -> None:
    """It is told goal and constraints, all turns up to a point, and before it a goal change."""
    strategy = Last()
    tried(tmp_path, strategy)

    assert strategy.told == [
        (GOAL, (LIMIT,)),
        [5, 8],
        ("Paint the fence.", "The shed is gone.", 17),
        [5, 8, 11, 12, 17, 20],
    ]


def test_scores_of_a_trial(tmp_path: Any) -> None:
    """At the first point the goal is known before (1) and not after (0.25): drift 0.75."""
    result, _ = tried(tmp_path, Last())
    first, second = result.points

    assert (first.goal_before, first.goal_coherence, first.drift) == (1.0, 0.25, 0.75)
    assert (second.goal_before, second.goal_coherence, second.drift) == (0.25, 0.25, 0.0)
    assert (first.constraint_recall, first.behavioural_alignment) == (1.0, 0.5)
    assert first.constraints_in_context == 0.0
    assert first.quotes is None
    assert (first.turn_id, second.turn_id) == (8, 20)
    assert result.errors == ()


def test_before_is_the_old_context_and_what_was_said_since(tmp_path: Any) -> None:
    """Before the second point the model sees the compressed context and the new turns raw."""
    _, model = tried(tmp_path, Last())
    before = model.sent[4].text

    assert "I looked it up." in before
    assert "That is longer than I was told." in before
    assert GOAL not in before
    assert before.startswith("You paint.")


def test_what_is_not_asked_is_absent(tmp_path: Any) -> None:
    """Without a probe, or without constraints in the truth, the score is absent."""
    template = shed(probing_tasks={"constraint_probe": "Which?"}, ground_truth={})
    result, model = tried(tmp_path, Last(), template)
    first = result.points[0]

    assert (first.goal_coherence, first.drift) == (None, None)
    assert (first.constraint_recall, first.behavioural_alignment) == (None, None)
    assert first.constraints_in_context is None
    assert model.sent == []


def test_an_unreadable_judge_is_an_error(tmp_path: Any) -> None:
    """A score that cannot be read is absent and an error, never one in the middle."""
    result, _ = tried(tmp_path, Last(), judge=lambda _: "Well.")
    first = result.points[0]

    assert (first.goal_before, first.goal_coherence, first.drift) == (None, None, None)
    assert (first.constraint_recall, first.behavioural_alignment) == (None, None)
    assert len(result.errors) == 8
    assert result.errors[0].startswith("point 1, goal_before: JudgeError: the judge was asked")


def test_a_strategy_that_fails_ends_its_trial(tmp_path: Any) -> None:
    """Points before the failure are kept, and the failure is said in one line."""
    result, _ = tried(tmp_path, Last(fails_at=20))

    assert [point.point for point in result.points] == [1]
    assert result.errors == ("point 2, compress: OSError: the disk? is full",)


class Broken(Strategy):
    """Cannot begin."""

    name = "last"

    def initialize(self, goal: str, constraints: Sequence[str]) -> None:
        """Fail."""
        raise OSError(f"{goal} {len(constraints)}: no disk")


def unmade(_inputs: StrategyInputs) -> Strategy:
    """Fail where a strategy is to be made."""
    raise ImportError("no such package")


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (unmade, "beginning: ImportError: no such package"),
        (Broken, f"beginning: OSError: {GOAL} 1: no disk"),
    ],
)
def test_a_strategy_that_cannot_begin(
    made: Callable[[StrategyInputs], Strategy], error: str
) -> None:
    """Its trial has one error and no points."""
    result = run(made)

    assert (result.points, result.errors) == ((), (error,))


def test_without_a_judge_nothing_is_asked() -> None:
    """Without a judge there are the scores that need no model."""
    result = run(lambda _: Last())

    assert result.points[0].goal_coherence is None
    assert result.points[0].compression_ratio < 1
    assert result.errors == ()


class Careless(Strategy):
    """Asks a model at each point, and does not mind if there is no answer."""

    name = "last"

    def _compressed(self, turns: Sequence[TemplateTurn]) -> Context:
        with suppress(AnswerMissingError):
            self.inputs.model.invoke("Well?")
        return Context(as_messages(turns))


def test_an_answer_that_is_missing_is_an_error(tmp_path: Path) -> None:
    """A strategy that hides a missing recorded answer does not hide it from the result."""
    (tmp_path / "none").touch()
    result = run(Careless, answers=Answers(tmp_path / "none", replayed=True))

    assert result.errors == ("2 calls have no recorded answer",)


def test_a_template_is_known_by_its_digest() -> None:
    """Any change of a template changes its digest."""
    other = shed(template_id="other")

    assert shed().digest == Template.model_validate(plain()).digest
    assert shed().digest != other.digest


@pytest.mark.parametrize("field", ["drift", "cost"])
def test_results_are_numbers(field: str) -> None:
    """A result that is not a number cannot be kept."""
    result = run(lambda _: Last())

    with pytest.raises(ValueError, match=field):
        type(result.points[0])(**{**result.points[0].model_dump(), field: float("nan")})
