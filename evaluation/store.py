"""The results in a folder: a line for each trial, appended at once, so that a run can be killed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import ValidationError

from .errors import ResultsError
from .results import Setup, TrialResult

SETUP, TRIALS, LOCK = "setup.json", "trials.jsonl", ".lock"


class Store:
    """The trials that a folder holds, all of one setup."""

    def __init__(self, folder: Path, setup: Setup) -> None:
        """Read what is there; raises `ResultsError` if it is of another setup, or damaged."""
        self._path = folder / TRIALS
        _same(folder / SETUP, setup)
        self._trials = {result.job: result for result in _read(self._path)}

    @property
    def trials(self) -> tuple[TrialResult, ...]:
        """The trials, the newest of each."""
        return tuple(self._trials.values())

    def append(self, result: TrialResult) -> None:
        """Keep a trial: its line is on the disk when this returns, or not at all."""
        append(self._path, result.model_dump_json() + "\n")
        self._trials.pop(result.job, None)
        self._trials[result.job] = result


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder, made if it is not there; raises `ResultsError` if another run holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / LOCK, timeout=0):
            yield
    except Timeout as error:
        raise ResultsError(f"another run is writing to {str(folder)!r}") from error


def append(path: Path, line: str) -> None:
    """Append a line in one write, and wait until it is on the disk."""
    with path.open("ab", buffering=0) as file:
        file.write(line.encode())
        os.fsync(file.fileno())


def mended(path: Path) -> None:
    """Cut off a last line that a kill left without its end."""
    data = path.read_bytes() if path.exists() else b""
    if data and not data.endswith(b"\n"):
        with path.open("rb+") as file:
            file.truncate(data.rfind(b"\n") + 1)


def _same(path: Path, setup: Setup) -> None:
    if not path.exists():
        draft = path.with_suffix(".new")
        draft.write_text(setup.model_dump_json(indent=1) + "\n", encoding="utf-8")
        draft.replace(path)
        return
    try:
        there = Setup.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise ResultsError(f"{str(path)!r} is no setup: choose another folder") from error
    for name in Setup.model_fields:
        old, new = getattr(there, name), getattr(setup, name)
        if old != new:
            raise ResultsError(
                f"{str(path.parent)!r} holds results with {name} {old!r}, this run has {new!r}: "
                "choose another folder"
            )


def _read(path: Path) -> Iterator[TrialResult]:
    mended(path)
    lines = path.read_bytes().splitlines() if path.exists() else []
    for number, line in enumerate(lines, start=1):
        try:
            yield TrialResult.model_validate_json(line)
        except ValidationError as error:
            raise ResultsError(f"{str(path)!r}, line {number}: no result of a trial") from error
