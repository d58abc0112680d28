"""Results of trials, for the tests of what is made of them."""

from typing import Any

from ebbtide.evaluation.results import PointScores, Setup, TrialResult

SETUP = Setup(version="1", model="m", judge="j", likeness="their letters")


def point(number: int = 1, **scores: Any) -> PointScores:
    """Return the scores of a point, with sizes that a test may change."""
    sizes = {"tokens_before": 100, "tokens_after": 40, "compression_ratio": 0.4, "seconds": 0.5}
    return PointScores(point=number, turn_id=number, **{**sizes, **scores})


def result(*points: PointScores, trial: int = 1, **values: Any) -> TrialResult:
    """Return a trial of a strategy on a template of forty turns."""
    named = {"strategy": "window", "template": "shed", "turns": 40, "digest": "d", **values}
    return TrialResult(trial=trial, points=points, **{"setup": SETUP, **named})
