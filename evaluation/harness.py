"""The harness: runs the trials of a plan, and scores the context at each compression point."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
)

from ..memory.efforts import one_line
from ..memory.questions import What
from ..memory.salience.merge import Similarity, Table, lexical
from ..memory.search.embeddings import Embedder, likeness
from ..memory.settings import Settings
from ..memory.tokens import count_messages
from ..prompts.loader import render
from .answers import Answers, Calls
from .judge import FENCES, Judge, Known
from .results import Job, PointScores, Setup, TrialResult
from .strategy_protocol import Context, Strategy, StrategyInputs, after, as_messages, as_text
from .template import EvaluationError, Point, Template, stands_in

_LONGEST_ERROR = 300
"""Characters of an error that the results keep."""

THRESHOLD = 0.85
"""The least similarity at which a quote with other words counts as a sentence."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Each strategy on each template, `trials` times.

    `models` extract and write backgrounds in place of `model`, by what they are asked for.
    The answers are kept among `answers`, or taken from them if they are replayed.
    `discreet` takes secrets out of the errors that the results keep: a provider may repeat a key.
    """

    strategies: Mapping[str, Callable[[StrategyInputs], Strategy]]
    templates: Mapping[str, Template]
    setup: Setup
    model: BaseChatModel
    models: Mapping[What, BaseChatModel] = field(default_factory=dict)
    judge: Judge | None = None
    embedder: Embedder | None = None
    settings: Settings = Settings()  # noqa: RUF009 (it is frozen)
    trials: int = 1
    concurrency: int = 4
    answers: Answers | None = None
    discreet: Callable[[str], str] = str

    def pending(self, trials: Mapping[str, TrialResult]) -> tuple[Job, ...]:
        """Return the trials without a result, or with errors; the first trial of each comes first.

        Raises `EvaluationError` if a template has changed since its trials.
        """
        digests = {name: template.digest for name, template in self.templates.items()}
        for trial in trials.values():
            if digests.get(trial.template, trial.digest) != trial.digest:
                state = f"template {trial.template!r} has changed since its trials"
                raise EvaluationError(f"{state}: choose another folder")
        jobs = [
            Job(strategy=strategy, template=template, trial=number)
            for number in range(1, self.trials + 1)
            for template in self.templates
            for strategy in self.strategies
        ]
        return tuple(job for job in jobs if job.name not in trials or trials[job.name].errors)

    async def run(self, jobs: Sequence[Job], keep: Callable[[TrialResult], None]) -> None:
        """Run these trials, and keep each result when the trial ends."""
        gate = asyncio.Semaphore(self.concurrency)

        async def run_job(job: Job) -> None:
            async with gate:
                keep(await asyncio.to_thread(self.run_trial, job))

        await asyncio.gather(*map(run_job, jobs))

    def run_trial(self, job: Job) -> TrialResult:
        """Run one trial in a folder of its own, and return its result."""
        with TemporaryDirectory() as folder:
            return _Trial(self, job, Path(folder)).run()


class _Trial:
    """One trial: runs a strategy through a template, and scores it at each point."""

    def __init__(self, plan: Plan, job: Job, folder: Path) -> None:
        self.plan, self.job = plan, job
        self.calls = Calls(plan.answers)
        self.template = plan.templates[job.template]
        chosen = (plan.model, *plan.models.values())
        update = {"cache": self.calls}  # the same models stay the same
        noted = {id(model): model.model_copy(update=update) for model in chosen}
        self.model = noted[id(plan.model)]
        models = {what: noted[id(model)] for what, model in plan.models.items()}
        self.inputs = StrategyInputs(self.model, plan.embedder, folder, plan.settings, models)
        self.errors: list[str] = []

    def run(self) -> TrialResult:
        """Return the scores of all points, or of those before the strategy failed."""
        points: list[PointScores] = []
        setup, place = self.template.initial_setup, "beginning"
        try:
            strategy = self.plan.strategies[self.job.strategy](self.inputs)
            strategy.initialize(setup.original_goal, setup.hard_constraints)
            for point in self.template.points:
                place = f"point {point.number}, compress"
                points.append(self._score(strategy, point))
        except Exception as error:  # noqa: BLE001 (any strategy's, any provider's)
            self._add_error(place, error)
        if self.calls.missing and not self.errors:
            self.errors.append(f"{self.calls.missing} calls have no recorded answer")
        return TrialResult(
            **self.job.model_dump(),
            setup=self.plan.setup,
            turns=len(self.template.turns),
            digest=self.template.digest,
            points=tuple(points),
            errors=tuple(self.errors),
        )

    def _score(self, strategy: Strategy, point: Point) -> PointScores:
        """Give the strategy the new turns, let it compress, and score its context."""
        new = after(point.turns, strategy.last_turn)
        before = (*strategy.context.messages, *as_messages(new))
        for turn in new:
            if change := turn.goal_change:
                strategy.update_goal(change.goal, change.rationale, turn.turn_id)
        first_answer, start = len(self.calls.answers), time.perf_counter()
        context = strategy.compress(point.turns)
        seconds = time.perf_counter() - start
        # Before the judge asks: its questions are answered by the same model.
        usage = self.calls.usage(first_answer, self.plan.setup.prices)
        return PointScores(
            point=point.number,
            turn_id=point.turn_id,
            seconds=seconds,
            calls=context.calls,
            chosen=context.chosen,
            **usage,
            **scores(point, context, self.plan.embedder),
            **self._judged(point, before, context.messages),
        )

    def _judged(
        self, point: Point, before: Sequence[AnyMessage], compressed: Sequence[AnyMessage]
    ) -> dict[str, Any]:
        """Return the judge's scores of the contexts before and after compressing."""
        judge, tasks, answer = self.plan.judge, self.template.probing_tasks, self._answer
        if judge is None:
            return {}
        goal, rules, tests = point.goal, point.constraints, point.temptations
        scorers: dict[str, Callable[[], Any]] = {}
        if goal_probe := tasks.goal(point.number):
            scorers["goal_before"] = lambda: judge.goal(goal, answer(before, goal_probe))
            scorers["goal_coherence"] = lambda: judge.goal(goal, answer(compressed, goal_probe))
        if rules and (probe := tasks.constraint_probe):
            sentences = (goal, *(point.salient() or ()))
            scorers["constraints"] = lambda: judge.constraints(
                rules, sentences, answer(compressed, probe)
            )
        if tests:
            scorers["behavioural_alignment"] = lambda: fmean(
                judge.behaviour(test, answer(compressed, test.prompt)) for test in tests
            )
        judged: dict[str, Any] = {}
        for name, scorer in scorers.items():
            try:
                judged[name] = scorer()
            except Exception as error:  # noqa: BLE001 (any provider's, or a verdict without a score)
                self._add_error(f"point {point.number}, {name}", error)
        found: Known | None = judged.pop("constraints", None)
        if found is not None:
            judged |= {"constraint_recall": found.share}
            judged |= {"unknown": found.unknown, "invented": found.invented}
        earlier, later = judged.get("goal_before"), judged.get("goal_coherence")
        drift = None if earlier is None or later is None else earlier - later
        return judged | {"drift": drift}

    def _answer(self, context: Sequence[AnyMessage], question: str) -> str:
        """Ask the model about a context, as quoted text: no provider takes it as messages."""
        quoted = FENCES.around("context", as_text(context))
        probe = HumanMessage(render("evaluation/probe", context=quoted, question=question))
        system_prompt = self.template.initial_setup.system_prompt
        messages: list[BaseMessage] = [SystemMessage(system_prompt)] if system_prompt else []
        return str(self.model.invoke([*messages, probe]).text)

    def _add_error(self, place: str, error: Exception) -> None:
        message = one_line(self.plan.discreet(str(error).encode(errors="replace").decode()))
        self.errors.append(f"{place}: {f'{type(error).__name__}: {message}'[:_LONGEST_ERROR]}")


def by_meaning(embedder: Embedder, quotes: Sequence[str], truth: Sequence[str]) -> Table:
    """Return the similarity of texts by meaning: cosines of their embeddings."""
    columns = embedder.documents(truth)
    return [[likeness(row, column) for column in columns] for row in embedder.documents(quotes)]


def scores(point: Point, context: Context, embedder: Embedder | None) -> dict[str, Any]:
    """Return the scores at a point by name; those of quotes only if the strategy chooses quotes.

    `fabricated` counts quotes that stand in no turn, kept ones and those that were dropped. A
    score without truth in the template is None, or missing.
    """
    tokens_before = count_messages(as_messages(point.turns))
    tokens_after = count_messages(context.messages)
    text, rules = one_line(as_text(context.messages)), point.constraints
    measured: dict[str, Any] = {
        "tokens_before": tokens_before,
        "tokens_after": tokens_after,
        "compression_ratio": tokens_after / tokens_before,
        "constraints_in_context": fmean(rule in text for rule in rules) if rules else None,
        "fallbacks": context.fallbacks,
    }
    if (quotes := context.quotes) is None:
        return measured
    verbatim = sum(stands_in(quote, point.turns) for quote in quotes)
    measured["quotes"] = quotes
    measured["verbatim_rate"] = verbatim / len(quotes) if quotes else None
    dropped = sum(one.verdict == "fabricated" for one in context.chosen)
    measured["fabricated"] = len(quotes) - verbatim + dropped
    truth = point.salient(context.through)
    if truth is not None:
        similarity = partial(by_meaning, embedder) if embedder else lexical
        salience = agreement(point.template.as_salient(quotes), truth, similarity, point.given)
        measured |= {f"salience_{name}": value for name, value in salience._asdict().items()}
    return measured


class Agreement(NamedTuple):
    """Precision of quotes, recall of true sentences, and F1; None where undefined."""

    precision: float | None
    recall: float | None
    f1: float | None


def matches(
    quotes: Sequence[str],
    truth: Sequence[str],
    similarity: Similarity = lexical,
    *,
    threshold: float = THRESHOLD,
) -> tuple[tuple[int, int], ...]:
    """Pair quotes with true sentences, one to one; return pairs of positions.

    Equal texts are paired first; then, the most alike first, others whose similarity is `threshold`
    or more, or of which one contains the other and is at most twice as long.

    >>> matches(["So what?", "It rains."], ["It rains."])
    ((1, 0),)
    """
    unpaired = {place: one_line(sentence) for place, sentence in enumerate(truth)}
    inexact: dict[int, str] = {}
    pairs = []
    for at, quote in enumerate(map(one_line, quotes)):
        place = next((place for place, sentence in unpaired.items() if sentence == quote), None)
        if place is None:
            inexact[at] = quote
        else:
            pairs.append((at, place))
            del unpaired[place]
    return tuple(sorted([*pairs, *_alike(inexact, unpaired, similarity, threshold)]))


def agreement(
    quotes: Sequence[str],
    truth: Sequence[str],
    similarity: Similarity = lexical,
    free: Sequence[str] = (),
    *,
    threshold: float = THRESHOLD,
) -> Agreement:
    """Return precision, recall and F1 of quotes against the truth.

    Quotes of `free` sentences count neither as right nor as wrong.

    >>> agreement(["It rains.", "So what?"], ["It rains."])
    Agreement(precision=0.5, recall=1.0, f1=0.6666666666666666)
    """
    right = {at for at, _ in matches(quotes, truth, similarity, threshold=threshold)}
    unmatched = [quote for at, quote in enumerate(quotes) if at not in right]
    hits = len(right)
    counted = len(quotes) - len(matches(unmatched, free, similarity, threshold=threshold))
    precision = hits / counted if counted else None
    recall = hits / len(truth) if truth else None
    if precision is None or recall is None:
        return Agreement(precision, recall, None)
    total = precision + recall
    return Agreement(precision, recall, 2 * precision * recall / total if total else 0.0)


def _alike(
    quotes: Mapping[int, str], truth: Mapping[int, str], similarity: Similarity, threshold: float
) -> Iterator[tuple[int, int]]:
    """Yield pairs of a quote and a sentence that match, the most alike first, each once."""
    if not (quotes and truth):
        return
    similarities = {}
    table = similarity([*quotes.values()], [*truth.values()])
    for (at, quote), row in zip(quotes.items(), table, strict=True):
        for (place, sentence), value in zip(truth.items(), row, strict=True):
            short, long = sorted((quote, sentence), key=len)
            if value >= threshold or (short in long and 2 * len(short) >= len(long)):
                similarities[at, place] = value
    paired: tuple[set[int], set[int]] = set(), set()
    for at, place in sorted(similarities, key=lambda pair: -similarities[pair]):
        if at not in paired[0] and place not in paired[1]:
            paired[0].add(at)
            paired[1].add(place)
            yield at, place
