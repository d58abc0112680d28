"""The harness: all trials of a plan, some at a time, each kept as soon as it is done."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from langchain_core.language_models import BaseChatModel

from ..memory.embeddings import Embedder
from ..memory.settings import Settings
from .errors import ResultsError, TapeError
from .judge import Judge, Probes
from .matching import Alike
from .results import Job, Setup, Store, TrialResult, append
from .strategies import Maker
from .strategy import StrategyInputs
from .tape import Library, RecordedModel, line
from .template import Template
from .trial import Trial, digest

_log = logging.getLogger("ebbtide.evaluation")


@dataclass(frozen=True, slots=True)
class Runners:
    """Who works: the model, the judge if there is one, embeddings, what compares quotes, settings.

    With `library` the answers are those that were recorded, with `record` they are written there.
    """

    model: BaseChatModel
    judge: Judge | None
    embedder: Embedder | None
    alike: Alike
    settings: Settings = Settings()  # noqa: RUF009 (it is frozen)
    library: Library | None = None
    record: Path | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done: each strategy on each template so many times, so many at once."""

    strategies: Mapping[str, Maker]
    templates: Sequence[Template]
    trials: int
    setup: Setup
    concurrency: int = 4

    def jobs(self) -> Iterator[Job]:
        """Yield the trials, all first ones before all second ones."""
        for trial in range(1, self.trials + 1):
            for template in self.templates:
                for strategy in self.strategies:
                    yield Job(strategy=strategy, template=template.template_id, trial=trial)


def left(plan: Plan, store: Store) -> tuple[Job, ...]:
    """Return the trials that are not there yet, or have errors.

    Raises `ResultsError` if a template is another one than when its trials were run.
    """
    known = {template.template_id: digest(template) for template in plan.templates}
    for result in store.trials:
        if known.get(result.template, result.digest) != result.digest:
            raise ResultsError(
                f"template {result.template!r} has changed since its trials: choose another folder"
            )
    done = {result.job for result in store.trials if not result.errors}
    return tuple(job for job in plan.jobs() if job not in done)


async def run(plan: Plan, crew: Runners, store: Store, done: Callable[[TrialResult], None]) -> None:
    """Run what is left of a plan, and hand each result to `done` once it is kept."""
    gate = asyncio.Semaphore(plan.concurrency)

    async def one(job: Job) -> None:
        async with gate:
            result, taped = await asyncio.to_thread(_trial, plan, crew, job)
        if crew.record and taped:
            append(crew.record, taped)
        store.append(result)
        done(result)

    await asyncio.gather(*map(one, left(plan, store)))


def _trial(plan: Plan, crew: Runners, job: Job) -> tuple[TrialResult, str]:
    """Run one trial; return its result, and its line for the file of recorded answers.

    A trial in which a call failed for good has no such line: its answers would not fit.
    """
    template = next(one for one in plan.templates if one.template_id == job.template)
    tape = _tape(crew, job)
    model = crew.model.model_copy(update={"cache": tape})
    judged = crew.judge.begin() if crew.judge else {}
    system_prompt = template.initial_setup.system_prompt
    probes = Probes(model, crew.judge, system_prompt) if crew.judge else None
    with TemporaryDirectory() as folder:
        means = StrategyInputs(model, crew.embedder, Path(folder), crew.settings)
        strategy = plan.strategies[job.strategy](means)
        trial = Trial(job, template, strategy, tape, probes, crew.alike, plan.setup.prices)
        result = trial.run().model_copy(update={"note": plan.setup.note})
    if crew.record and tape.failed:
        _log.warning("%s is not recorded: %d calls failed", job.name, tape.failed)
    return result, "" if tape.failed else line(job.name, tape.answers, judged)


def _tape(crew: Runners, job: Job) -> RecordedModel:
    if crew.library is None:
        return RecordedModel()
    if job.name not in crew.library.trials:
        raise TapeError(f"no recorded answers for {job.name!r}: there are {_few(crew.library)}")
    return RecordedModel(crew.library.trials[job.name])


def _few(library: Library, number: int = 5) -> str:
    names = sorted(library.trials)
    more = f" and {len(names) - number} more" if len(names) > number else ""
    return (", ".join(names[:number]) or "none") + more
