"""The results of trials: the scores at each point, and the file that has a line for each trial."""

from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import Field

from ..memory.questions import What
from ..nodes.ask import QuestionCost
from .lines import read_lines
from .strategy_protocol import Quoted
from .template import EvaluationError, Strict

REPLAYED = "replayed, not a measurement"
"""The note in every file that was made from recorded answers."""


class PointScores(Strict):
    """The scores at one compression point; None without ground truth, or after an error.

    `tokens_before` are those of the whole conversation, `tokens_after` those of the strategy's
    context. Seconds, tokens of the model and cost (dollars) are those of the compression alone.
    `goal_before` is the goal coherence of the context before compressing, with the turns since
    then; `drift` is how much lower it is after. `calls` are those of Ebbtide's own passes, `chosen`
    the quotes that a model chose in them; `quotes` are those that the context has. `unknown` and
    `invented` are the constraints that an answer lacked and made up, in the judge's view.
    """

    point: int
    turn_id: int
    tokens_before: int
    tokens_after: int
    compression_ratio: float
    seconds: float
    model_read: int | None = None
    model_written: int | None = None
    cost: float | None = None
    quotes: tuple[str, ...] | None = None
    salience_precision: float | None = None
    salience_recall: float | None = None
    salience_f1: float | None = None
    verbatim_rate: float | None = None
    fabricated: int | None = None
    fallbacks: int | None = None
    constraints_in_context: float | None = None
    constraint_recall: float | None = None
    unknown: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()
    goal_coherence: float | None = None
    goal_before: float | None = None
    drift: float | None = None
    behavioural_alignment: float | None = None
    calls: tuple[QuestionCost, ...] = ()
    chosen: tuple[Quoted, ...] = ()

    @property
    def extraction_seconds(self) -> float | None:
        """The mean seconds of a call that extracts."""
        return self._seconds("extraction")

    @property
    def background_seconds(self) -> float | None:
        """The mean seconds of a call that writes the background."""
        return self._seconds("background")

    def _seconds(self, purpose: What) -> float | None:
        seconds = [call.seconds for call in self.calls if call.what == purpose]
        return fmean(seconds) if seconds else None


class Job(Strict):
    """A trial to run: a strategy, a template and a number."""

    strategy: str
    template: str
    trial: int = Field(ge=1)

    @property
    def name(self) -> str:
        """The name of the trial on the progress bar and in errors."""
        return f"{self.strategy}/{self.template}/{self.trial}"


class Setup(Strict):
    """The setup of a run: only results of the same setup stand in one table.

    `judge` is None if nobody judges; `likeness` says how quotes are compared; `prices` are dollars
    per million tokens, read and written; `settings` are those that were chosen.
    """

    version: str
    model: str
    judge: str | None
    likeness: str
    prices: tuple[float, float] | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    note: str = ""


class TrialResult(Job):
    """A finished trial; `errors` say which scores are missing, and why."""

    setup: Setup
    turns: int
    digest: str
    points: tuple[PointScores, ...]
    errors: tuple[str, ...] = ()


def read_trials(path: Path, setup: Setup) -> dict[str, TrialResult]:
    """Return the trials of a file by their names; of two results of one trial the later counts.

    Raises `EvaluationError` for those of another setup. Two runs on one file lose no line of each
    other, since each line is one write at its end; both may do the same trial.
    """
    trials = {trial.name: trial for trial in read_lines(path, TrialResult)}
    for trial in trials.values():
        for (name, old), (_, new) in zip(trial.setup, setup, strict=True):
            if old != new:
                state = f"{str(path)!r} holds results with {name} {old!r}, this run has {new!r}"
                raise EvaluationError(f"{state}: choose another folder")
    return trials
