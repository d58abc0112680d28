"""The harness: all trials of a plan, some at a time, each kept as soon as it is done."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, SystemMessage

from ..memory.efforts import one_line
from ..memory.embeddings import Embedder
from ..memory.messages import fenced
from ..memory.settings import Settings
from ..prompts.loader import render
from .failures import ResultsError, TapeError
from .judge import Judge
from .results import Job, PointScores, Setup, Store, TrialResult, append
from .scores import by_meaning, lexical, scores
from .strategy_protocol import Strategy, StrategyInputs, after, as_messages, transcript
from .tape import AnswerTape, Tapes, line, spent
from .template import Point, Template, TemplateTurn

Result = TypeVar("Result")

_LONGEST = 300
"""Characters of an error that the results keep."""

_log = logging.getLogger("ebbtide.evaluation")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, and with what: each strategy on each template so many times.

    Without `judge` nobody judges. With `tapes` the answers are those that were recorded, with
    `record` they are written there.
    """

    strategies: Mapping[str, Callable[[StrategyInputs], Strategy]]
    templates: Mapping[str, Template]
    setup: Setup
    model: BaseChatModel
    judge: Judge | None = None
    embedder: Embedder | None = None
    settings: Settings = Settings()  # noqa: RUF009 (it is frozen)
    trials: int = 1
    concurrency: int = 4
    tapes: Tapes | None = None
    record: Path | None = None


def trials_left(plan: Plan, store: Store) -> tuple[Job, ...]:
    """Return the trials that are not there yet, or have errors; all first ones come first.

    Raises `ResultsError` if a template is another one than when its trials were run.
    """
    digests = {name: template.digest for name, template in plan.templates.items()}
    for trial in store.trials:
        if digests.get(trial.template, trial.digest) != trial.digest:
            raise ResultsError(
                f"template {trial.template!r} has changed since its trials: choose another folder"
            )
    done = {trial.name for trial in store.trials if not trial.errors}
    jobs = [
        Job(strategy=strategy, template=template, trial=number)
        for number in range(1, plan.trials + 1)
        for template in plan.templates
        for strategy in plan.strategies
    ]
    return tuple(job for job in jobs if job.name not in done)


async def run(plan: Plan, store: Store, done: Callable[[TrialResult], None]) -> None:
    """Run what is left of a plan, and hand each result to `done` once it is kept."""
    gate = asyncio.Semaphore(plan.concurrency)

    async def run_job(job: Job) -> None:
        async with gate:
            result, taped = await asyncio.to_thread(run_trial, plan, job)
        if plan.record and taped:
            append(plan.record, taped)
        store.append(result)
        done(result)

    await asyncio.gather(*map(run_job, trials_left(plan, store)))


def run_trial(plan: Plan, job: Job) -> tuple[TrialResult, str]:
    """Run one trial; return its result, and its line for the file of recorded answers.

    A trial in which a call failed for good has no such line: its answers would not fit.
    """
    with TemporaryDirectory() as folder:
        trial = _Trial(plan, job, Path(folder))
        result = trial.run()
    tape, judged = trial.tape, trial.judge.noted if trial.judge else {}
    if plan.record and tape.failed:
        _log.warning("%s is not recorded: %d calls failed", job.name, tape.failed)
    return result, "" if tape.failed else line(job.name, tape.answers, judged)


class _Trial:
    """One trial: a strategy goes through a template, and is measured at each point."""

    def __init__(self, plan: Plan, job: Job, folder: Path) -> None:
        self.plan, self.job = plan, job
        self.tape = _tape(plan.tapes, job)
        self.judge = replace(plan.judge, noted={}) if plan.judge else None
        self.template = plan.templates[job.template]
        self.model = plan.model.model_copy(update={"cache": self.tape})
        self.alike = by_meaning(plan.embedder) if plan.embedder else lexical
        self.inputs = StrategyInputs(self.model, plan.embedder, folder, plan.settings)
        self.errors: list[str] = []

    def run(self) -> TrialResult:
        """Return the scores of all points, none of a strategy that cannot begin."""
        strategy = self._tried("beginning", self._begun)
        points = () if strategy is None else tuple(self._points(strategy))
        if self.tape.missing and not self.errors:
            self.errors.append(f"{self.tape.missing} calls have no recorded answer")
        return TrialResult(
            **self.job.model_dump(),
            turns=len(self.template.turns),
            digest=self.template.digest,
            points=points,
            errors=tuple(self.errors),
            note=self.plan.setup.note,
        )

    def _begun(self) -> Strategy:
        """Return the strategy once it knows the goal."""
        strategy = self.plan.strategies[self.job.strategy](self.inputs)
        setup = self.template.initial_setup
        strategy.initialize(setup.original_goal, setup.hard_constraints)
        return strategy

    def _points(self, strategy: Strategy) -> Iterator[PointScores]:
        """Yield the scores of each point; one at which the strategy fails ends them."""
        for point in self.template.points:
            new = after(point.turns, strategy.seen)
            before = (*strategy.context.messages, *as_messages(new))
            measure = partial(self._measured, strategy, point, new)
            measured = self._tried(f"point {point.number}, compress", measure)
            if measured is None:
                return
            judged = self._judged(point, before, strategy.context.messages)
            yield PointScores(point=point.number, turn_id=point.turn_id, **measured, **judged)

    def _measured(
        self, strategy: Strategy, point: Point, new: Sequence[TemplateTurn]
    ) -> dict[str, Any]:
        """Let the strategy compress with these new turns; return the scores that need no model."""
        for turn in new:
            if change := turn.goal_change:
                strategy.update_goal(change.goal, change.rationale, turn.turn_id)
        answered, began = len(self.tape.answers), time.perf_counter()
        context = strategy.compress(point.turns)
        return {
            "seconds": time.perf_counter() - began,
            "calls": context.calls,
            **spent(self.tape.answers[answered:], self.plan.setup.prices),
            **scores(point, context, self.alike),
        }

    def _judged(
        self, point: Point, before: Sequence[AnyMessage], left: Sequence[AnyMessage]
    ) -> dict[str, float | None]:
        """Return the scores that the judge gives for the contexts before and after compressing."""
        judge, tasks = self.judge, self.template.probing_tasks
        if judge is None:
            return {}
        asks: dict[str, Callable[[], float]] = {}
        if goal_probe := tasks.goal(point.number):
            asks["goal_before"] = lambda: judge.goal(point.goal, self._answer(before, goal_probe))
            asks["goal_coherence"] = lambda: judge.goal(point.goal, self._answer(left, goal_probe))
        if (rules := point.constraints) and (probe := tasks.constraint_probe):
            rest = (point.goal, *(point.salient() or ()))
            asks["constraint_recall"] = lambda: judge.constraints(
                rules, rest, self._answer(left, probe)
            )
        if tests := point.temptations:
            asks["behavioural_alignment"] = lambda: fmean(
                judge.behaviour(test, self._answer(left, test.prompt)) for test in tests
            )
        where = f"point {point.number}"
        judged = {name: self._tried(f"{where}, {name}", ask) for name, ask in asks.items()}
        earlier, now = judged.get("goal_before"), judged.get("goal_coherence")
        drift = None if earlier is None or now is None else earlier - now
        return {**judged, "drift": drift}

    def _answer(self, context: Sequence[AnyMessage], question: str) -> str:
        """Return what the model says that knows nothing but a context.

        The context is quoted, since no provider takes any other.
        """
        known = fenced("context", transcript(context))
        asked = HumanMessage(render("evaluation/probe", context=known, question=question))
        system_prompt = self.template.initial_setup.system_prompt
        messages: list[BaseMessage] = [SystemMessage(system_prompt)] if system_prompt else []
        return str(self.model.invoke([*messages, asked]).text)

    def _tried(self, place: str, ask: Callable[[], Result]) -> Result | None:
        """Return what this gives; None, and an error of the trial, if it fails."""
        try:
            return ask()
        except Exception as error:  # noqa: BLE001 (any strategy's, any provider's)
            message = one_line(str(error).encode(errors="replace").decode())
            why = f"{type(error).__name__}: {message}"
            self.errors.append(f"{place}: {why[:_LONGEST]}")
            return None


def _tape(tapes: Tapes | None, job: Job) -> AnswerTape:
    if tapes is None:
        return AnswerTape()
    if job.name not in tapes.trials:
        names = ", ".join(sorted(tapes.trials)) or "none"
        raise TapeError(f"no recorded answers for {job.name!r}: there are {names}")
    return AnswerTape(tapes.trials[job.name])
