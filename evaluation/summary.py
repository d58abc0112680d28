"""Trials put together: the mean and spread of each metric, and which targets are met."""

from collections.abc import Iterable, Sequence
from statistics import fmean, stdev

from pydantic import BaseModel, ConfigDict

from .metrics import COSTS, SCORES
from .results import TrialResult


class Spread(BaseModel):
    """The mean of a metric over trials, its standard deviation if there are two, its bounds."""

    model_config = ConfigDict(frozen=True)

    mean: float
    deviation: float | None
    least: float
    most: float
    trials: int


class Row(BaseModel):
    """A strategy on a template; a metric that no trial has is not there.

    `targets` says of each target that applies whether the mean meets it.
    """

    model_config = ConfigDict(frozen=True)

    template: str
    strategy: str
    turns: int
    trials: int
    errors: int
    metrics: dict[str, Spread]
    targets: dict[str, bool]


def rows(trials: Iterable[TrialResult]) -> tuple[Row, ...]:
    """Return a row for each template and strategy, sorted by them."""
    groups: dict[tuple[str, str], list[TrialResult]] = {}
    for trial in trials:
        groups.setdefault((trial.template, trial.strategy), []).append(trial)
    return tuple(_row(group) for _, group in sorted(groups.items()))


def spread(values: Sequence[float]) -> Spread:
    """Return how values are spread; there is one at least.

    >>> spread([1.0, 3.0]).mean
    2.0
    """
    deviation = stdev(values) if len(values) > 1 else None
    return Spread(
        mean=fmean(values),
        deviation=deviation,
        least=min(values),
        most=max(values),
        trials=len(values),
    )


def _row(trials: Sequence[TrialResult]) -> Row:
    found = {
        metric.name: spread(values)
        for metric in (*SCORES, *COSTS)
        if (values := [value for one in trials if (value := metric.of(one)) is not None])
    }
    turns = trials[0].turns
    targets = {
        metric.name: metric.target.met(found[metric.name].mean)
        for metric in SCORES
        if metric.target and metric.applies(turns) and metric.name in found
    }
    return Row(
        template=trials[0].template,
        strategy=trials[0].strategy,
        turns=turns,
        trials=len(trials),
        errors=sum(len(trial.errors) for trial in trials),
        metrics=found,
        targets=targets,
    )
