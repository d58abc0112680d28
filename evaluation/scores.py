"""The metrics: what each is called, how it adds up over the points of a trial, its target."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import TypeAlias

from .results import PointScores, TrialResult

LONG_TURNS = 40
"""A template with so many turns is a long one."""

Compare: TypeAlias = Callable[[float, float], bool]
SIGNS: Mapping[str, Compare] = {">": operator.gt, "<": operator.lt, "=": operator.eq}


@dataclass(frozen=True, slots=True)
class Target:
    """What a metric should be with a current model; `long` says: on long templates only."""

    sign: str
    value: float
    long: bool = False

    def met(self, found: float) -> bool:
        """Tell whether a value meets it.

        >>> Target(">", 0.75).met(0.75)
        False
        """
        return SIGNS[self.sign](found, self.value)

    def __str__(self) -> str:
        """Say it, such as "> 0.75"."""
        return f"{self.sign} {self.value:.2f}{' (long templates)' if self.long else ''}"


@dataclass(frozen=True, slots=True)
class Metric:
    """A score of `PointScores`, its title, its digits, whether points add up, its target."""

    name: str
    title: str
    digits: int = 2
    summed: bool = False
    target: Target | None = None

    def of(self, trial: TrialResult) -> float | None:
        """Return the value of a trial: the mean or the sum over the points that have one."""
        values = [value for point in trial.points if (value := self._at(point)) is not None]
        if not values:
            return None
        return float(sum(values)) if self.summed else fmean(values)

    def applies(self, turns: int) -> bool:
        """Tell whether the target is one for a template of so many turns."""
        return self.target is not None and (not self.target.long or turns >= LONG_TURNS)

    def _at(self, point: PointScores) -> float | None:
        value: float | None = getattr(point, self.name)
        return value


SCORES = (
    Metric("salience_precision", "salience precision", target=Target(">", 0.75)),
    Metric("salience_recall", "salience recall", target=Target(">", 0.75)),
    Metric("salience_f1", "salience F1"),
    Metric("goal_coherence", "goal coherence", target=Target(">", 0.90)),
    Metric("drift", "drift"),
    Metric("constraint_recall", "constraint recall", target=Target(">", 0.95)),
    Metric("constraints_in_context", "constraints in the context"),
    Metric("behavioural_alignment", "behavioural alignment"),
    Metric("verbatim_rate", "verbatim rate", target=Target("=", 1.0)),
    Metric("fabricated", "fabricated quotes", digits=1, summed=True),
    Metric("fallbacks", "fallbacks to rules", digits=1, summed=True),
    Metric("compression_ratio", "compression ratio", target=Target("<", 0.5, long=True)),
)
"""What says how well the goal is kept, and how much shorter the context is."""

COSTS = (
    Metric("tokens_before", "tokens before", digits=0),
    Metric("tokens_after", "tokens after", digits=0),
    Metric("seconds", "seconds per compression", digits=3),
    Metric("extraction_seconds", "seconds per extraction", digits=3),
    Metric("background_seconds", "seconds per background", digits=3),
    Metric("model_read", "tokens read by the model", digits=0, summed=True),
    Metric("model_written", "tokens written", digits=0, summed=True),
    Metric("cost", "cost in dollars", digits=4, summed=True),
)
"""What it costs."""
