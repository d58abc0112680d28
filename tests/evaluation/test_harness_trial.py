"""One trial: who is told what, when, and what becomes of errors."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage

from ebbtide.evaluation.answers import Answers
from ebbtide.evaluation.harness import Plan
from ebbtide.evaluation.judge import Judge
from ebbtide.evaluation.results import Job, TrialResult
from ebbtide.evaluation.strategy_protocol import Context, Strategy, StrategyInputs, as_messages
from ebbtide.evaluation.template import TemplateTurn
from tests.doubles import ScriptedModel
from tests.evaluation.conversations import GOAL, LIMIT, shed
from tests.evaluation.outcomes import SETUP

JOB = Job(strategy="last", template="shed", trial=1)


class Last(Strategy):
    """Keeps the last turn, and notes what it was told; it fails at the turn `fails_at`."""

    name = "last"

    def __init__(self, fails_at: int = 0) -> None:
        """Note nothing yet."""
        self.told: list[Any] = []
        super().__init__(StrategyInputs(ScriptedModel(), None, Path()))
        self.told.clear()
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


def tried(tmp_path: Path, strategy: Last) -> TrialResult:
    """Run a trial with scripted models, and return its result."""
    judging = Judge("j", ScriptedModel(answers=judged), Answers(tmp_path / "judged.jsonl"))
    plan = Plan(
        strategies={"last": lambda _: strategy},
        templates={"shed": shed()},
        setup=SETUP,
        model=ScriptedModel(answers=answered),
        judge=judging,
    )
    return plan.run_trial(JOB)


def test_a_strategy_is_told_in_order(tmp_path: Path) -> None:
    """It is told goal and constraints, all turns up to a point, and before it a goal change."""
    strategy = Last()
    tried(tmp_path, strategy)

    assert strategy.told == [
        (GOAL, (LIMIT,)),
        [5, 8],
        ("Paint the fence.", "The shed is gone.", 17),
        [5, 8, 11, 12, 17, 20],
    ]


def test_scores_of_a_trial(tmp_path: Path) -> None:
    """At the first point the goal is known before (1) and not after (0.25): drift 0.75."""
    result = tried(tmp_path, Last())
    first, second = result.points

    assert (first.goal_before, first.goal_coherence, first.drift) == (1.0, 0.25, 0.75)
    assert (second.goal_before, second.goal_coherence, second.drift) == (0.25, 0.25, 0.0)
    assert (first.constraint_recall, first.behavioural_alignment) == (1.0, 0.5)
    assert first.constraints_in_context == 0.0
    assert first.quotes is None
    assert (first.turn_id, second.turn_id) == (8, 20)
    assert result.errors == ()


def test_a_strategy_that_fails_ends_its_trial(tmp_path: Path) -> None:
    """Points before the failure are kept, and the failure is said in one line."""
    result = tried(tmp_path, Last(fails_at=20))

    assert [point.point for point in result.points] == [1]
    assert result.errors == ("point 2, compress: OSError: the disk? is full",)
