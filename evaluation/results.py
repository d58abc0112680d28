"""What is measured of a trial, and the folder in which results are kept."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import fmean
from threading import get_ident
from typing import Any

from pydantic import Field, ValidationError

from ..memory.questions import What
from ..nodes.llm.calls import Call
from .template import EvaluationError, Strict

REPLAYED = "replayed, not a measurement"
"""Stands in every file that was made from recorded answers."""


class ResultsError(EvaluationError):
    """The folder holds results of another setup, or another run is writing there."""


class PointScores(Strict):
    """The scores at one compression point; None where there is no ground truth, or an error.

    Seconds, tokens of the model and cost (dollars) are those of the compression alone.
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
    calls: tuple[Call, ...] = ()

    @property
    def extraction_seconds(self) -> float | None:
        """The mean seconds of a call that extracts."""
        return self._seconds("extraction")

    @property
    def background_seconds(self) -> float | None:
        """The mean seconds of a call that writes the background."""
        return self._seconds("background")

    def _seconds(self, what: What) -> float | None:
        seconds = [call.seconds for call in self.calls if call.what == what]
        return fmean(seconds) if seconds else None


class Job(Strict):
    """A trial of a strategy on a template that is to be run."""

    strategy: str
    template: str
    trial: int = Field(ge=1)

    @property
    def name(self) -> str:
        """Its name, as the progress bar and the recorded answers have it."""
        return f"{self.strategy}/{self.template}/{self.trial}"


class TrialResult(Job):
    """A trial that was run; `errors` say which scores are missing, and why."""

    turns: int
    digest: str
    points: tuple[PointScores, ...]
    errors: tuple[str, ...] = ()
    note: str = ""


class Setup(Strict):
    """What must be the same for results to stand in one table.

    `likeness` says how quotes are compared with the truth; `prices` are dollars per million tokens,
    read and written; `settings` those that were chosen.
    """

    version: str
    model: str
    judge: str | None
    likeness: str
    prices: tuple[float, float] | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    note: str = ""


class Store:
    """The trials that a folder holds, all of one setup."""

    def __init__(self, folder: Path, setup: Setup) -> None:
        """Read what is there; raises `ResultsError` if it is of another setup, or damaged."""
        _check_setup(folder / "setup.json", setup)
        self._path = folder / "trials.jsonl"
        self._trials: dict[str, TrialResult] = {}
        for number, line in enumerate(read_lines(self._path), start=1):
            try:
                trial = TrialResult.model_validate_json(line)
            except ValidationError as error:
                where = f"{str(self._path)!r}, line {number}"
                raise ResultsError(f"{where}: no result of a trial") from error
            self._trials[trial.name] = trial

    @property
    def trials(self) -> tuple[TrialResult, ...]:
        """The trials, the newest of each."""
        return tuple(self._trials.values())

    def append(self, trial: TrialResult) -> None:
        """Keep a trial: its line is on the disk when this returns, or not at all."""
        append(self._path, trial.model_dump_json() + "\n")
        self._trials.pop(trial.name, None)  # the newest comes last
        self._trials[trial.name] = trial


def _check_setup(path: Path, setup: Setup) -> None:
    """Write the setup of a new folder; raises `ResultsError` if the folder has another one."""
    if not path.exists():
        write_whole(path, setup.model_dump_json(indent=1) + "\n")
        return
    try:
        stored = Setup.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise ResultsError(f"{str(path)!r} is no setup: choose another folder") from error
    for (name, old), (_, new) in zip(stored, setup, strict=True):
        if old != new:
            raise ResultsError(
                f"{str(path.parent)!r} holds results with {name} {old!r}, this run has {new!r}: "
                "choose another folder"
            )


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Hold a folder, made if it is not there; raises `ResultsError` if another run holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ".lock"
    if not path.exists():
        path.touch()  # says what is wrong with the folder, which SQLite does not
    # A lock of SQLite ends with its process, however that ends, on every system.
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as lock:
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            raise ResultsError(f"another run is writing to {str(folder)!r}") from error
        yield


def append(path: Path, line: str) -> None:
    """Append a line in one write, and wait until it is on the disk."""
    with path.open("ab", buffering=0) as file:
        file.write(line.encode())
        os.fsync(file.fileno())


def read_lines(path: Path) -> list[bytes]:
    """Return the lines of a file, if there is one; a last one that a kill left torn is cut off."""
    data = path.read_bytes() if path.exists() else b""
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(path, whole)
    return data[:whole].splitlines()


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all, its folder made; threads may write the same one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{get_ident()}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
