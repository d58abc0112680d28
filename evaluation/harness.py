"""The harness: all trials of a plan, some at a time, each kept as soon as it is done."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
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
from .judge import Judge
from .results import Job, PointScores, ResultsError, Setup, Store, TrialResult, append
from .scores import scores
from .strategy_protocol import Strategy, StrategyInputs, after, as_messages, transcript
from .tape import AnswerTape, TapeError, Tapes
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

    def left(self, store: Store) -> tuple[Job, ...]:
        """Return the trials that are not there yet, or have errors; all first ones come first.

        Raises `ResultsError` if a template is another one than when its trials were run.
        """
        digests = {name: template.digest for name, template in self.templates.items()}
        for trial in store.trials:
            if digests.get(trial.template, trial.digest) != trial.digest:
                raise ResultsError(
                    f"template {trial.template!r} has changed since its trials: "
                    "choose another folder"
                )
        done = {trial.name for trial in store.trials if not trial.errors}
        jobs = [
            Job(strategy=strategy, template=template, trial=number)
            for number in range(1, self.trials + 1)
            for template in self.templates
            for strategy in self.strategies
        ]
        return tuple(job for job in jobs if job.name not in done)

    async def run(self, store: Store, done: Callable[[TrialResult], None]) -> None:
        """Run what is left, and hand each result to `done` once it is kept."""
        gate = asyncio.Semaphore(self.concurrency)

        async def run_job(job: Job) -> None:
            async with gate:
                result, taped = await asyncio.to_thread(self.run_trial, job)
            if self.record and taped:
                append(self.record, taped)
            store.append(result)
            done(result)

        await asyncio.gather(*map(run_job, self.left(store)))

    def run_trial(self, job: Job) -> tuple[TrialResult, str]:
        """Run one trial; return its result, and its line for the file of recorded answers.

        A trial in which a call failed for good has no such line: its answers would not fit.
        """
        with TemporaryDirectory() as folder:
            trial = _Trial(self, job, Path(folder))
            result = trial.run()
        if trial.tape.failed:
            if self.record:
                _log.warning("%s is not recorded: %d calls failed", job.name, trial.tape.failed)
            return result, ""
        return result, trial.tape.line(job.name, trial.judge.noted if trial.judge else {})


class _Trial:
    """One trial: a strategy goes through a template, and is measured at each point."""

    def __init__(self, plan: Plan, job: Job, folder: Path) -> None:
        self.plan, self.job = plan, job
        recorded = plan.tapes.trials if plan.tapes else None
        if recorded is not None and job.name not in recorded:
            names = ", ".join(sorted(recorded)) or "none"
            raise TapeError(f"no recorded answers for {job.name!r}: there are {names}")
        self.tape = AnswerTape(recorded[job.name] if recorded is not None else None)
        self.judge = replace(plan.judge, noted={}) if plan.judge else None
        self.template = plan.templates[job.template]
        self.model = plan.model.model_copy(update={"cache": self.tape})
        self.inputs = StrategyInputs(self.model, plan.embedder, folder, plan.settings)
        self.errors: list[str] = []

    def run(self) -> TrialResult:
        """Return the scores of the points, up to one at which the strategy fails."""
        points: list[PointScores] = []
        strategy = self._tried("beginning", self._begun)
        for point in self.template.points:
            if strategy is None:
                break
            new = after(point.turns, strategy.seen)
            before = (*strategy.context.messages, *as_messages(new))
            measure = partial(self._measured, strategy, point, new)
            measured = self._tried(f"point {point.number}, compress", measure)
            if measured is None:
                break
            scored = measured | self._judged(point, before, strategy.context.messages)
            points.append(PointScores(point=point.number, turn_id=point.turn_id, **scored))
        if self.tape.missing and not self.errors:
            self.errors.append(f"{self.tape.missing} calls have no recorded answer")
        return TrialResult(
            **self.job.model_dump(),
            turns=len(self.template.turns),
            digest=self.template.digest,
            points=tuple(points),
            errors=tuple(self.errors),
            note=self.plan.setup.note,
        )

    def _begun(self) -> Strategy:
        strategy = self.plan.strategies[self.job.strategy](self.inputs)
        setup = self.template.initial_setup
        strategy.initialize(setup.original_goal, setup.hard_constraints)
        return strategy

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
            **self.tape.spent(answered, self.plan.setup.prices),
            **scores(point, context, self.plan.embedder),
        }

    def _judged(
        self, point: Point, before: Sequence[AnyMessage], now: Sequence[AnyMessage]
    ) -> dict[str, float | None]:
        """Return the scores that the judge gives for the contexts before and after compressing."""
        judge, tasks = self.judge, self.template.probing_tasks
        if judge is None:
            return {}
        asks: dict[str, Callable[[], float]] = {}
        if goal_probe := tasks.goal(point.number):
            asks["goal_before"] = lambda: judge.goal(point.goal, self._answer(before, goal_probe))
            asks["goal_coherence"] = lambda: judge.goal(point.goal, self._answer(now, goal_probe))
        if (rules := point.constraints) and (probe := tasks.constraint_probe):
            others = (point.goal, *(point.salient() or ()))
            asks["constraint_recall"] = lambda: judge.constraints(
                rules, others, self._answer(now, probe)
            )
        if tests := point.temptations:
            asks["behavioural_alignment"] = lambda: fmean(
                judge.behaviour(test, self._answer(now, test.prompt)) for test in tests
            )
        judged = {
            name: self._tried(f"point {point.number}, {name}", ask) for name, ask in asks.items()
        }
        first, second = judged.get("goal_before"), judged.get("goal_coherence")
        drift = None if first is None or second is None else first - second
        return {**judged, "drift": drift}

    def _answer(self, context: Sequence[AnyMessage], question: str) -> str:
        """Return what the model says that knows nothing but a context.

        The context is quoted, since no provider takes messages of another conversation.
        """
        quoted = fenced("context", transcript(context))
        asked = HumanMessage(render("evaluation/probe", context=quoted, question=question))
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
