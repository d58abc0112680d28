"""The harness: all trials of a plan, some at a time, each kept as soon as it is done."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage

from ..memory.efforts import one_line
from ..memory.embeddings import Embedder
from ..memory.settings import Settings
from .failures import ResultsError, TapeError
from .judge import Judge, Probes
from .matching import Alike, agreement
from .results import CallCost, Job, PointScores, Setup, Store, TrialResult, append
from .strategies import Maker
from .strategy import Context, Strategy, StrategyInputs, after, as_messages, size, transcript
from .tape import Library, RecordedModel, Usage, line
from .template import BehavioralTest, Point, Template, TemplateTurn, stands_in


def salient_at(
    template: Template, point: Point, through: int | None = None
) -> tuple[str, ...] | None:
    """Return the sentences that are salient at a point, None if the template does not know.

    They are those of this point and of all before it that no newer sentence supersedes, as far as
    they were said in turns up to `through`, by default all. A template knows it if it lists the
    point, be it with no sentence.
    """
    listed = template.ground_truth_salience
    if point.key not in listed:
        return None
    until = [one.key for one in template.points if one.number <= point.number]
    turns = template.until(point.turn_id if through is None else through)
    said = (one for key in until for one in listed.get(key, ()) if stands_in(one, turns))
    return _holding(template, turns, said)


def constraints_at(template: Template, point: Point) -> tuple[str, ...] | None:
    """Return the constraints that hold at a point, None if the template does not know."""
    known = template.ground_truth.constraints
    turns = template.until(point.turn_id)
    if known is None:
        return None
    return _holding(template, turns, (one for one in known if stands_in(one, turns)))


def given_at(template: Template, point: Point) -> tuple[str, ...]:
    """Return the sentences of what a strategy was told itself that hold at a point."""
    turns = template.until(point.turn_id)
    said = (one for one in template.ground_truth.given if stands_in(one, turns))
    return _holding(template, turns, said)


def temptations_at(template: Template, point: Point) -> tuple[BehavioralTest, ...]:
    """Return the behavioural tests that need nothing but what was said and holds at a point."""
    turns = template.until(point.turn_id)

    def holds(test: BehavioralTest) -> bool:
        said = all(stands_in(one, turns) for one in test.needs)
        return said and len(_holding(template, turns, test.needs)) == len(test.needs)

    return tuple(test for test in template.probing_tasks.behavioral_test if holds(test))


def as_salient(template: Template, quotes: Iterable[str]) -> tuple[str, ...]:
    """Return quotes; one that says as much as a salient sentence is that sentence."""
    same = template.ground_truth.same.items()
    names = {one_line(other): sentence for sentence, others in same for other in others}
    return tuple(names.get(one_line(quote), quote) for quote in quotes)


def goal_at(template: Template, point: Point) -> str:
    """Return the goal as it is at a point: the original one, or the newest change."""
    changes = [turn.goal_change for turn in template.until(point.turn_id) if turn.goal_change]
    return changes[-1].goal if changes else template.initial_setup.original_goal


def _holding(
    template: Template, turns: Sequence[TemplateTurn], sentences: Iterable[str]
) -> tuple[str, ...]:
    """Return sentences once each, without those that one of these turns supersedes."""
    pairs = template.ground_truth.superseded
    gone = {one_line(pair.old) for pair in pairs if stands_in(pair.by, turns)}
    once = dict.fromkeys(one_line(sentence) for sentence in sentences)
    return tuple(sentence for sentence in once if sentence not in gone)


_MILLION = 1_000_000
"""Prices are for a million tokens."""


def sizes(turns: Sequence[TemplateTurn], context: Context) -> dict[str, Any]:
    """Return the tokens of the conversation before and after, and their ratio."""
    before, left = size(as_messages(turns)), size(context.messages)
    return {"tokens_before": before, "tokens_after": left, "compression_ratio": left / before}


def spent(usage: Usage, prices: tuple[float, float] | None) -> dict[str, Any]:
    """Return the tokens of the model, and what they cost in dollars if there are prices.

    Nothing is known of them if the model was asked and does not report them.

    >>> spent(Usage(2_000_000, 500_000), (0.25, 2.0))["cost"]
    1.5
    """
    if usage.silent:
        return {}
    cost = None
    if prices is not None:
        cost = (usage.read * prices[0] + usage.written * prices[1]) / _MILLION
    return {"model_read": usage.read, "model_written": usage.written, "cost": cost}


def quoted(template: Template, point: Point, context: Context, alike: Alike) -> Mapping[str, Any]:
    """Return what the strategy's quotes are worth; nothing if it chooses none.

    The verbatim rate is the share of quotes that stand in a turn; `fabricated` are those that do
    not, and those that the strategy dropped itself.
    """
    quotes = context.quotes
    if quotes is None:
        return {}
    turns = template.until(point.turn_id)
    real = sum(stands_in(quote, turns) for quote in quotes)
    found: dict[str, Any] = {
        "quotes": len(quotes),
        "verbatim_rate": real / len(quotes) if quotes else None,
        "fabricated": len(quotes) - real + (context.fabricated or 0),
        "fallbacks": context.fallbacks,
    }
    true = salient_at(template, point, context.through)
    if true is not None:
        told = given_at(template, point)
        agreed = agreement(as_salient(template, quotes), true, alike, told)
        found["salience_precision"] = agreed.precision
        found["salience_recall"] = agreed.recall
        found["salience_f1"] = agreed.f1
    return found


def constraints_kept(template: Template, point: Point, context: Context) -> float | None:
    """Return the share of the constraints that stand in the context word for word.

    None if the template knows no constraint that holds at the point.
    """
    held = constraints_at(template, point)
    if not held:
        return None
    text = one_line(transcript(context.messages))
    return sum(one in text for one in held) / len(held)


_LONGEST = 300
"""Characters of an error that the results keep."""


@dataclass(slots=True)
class Trial:
    """What one trial is run with; `probes` is None if nobody judges."""

    job: Job
    template: Template
    strategy: Strategy
    tape: RecordedModel
    probes: Probes | None
    alike: Alike
    prices: tuple[float, float] | None = None
    errors: list[str] = field(default_factory=list)

    def run(self) -> TrialResult:
        """Return the scores of all points; a point at which the strategy fails is the last one."""
        points: list[PointScores] = []
        setup = self.template.initial_setup
        self.strategy.initialize(setup.original_goal, setup.hard_constraints)
        context, seen = Context(()), 0
        for point in self.template.points:
            until = self.template.until(point.turn_id)
            before = (*context.messages, *as_messages(after(until, seen)))
            try:
                context, measured = self._compressed(point, seen)
            except Exception as error:  # noqa: BLE001 (any strategy's, any provider's)
                self._note(point, "compress", error)
                break
            asked = self._probed(point, before, context)
            points.append(PointScores(**_head(point), **measured, **asked))
            seen = point.turn_id
        return self._result(points)

    def _compressed(self, point: Point, seen: int) -> tuple[Context, dict[str, Any]]:
        """Return the context at a point, and the scores that need no model."""
        turns = self.template.until(point.turn_id)
        for turn in after(turns, seen):
            if turn.goal_change:
                self.strategy.update_goal(turn.goal_change.goal, turn.goal_change.rationale)
        used, began = self.tape.usage, time.perf_counter()
        context = self.strategy.compress(turns)
        seconds = time.perf_counter() - began
        return context, {
            "seconds": seconds,
            "calls": tuple(CallCost(**call) for call in context.calls),
            **sizes(turns, context),
            **spent(self.tape.usage - used, self.prices),
            **quoted(self.template, point, context, self.alike),
            "constraints_in_context": constraints_kept(self.template, point, context),
        }

    def _probed(
        self, point: Point, before: Sequence[AnyMessage], context: Context
    ) -> dict[str, float | None]:
        """Return the scores that the judge gives."""
        probes, tasks = self.probes, self.template.probing_tasks
        if probes is None:
            return {}
        judge, left = probes.judge, context.messages
        scores: dict[str, float | None] = {}
        if question := tasks.goal(point.number):
            goal = goal_at(self.template, point)
            earlier = self._tried(
                point, "goal_before", lambda: judge.goal(goal, probes.answer(before, question))
            )
            now = self._tried(
                point, "goal_coherence", lambda: judge.goal(goal, probes.answer(left, question))
            )
            scores |= {"goal_before": earlier, "goal_coherence": now}
            scores["drift"] = None if earlier is None or now is None else earlier - now
        held = constraints_at(self.template, point)
        said = (goal_at(self.template, point), *(salient_at(self.template, point) or ()))
        if held and (rules := tasks.constraint_probe):
            scores["constraint_recall"] = self._tried(
                point,
                "constraint_recall",
                lambda: judge.constraints(held, said, probes.answer(left, rules)),
            )
        if tests := temptations_at(self.template, point):
            scores["behavioural_alignment"] = self._tried(
                point,
                "behavioural_alignment",
                lambda: fmean(
                    judge.behaviour(test, probes.answer(left, test.prompt)) for test in tests
                ),
            )
        return scores

    def _tried(self, point: Point, name: str, ask: Callable[[], float]) -> float | None:
        try:
            return ask()
        except Exception as error:  # noqa: BLE001 (any provider's: the other scores are kept)
            self._note(point, name, error)
            return None

    def _note(self, point: Point, name: str, error: Exception) -> None:
        said = str(error).encode(errors="replace").decode()
        why = f"{type(error).__name__}: {' '.join(said.split())}"
        self.errors.append(f"point {point.number}, {name}: {why[:_LONGEST]}")

    def _result(self, points: Sequence[PointScores]) -> TrialResult:
        if self.tape.missing and not self.errors:
            self.errors.append(f"{self.tape.missing} calls have no recorded answer")
        return TrialResult(
            **self.job.model_dump(),
            turns=len(self.template.turns),
            digest=digest(self.template),
            points=tuple(points),
            errors=tuple(self.errors),
        )


def digest(template: Template) -> str:
    """Return by what a template is known again: 16 hex digits of its SHA-256."""
    return hashlib.sha256(template.model_dump_json().encode()).hexdigest()[:16]


def _head(point: Point) -> dict[str, int]:
    return {"point": point.number, "turn_id": point.turn_id}


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


def trials_left(plan: Plan, store: Store) -> tuple[Job, ...]:
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

    await asyncio.gather(*map(one, trials_left(plan, store)))


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
