"""The harness: the trials of a plan, some at a time, and what a context is worth at a point."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeAlias

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    message_to_dict,
)
from rapidfuzz import fuzz

from ..memory.efforts import one_line
from ..memory.embeddings import Embedder
from ..memory.messages import fenced
from ..memory.settings import Settings
from ..memory.tokens import count_messages
from ..prompts.loader import render
from .judge import Judge
from .results import (
    AnswerTape,
    Job,
    PointScores,
    ResultsError,
    Setup,
    Store,
    TapeError,
    Tapes,
    TrialResult,
    append,
)
from .strategy_protocol import Context, Strategy, StrategyInputs, after, as_messages, transcript
from .template import Point, Template

_LONGEST = 300
"""Characters of an error that the results keep."""

THRESHOLD = 0.85
"""The likeness from which on a quote that is not the same may stand for a sentence."""

Table: TypeAlias = list[list[float]]
Alike: TypeAlias = Callable[[Sequence[str], Sequence[str]], Table]
"""Gives the likeness, 0 to 1, of each text of one side with each of the other."""

_log = logging.getLogger("ebbtide.evaluation")


@dataclass(frozen=True, slots=True)
class Plan:
    """Each strategy on each template, `trials` times; answers are from `tapes`, or recorded."""

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
                why = f"template {trial.template!r} has changed since its trials"
                raise ResultsError(f"{why}: choose another folder")
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

        The line is empty if a call failed for good: played again, the answers would not fit.
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
        setup, place = self.template.initial_setup, "beginning"
        try:
            strategy = self.plan.strategies[self.job.strategy](self.inputs)
            strategy.initialize(setup.original_goal, setup.hard_constraints)
            for point in self.template.points:
                place = f"point {point.number}, compress"
                points.append(self._scored(strategy, point))
        except Exception as error:  # noqa: BLE001 (any strategy's, any provider's)
            self._failed(place, error)
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

    def _scored(self, strategy: Strategy, point: Point) -> PointScores:
        """Let the strategy compress with the new turns, and measure what it makes of them."""
        new = after(point.turns, strategy.seen)
        before = (*strategy.context.messages, *as_messages(new))
        for turn in new:
            if change := turn.goal_change:
                strategy.update_goal(change.goal, change.rationale, turn.turn_id)
        answered, began = len(self.tape.answers), time.perf_counter()
        context = strategy.compress(point.turns)
        seconds = time.perf_counter() - began
        spent = self.tape.spent(answered, self.plan.setup.prices)  # before the judge's questions
        return PointScores(
            point=point.number,
            turn_id=point.turn_id,
            seconds=seconds,
            calls=context.calls,
            **spent,
            **scores(point, context, self.plan.embedder),
            **self._judged(point, before, context.messages),
        )

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
        judged: dict[str, float | None] = {}
        for name, ask in asks.items():
            try:
                judged[name] = ask()
            except Exception as error:  # noqa: BLE001 (any provider's, or what is no score)
                self._failed(f"point {point.number}, {name}", error)
        earlier, later = judged.get("goal_before"), judged.get("goal_coherence")
        drift = None if earlier is None or later is None else earlier - later
        return judged | {"drift": drift}

    def _answer(self, context: Sequence[AnyMessage], question: str) -> str:
        """Ask the model with nothing but a context, quoted: no provider takes it as messages."""
        quoted = fenced("context", transcript(context))
        asked = HumanMessage(render("evaluation/probe", context=quoted, question=question))
        system_prompt = self.template.initial_setup.system_prompt
        messages: list[BaseMessage] = [SystemMessage(system_prompt)] if system_prompt else []
        return str(self.model.invoke([*messages, asked]).text)

    def _failed(self, place: str, error: Exception) -> None:
        message = one_line(str(error).encode(errors="replace").decode())
        self.errors.append(f"{place}: {f'{type(error).__name__}: {message}'[:_LONGEST]}")


def lexical(ours: Sequence[str], truth: Sequence[str]) -> Table:
    """Return how alike texts are by their letters (rapidfuzz's ratio)."""
    return [[fuzz.ratio(quote, sentence) / 100 for sentence in truth] for quote in ours]


def by_meaning(embedder: Embedder, ours: Sequence[str], truth: Sequence[str]) -> Table:
    """Return how alike texts are by what they mean to an embedding model."""
    products = embedder.documents(ours) @ embedder.documents(truth).T
    table: Table = products.clip(0, 1).tolist()
    return table


def scores(point: Point, context: Context, embedder: Embedder | None) -> dict[str, Any]:
    """Return the scores at a point by their names, those of quotes if the strategy chooses some.

    `fabricated` are quotes that stand in no turn, and those that the strategy dropped itself. What
    the template knows no truth for is None, or not there.
    """
    said, kept = size(as_messages(point.turns)), size(context.messages)
    text, rules = one_line(transcript(context.messages)), point.constraints
    measured: dict[str, Any] = {
        "tokens_before": said,
        "tokens_after": kept,
        "compression_ratio": kept / said,
        "constraints_in_context": fmean(rule in text for rule in rules) if rules else None,
        "fallbacks": context.fallbacks,
    }
    if (quotes := context.quotes) is None:
        return measured
    verbatim = sum(map(point.says, quotes))
    measured["quotes"] = len(quotes)
    measured["verbatim_rate"] = verbatim / len(quotes) if quotes else None
    measured["fabricated"] = len(quotes) - verbatim + (context.fabricated or 0)
    true = point.salient(context.through)
    if true is not None:
        alike = partial(by_meaning, embedder) if embedder else lexical
        salience = agreement(point.template.as_salient(quotes), true, alike, point.given)
        measured |= {f"salience_{name}": value for name, value in salience._asdict().items()}
    return measured


def size(messages: Sequence[AnyMessage]) -> int:
    """Return the tokens of messages, as OpenAI bills them."""
    return count_messages([message_to_dict(message) for message in messages])


class Agreement(NamedTuple):
    """How many of the quotes are right, how many of the sentences are found; None if undefined."""

    precision: float | None
    recall: float | None
    f1: float | None


def matches(
    quotes: Sequence[str], truth: Sequence[str], alike: Alike = lexical
) -> tuple[tuple[int, int], ...]:
    """Return the pairs (quote, sentence), by position; no quote and no sentence has two.

    Pairs of the same words come first; of the others as many as possible are paired that are alike
    by `THRESHOLD` at least, or of which one is half of the other or more, word for word; the
    likest quotes come first.
    """
    unpaired = {at: one_line(sentence) for at, sentence in enumerate(truth)}
    others: dict[int, str] = {}
    same = []
    for at, quote in enumerate(map(one_line, quotes)):
        place = next((place for place, sentence in unpaired.items() if sentence == quote), None)
        if place is None:
            others[at] = quote
        else:
            same.append((at, place))
            del unpaired[place]
    owners = assigned(_choices(others, unpaired, alike))
    return tuple(sorted([*same, *((at, place) for place, at in owners.items())]))


def agreement(
    quotes: Sequence[str],
    truth: Sequence[str],
    alike: Alike = lexical,
    free: Sequence[str] = (),
) -> Agreement:
    """Return precision, recall and F1 of quotes against the truth.

    Quotes of sentences that are `free` are left out: they are neither right nor wrong.

    >>> agreement(["It rains.", "So what?"], ["It rains."])
    Agreement(precision=0.5, recall=1.0, f1=0.6666666666666666)
    """
    right = {at for at, _ in matches(quotes, truth, alike)}
    others = [quote for at, quote in enumerate(quotes) if at not in right]
    hits, counted = len(right), len(quotes) - len(matches(others, free, alike))
    precision = hits / counted if counted else None
    recall = hits / len(truth) if truth else None
    if precision is None or recall is None:
        return Agreement(precision, recall, None)
    both = precision + recall
    return Agreement(precision, recall, 2 * precision * recall / both if both else 0.0)


def _choices(
    quotes: Mapping[int, str], truth: Mapping[int, str], alike: Alike
) -> dict[int, list[int]]:
    """Return for each quote the sentences it may stand for, by position, the likest first."""
    if not (quotes and truth):
        return {}
    likeness = {}
    table = alike([*quotes.values()], [*truth.values()])
    for (at, quote), row in zip(quotes.items(), table, strict=True):
        for (place, sentence), value in zip(truth.items(), row, strict=True):
            short, long = sorted((quote, sentence), key=len)
            if value >= THRESHOLD or (short in long and 2 * len(short) >= len(long)):
                likeness[at, place] = value
    choices: dict[int, list[int]] = {}
    for at, place in sorted(likeness, key=lambda pair: -likeness[pair]):
        choices.setdefault(at, []).append(place)
    return choices


def assigned(choices: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Return for each sentence the quote that it goes to: as many quotes have one as can.

    `choices` has for each quote the sentences that it may have, the best ones first. The method is
    that of augmenting paths (H. W. Kuhn, "The Hungarian method for the assignment problem", 1955).

    >>> assigned({0: [0, 1], 1: [0]})
    {0: 1, 1: 0}
    """
    owners: dict[int, int] = {}

    def placed(quote: int, tried: set[int]) -> bool:
        for sentence in choices[quote]:
            if sentence not in tried:
                tried.add(sentence)
                if sentence not in owners or placed(owners[sentence], tried):
                    owners[sentence] = quote
                    return True
        return False

    for quote in choices:
        placed(quote, set())
    return owners
