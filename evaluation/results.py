"""The scores of a trial; the files of results and of recorded answers."""

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from threading import get_ident
from typing import Any, Literal, TypeAlias

from langchain_core.caches import RETURN_VAL_TYPE, BaseCache
from langchain_core.messages import message_to_dict, messages_from_dict
from langchain_core.outputs import ChatGeneration
from pydantic import BaseModel, Field, ValidationError
from pydantic_core import to_jsonable_python
from typing_extensions import override

from ..memory.questions import What
from ..nodes.llm.calls import Call
from .template import EvaluationError, Strict

REPLAYED = "replayed, not a measurement"
"""The note in every file that was made from recorded answers."""

_MILLION = 1_000_000
"""The tokens that a price is for."""

Answers: TypeAlias = Sequence[Mapping[str, Any]]
"""The answers to the calls of one trial, in their order, as plain messages."""


class ResultsError(EvaluationError):
    """The folder holds results of another setup, or another run is writing to it."""


class TapeError(EvaluationError):
    """A file of recorded answers is damaged, or lacks the answer to a call."""


class PointScores(Strict):
    """The scores at one compression point; None without ground truth, or after an error.

    `tokens_before` are those of the whole conversation, `tokens_after` those of the strategy's
    context. Seconds, tokens of the model and cost (dollars) are those of the compression alone.
    `goal_before` is the goal coherence of the context before compressing, with the turns since
    then; `drift` is how much lower it is after. `calls` are those of Ebbtide's own passes.
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
        """The name of the trial on the progress bar and in recorded answers."""
        return f"{self.strategy}/{self.template}/{self.trial}"


class TrialResult(Job):
    """A finished trial; `errors` say which scores are missing, and why."""

    turns: int
    digest: str
    points: tuple[PointScores, ...]
    errors: tuple[str, ...] = ()
    note: str = ""


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


class Store:
    """The trials that a folder holds, all of one setup."""

    def __init__(self, folder: Path, setup: Setup) -> None:
        """Read the folder; raises `ResultsError` if it has another setup, or is damaged."""
        path = folder / "setup.json"
        if not path.exists():
            write_atomically(path, setup.model_dump_json(indent=1) + "\n")
        try:
            stored = Setup.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise ResultsError(f"{str(path)!r} is no setup: choose another folder") from error
        for (name, old), (_, new) in zip(stored, setup, strict=True):
            if old != new:
                state = f"{str(folder)!r} holds results with {name} {old!r}, this run has {new!r}"
                raise ResultsError(f"{state}: choose another folder")
        self._path = folder / "trials.jsonl"
        self._trials: dict[str, TrialResult] = {}
        for number, line in enumerate(read_lines(self._path), start=1):
            try:
                trial = TrialResult.model_validate_json(line)
            except ValidationError as error:
                where = f"{str(self._path)!r}, line {number}"
                problem = "no result of a trial: choose another folder"
                raise ResultsError(f"{where}: {problem}") from error
            self._trials[trial.name] = trial

    @property
    def trials(self) -> tuple[TrialResult, ...]:
        """The newest result of each trial."""
        return tuple(self._trials.values())

    def append(self, trial: TrialResult) -> None:
        """Store a trial: when this returns its line is on the disk."""
        append(self._path, trial.model_dump_json() + "\n")
        self._trials.pop(trial.name, None)  # the newest comes last
        self._trials[trial.name] = trial


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Make and lock a folder; raises `ResultsError` if another run has locked it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ".lock"
    if not path.exists():
        path.touch()  # its error names the folder's fault, which SQLite's does not
    # On every system SQLite's lock ends with its process, also with one that is killed.
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as lock:
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            state = f"another run is writing to {str(folder)!r}"
            raise ResultsError(f"{state}: wait for its end, or choose another folder") from error
        yield


def append(path: Path, line: str) -> None:
    """Append a line in one write, and wait until it is on the disk."""
    with path.open("ab", buffering=0) as file:
        file.write(line.encode())
        os.fsync(file.fileno())


def read_lines(path: Path) -> list[bytes]:
    """Return the lines of a file, if it exists; cut off a last line that a kill left incomplete."""
    data = path.read_bytes() if path.exists() else b""
    end = data.rfind(b"\n") + 1
    if end < len(data):
        os.truncate(path, end)
    return data[:end].splitlines()


def write_atomically(path: Path, text: str) -> None:
    """Write a file and its folder, the file entirely or not at all; threads may write the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{get_ident()}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


class AnswerTape(BaseCache):
    """Records the answers of a model in one trial, or replays recorded ones.

    It is the model's cache, which LangChain asks before every call. Calls are identified by their
    order, since some agents send random ids; a call and its retries are one.
    """

    def __init__(self, recorded: Answers | None = None) -> None:
        """Begin with the first call; `missing` counts calls without a recorded answer."""
        self._recorded = recorded
        self._open: set[tuple[str, str]] = set()
        self.answers: list[Mapping[str, Any]] = []
        self.missing = 0

    @property
    def failed(self) -> int:
        """The number of calls that got no answer: with any, the trial cannot be replayed."""
        return len(self._open)

    @override
    def lookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        """Return the recorded answer of the next call, None if the model has to answer."""
        if self._recorded is None:
            self._open.add((prompt, llm_string))
            return None
        number = len(self.answers)
        if number >= len(self._recorded):
            self.missing += 1
            raise TapeError(f"no recorded answer for call {number + 1}: record the trial again")
        answer = self._recorded[number]
        self.answers.append(answer)
        return [ChatGeneration(message=messages_from_dict([dict(answer)])[0])]

    @override
    def update(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        """Record the answer of the model as plain JSON, parsed objects in it too."""
        messages = [choice.message for choice in return_val if isinstance(choice, ChatGeneration)]
        self._open.discard((prompt, llm_string))
        self.answers.append(to_jsonable_python(message_to_dict(messages[0]), fallback=str))

    @override
    def clear(self, **kwargs: Any) -> None:
        """Clear nothing: a tape lasts for one trial."""

    def usage(self, begin: int, prices: tuple[float, float] | None) -> dict[str, Any]:
        """Return tokens and dollars of the answers from index `begin` on.

        They are unknown, and the result empty, if an answer does not report its tokens.
        """
        usages = [answer["data"].get("usage_metadata") for answer in self.answers[begin:]]
        if not all(usages):
            return {}
        sent = sum(usage["input_tokens"] for usage in usages)
        received = sum(usage["output_tokens"] for usage in usages)
        cost = (sent * prices[0] + received * prices[1]) / _MILLION if prices else None
        return {"model_read": sent, "model_written": received, "cost": cost}

    def line(self, trial: str, judged: Mapping[str, str]) -> str:
        """Return the line of this trial in a file of tapes."""
        return json.dumps({"trial": trial, "answers": self.answers, "judged": dict(judged)}) + "\n"


class _Head(BaseModel):
    tape: Literal[1]
    model: str
    judge: str | None


@dataclass(frozen=True, slots=True)
class Tapes:
    """A file of tapes: names of model and judge, answers by trial, verdicts by digest."""

    model: str
    judge: str | None
    trials: Mapping[str, Answers]
    judged: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> "Tapes":
        """Read a file of tapes; of two of one trial the later counts. Raises `TapeError`."""
        try:
            first, *entries = map(json.loads, path.read_bytes().splitlines())
            head = _Head.model_validate(first)
            for entry in entries:
                messages_from_dict(entry["answers"])  # raises if one is no message
            trials = {entry["trial"]: entry["answers"] for entry in entries}
            judged = {at: str(text) for entry in entries for at, text in entry["judged"].items()}
            tapes = cls(head.model, head.judge, trials, judged)
            tapes.jobs()  # raises if a key is no name of a trial
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            state = f"{str(path)!r} holds no recorded answers ({type(error).__name__}: {error})"
            raise TapeError(f"{state}: choose another file") from error
        return tapes

    @staticmethod
    def begin(path: Path, model: str, judge: str | None) -> None:
        """Begin a file of tapes, or continue one of the same model and judge."""
        header = json.dumps({"tape": 1, "model": model, "judge": judge}) + "\n"
        content = path.read_bytes() if path.exists() else b""
        if content.startswith(header.encode()):
            read_lines(path)  # cuts off an incomplete last line
        elif not content:
            append(path, header)
        else:
            state = f"{str(path)!r} does not hold answers of {model!r}, judged by {judge!r}"
            raise TapeError(f"{state}: choose another file")

    def jobs(self) -> tuple[list[str], list[str], int]:
        """Return the strategies, the templates and the highest trial number on the tapes."""
        strategies, templates, highest = dict[str, None](), dict[str, None](), 0
        for name in self.trials:
            strategy, template_and_trial = name.split("/", 1)
            template, trial = template_and_trial.rsplit("/", 1)
            strategies[strategy] = templates[template] = None  # a dict keeps their order
            highest = max(highest, int(trial))
        return [*strategies], [*templates], highest
