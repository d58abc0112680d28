"""What is measured: at each compression point, in one trial, and with which setup."""

from statistics import fmean

from pydantic import BaseModel, ConfigDict, Field

REPLAYED = "replayed, not a measurement"
"""Stands in every file that was made from recorded answers."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class CallCost(_Strict):
    """What one question of a pass cost: tokens read and written, None if the model reports none."""

    what: str
    model: str
    seconds: float
    read: int | None = None
    written: int | None = None
    failed: str = ""


class PointScores(_Strict):
    """The scores at one compression point; None where there is no ground truth, or an error.

    Tokens are those of what stands for the conversation, as it was said and as the strategy leaves
    it; seconds, tokens of the model and cost (dollars) are those of the compression alone.
    `goal_before` is the goal coherence with the context before plus what was said since, and
    `drift` by how much compressing lowers it. `calls` are those of Ebbtide's own passes.
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
    quotes: int | None = None
    salience_precision: float | None = None
    salience_recall: float | None = None
    salience_f1: float | None = None
    verbatim_rate: float | None = None
    fabricated: int | None = None
    fallbacks: int | None = None
    constraints_in_context: float | None = None
    constraint_recall: float | None = None
    goal_coherence: float | None = None
    goal_before: float | None = None
    drift: float | None = None
    behavioural_alignment: float | None = None
    calls: tuple[CallCost, ...] = ()

    @property
    def extraction_seconds(self) -> float | None:
        """The mean seconds of a call that extracts."""
        return self._seconds("extraction")

    @property
    def background_seconds(self) -> float | None:
        """The mean seconds of a call that writes the background."""
        return self._seconds("background")

    def _seconds(self, what: str) -> float | None:
        found = [call.seconds for call in self.calls if call.what == what]
        return fmean(found) if found else None


class TrialResult(_Strict):
    """One trial of a strategy on a template; `errors` say which scores are missing, and why."""

    strategy: str
    template: str
    trial: int = Field(ge=1)
    turns: int
    digest: str
    points: tuple[PointScores, ...]
    errors: tuple[str, ...] = ()
    note: str = ""

    @property
    def job(self) -> "Job":
        """Which trial it is."""
        return Job(strategy=self.strategy, template=self.template, trial=self.trial)


class Job(_Strict):
    """A trial that is to be run."""

    strategy: str
    template: str
    trial: int

    @property
    def name(self) -> str:
        """Its name, as the progress bar and the recorded answers have it."""
        return f"{self.strategy}/{self.template}/{self.trial}"


class Setup(_Strict):
    """What must be the same for results to stand in one table.

    `judge` is None if nobody judges; `likeness` says how quotes are compared with the truth;
    `prices` are dollars per million tokens, read and written.
    """

    version: str
    model: str
    judge: str | None
    likeness: str
    prices: tuple[float, float] | None = None
    note: str = ""
