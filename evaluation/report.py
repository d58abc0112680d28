"""The results summed up over trials, as tables, as JSON and as plots."""

import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict

from .results import REPLAYED, PointScores, Setup, TrialResult
from .strategies import NOTES

LONG_TURNS = 40
"""A template with so many turns is a long one."""

Compare: TypeAlias = Callable[[float, float], bool]
SIGNS: Mapping[str, Compare] = {">": operator.gt, "<": operator.lt, "=": operator.eq}


@dataclass(frozen=True, slots=True)
class Target:
    """What a metric should be with a current model; `long` says: on long templates only."""

    sign: str
    value: float
    long: bool = False

    def met(self, found: float) -> bool:
        """Tell whether a value meets it.

        >>> Target(">", 0.75).met(0.75)
        False
        """
        return SIGNS[self.sign](found, self.value)

    def __str__(self) -> str:
        """Say it, such as "> 0.75"."""
        return f"{self.sign} {self.value:.2f}{' (long templates)' if self.long else ''}"


@dataclass(frozen=True, slots=True)
class Metric:
    """A score of `PointScores`, its title, its digits, whether points add up, its target."""

    name: str
    title: str
    digits: int = 2
    summed: bool = False
    target: Target | None = None

    def of(self, trial: TrialResult) -> float | None:
        """Return the value of a trial: the mean or the sum over the points that have one."""
        values = [value for point in trial.points if (value := self._at(point)) is not None]
        if not values:
            return None
        return float(sum(values)) if self.summed else fmean(values)

    def applies(self, turns: int) -> bool:
        """Tell whether the target is one for a template of so many turns."""
        return self.target is not None and (not self.target.long or turns >= LONG_TURNS)

    def _at(self, point: PointScores) -> float | None:
        value: float | None = getattr(point, self.name)
        return value


SCORES = (
    Metric("salience_precision", "salience precision", target=Target(">", 0.75)),
    Metric("salience_recall", "salience recall", target=Target(">", 0.75)),
    Metric("salience_f1", "salience F1"),
    Metric("goal_coherence", "goal coherence", target=Target(">", 0.90)),
    Metric("drift", "drift"),
    Metric("constraint_recall", "constraint recall", target=Target(">", 0.95)),
    Metric("constraints_in_context", "constraints in the context"),
    Metric("behavioural_alignment", "behavioural alignment"),
    Metric("verbatim_rate", "verbatim rate", target=Target("=", 1.0)),
    Metric("fabricated", "fabricated quotes", digits=1, summed=True),
    Metric("fallbacks", "fallbacks to rules", digits=1, summed=True),
    Metric("compression_ratio", "compression ratio", target=Target("<", 0.5, long=True)),
)
"""What says how well the goal is kept, and how much shorter the context is."""

COSTS = (
    Metric("tokens_before", "tokens before", digits=0),
    Metric("tokens_after", "tokens after", digits=0),
    Metric("seconds", "seconds per compression", digits=3),
    Metric("extraction_seconds", "seconds per extraction", digits=3),
    Metric("background_seconds", "seconds per background", digits=3),
    Metric("model_read", "tokens read by the model", digits=0, summed=True),
    Metric("model_written", "tokens written", digits=0, summed=True),
    Metric("cost", "cost in dollars", digits=4, summed=True),
)
"""What it costs."""


class Spread(BaseModel):
    """The mean of a metric over trials, its standard deviation if there are two, its bounds."""

    model_config = ConfigDict(frozen=True)

    mean: float
    deviation: float | None
    least: float
    most: float
    trials: int


class Row(BaseModel):
    """A strategy on a template; a metric that no trial has is not there.

    `targets` says of each target that applies whether the mean meets it.
    """

    model_config = ConfigDict(frozen=True)

    template: str
    strategy: str
    turns: int
    trials: int
    errors: int
    metrics: dict[str, Spread]
    targets: dict[str, bool]


def rows(trials: Iterable[TrialResult]) -> tuple[Row, ...]:
    """Return a row for each template and strategy, sorted by them."""
    groups: dict[tuple[str, str], list[TrialResult]] = {}
    for trial in trials:
        groups.setdefault((trial.template, trial.strategy), []).append(trial)
    return tuple(_row(group) for _, group in sorted(groups.items()))


def spread(values: Sequence[float]) -> Spread:
    """Return how values are spread; there is one at least.

    >>> spread([1.0, 3.0]).mean
    2.0
    """
    deviation = stdev(values) if len(values) > 1 else None
    return Spread(
        mean=fmean(values),
        deviation=deviation,
        least=min(values),
        most=max(values),
        trials=len(values),
    )


def _row(trials: Sequence[TrialResult]) -> Row:
    found = {
        metric.name: spread(values)
        for metric in (*SCORES, *COSTS)
        if (values := [value for one in trials if (value := metric.of(one)) is not None])
    }
    turns = trials[0].turns
    targets = {
        metric.name: metric.target.met(found[metric.name].mean)
        for metric in SCORES
        if metric.target and metric.applies(turns) and metric.name in found
    }
    return Row(
        template=trials[0].template,
        strategy=trials[0].strategy,
        turns=turns,
        trials=len(trials),
        errors=sum(len(trial.errors) for trial in trials),
        metrics=found,
        targets=targets,
    )


_ABSENT = "–"
_FIRST = ("template", "strategy")


def page(setup: Setup, rows: Sequence[Row], trials: Sequence[TrialResult]) -> str:
    """Return the page that is written beside the results."""
    parts = [
        _title(setup),
        _described(setup),
        *_notes(rows),
        "## Scores",
        table(rows, SCORES),
        "## Targets",
        _targets(rows),
        "## Cost",
        table(rows, COSTS),
        *_errors(trials),
    ]
    return "\n\n".join(parts) + "\n"


def table(rows: Sequence[Row], metrics: Sequence[Metric]) -> str:
    """Return a row for each strategy on a template: means, and the deviation over trials."""
    shown = [one for one in metrics if any(one.name in row.metrics for row in rows)]
    head = [*_FIRST, "trials", *(one.title for one in shown)]
    lines = ([*_named(row), str(row.trials), *_values(row, shown)] for row in rows)
    return _table(head, lines)


def _targets(rows: Sequence[Row]) -> str:
    """Return for each row which targets it meets, with the value where it misses."""
    aimed = [one for one in SCORES if one.target]
    head = [*_FIRST, *(f"{one.title} {one.target}" for one in aimed)]
    return _table(head, ([*_named(row), *(_verdict(row, one) for one in aimed)] for row in rows))


def value_text(found: Spread | None, digits: int) -> str:
    """Return a value with its deviation, a dash for none.

    >>> value_text(Spread(mean=0.5, deviation=0.1, least=0.4, most=0.6, trials=3), 2)
    '0.50 ± 0.10'
    """
    if found is None:
        return _ABSENT
    mean = f"{found.mean:,.{digits}f}"
    return mean if found.deviation is None else f"{mean} ± {found.deviation:,.{digits}f}"


def _title(setup: Setup) -> str:
    return f"# Evaluation{f' ({REPLAYED})' if setup.note else ''}"


def _described(setup: Setup) -> str:
    judge = setup.judge or "none, so what a judge scores is absent"
    said = [
        f"Ebbtide {setup.version}. Model: {setup.model}. Judge: {judge}.",
        f"Quotes are compared with the truth by {setup.likeness}, one to one.",
        "Values are means over trials ± their standard deviation; a dash is a score that there is",
        "no ground truth for. Tokens are those of what stands for the conversation, without an",
        "agent's instructions and tool schemas.",
    ]
    if setup.note:
        said.append("The answers were recorded before: nothing on this page was measured.")
    return "\n".join(said)


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what one has to know of the strategies that are shown."""
    said = [f"- {one} {NOTES[one]}" for one in _by_strategy(rows) if one in NOTES]
    if said:
        yield "\n".join(said)


def _errors(trials: Sequence[TrialResult]) -> Iterator[str]:
    said = [f"- {one.job.name}: {error}" for one in trials for error in one.errors]
    if said:
        yield "## Errors"
        yield "\n".join(said)


def _named(row: Row) -> tuple[str, str]:
    return row.template, row.strategy


def _values(row: Row, metrics: Sequence[Metric]) -> list[str]:
    return [value_text(row.metrics.get(one.name), one.digits) for one in metrics]


def _verdict(row: Row, metric: Metric) -> str:
    if metric.name not in row.targets:
        return _ABSENT
    met = row.targets[metric.name]
    return "met" if met else f"missed ({row.metrics[metric.name].mean:.2f})"


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "\n".join(map(_line, [head, ["---"] * len(head), *lines]))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(' '.join(cell.replace('|', '/').split()) for cell in cells)} |"


_INCHES = (4.5, 2.6)
"""Width and height of a panel."""

_PANELS = 3
"""Panels in a row."""

_WIDTH = 0.8
"""What the bars of a template have of its place; the rest parts them from the next ones."""


def _plot(path: Path, setup: Setup, rows: Sequence[Row]) -> bool:
    """Draw the scores that there are; return False, and draw nothing, without matplotlib."""
    shown = [one for one in SCORES if not one.summed and any(one.name in r.metrics for r in rows)]
    charts = _charts()
    if charts is None or not shown:
        return False
    lines = -(-len(shown) // _PANELS)
    size = (_PANELS * _INCHES[0], lines * _INCHES[1] + 1)
    figure = charts.Figure(figsize=size, layout="constrained")
    figure.suptitle(f"{setup.model}{f': {REPLAYED}' if setup.note else ''}")
    for place, metric in enumerate(shown, start=1):
        bars = _panel(figure.add_subplot(lines, _PANELS, place), metric, rows)
    figure.legend(bars, _by_strategy(rows), loc="outside lower center", ncols=4, fontsize="small")
    figure.savefig(path, metadata={"Title": figure.get_suptitle()})
    return True


def _charts() -> Any:
    """Return the part of matplotlib that draws, None without it; it is slow to load."""
    try:
        return import_module("matplotlib.figure")
    except ImportError:
        return None


def _by_strategy(rows: Sequence[Row]) -> list[str]:
    return sorted({row.strategy for row in rows})


def _panel(axes: Any, metric: Metric, rows: Sequence[Row]) -> list[Any]:
    """Draw one metric: templates side by side, in each a bar for every strategy; return these."""
    templates, strategies = sorted({row.template for row in rows}), _by_strategy(rows)
    width, drawn = _WIDTH / len(strategies), []
    for at, strategy in enumerate(strategies):
        mine = [row for row in rows if row.strategy == strategy and metric.name in row.metrics]
        found = [row.metrics[metric.name] for row in mine]
        places = [templates.index(row.template) + (at + 0.5) * width for row in mine]
        errors = [one.deviation or 0.0 for one in found]
        means = [one.mean for one in found]
        drawn.append(axes.bar(places, means, width, yerr=errors, color=f"C{at}"))
    if metric.target:
        axes.axhline(metric.target.value, linestyle=":", color="grey")
    axes.set_xticks([at + _WIDTH / 2 for at in range(len(templates))], templates, rotation=15)
    axes.tick_params(axis="x", labelsize="x-small")
    axes.set_title(metric.title, fontsize="medium")
    axes.set_ylim(min(0.0, axes.get_ylim()[0]), max(1.05, axes.get_ylim()[1]))
    return drawn


JSON, TABLE, PICTURE = "results.json", "results.md", "results.png"


@dataclass(frozen=True, slots=True)
class Report:
    """What was written, whether there is a picture, and the rows of the table."""

    files: tuple[Path, ...]
    drawn: bool
    rows: tuple[Row, ...]


def write(folder: Path, setup: Setup, trials: Sequence[TrialResult]) -> Report:
    """Write `results.json`, `results.md` and, with matplotlib, `results.png`, anew each time."""
    ordered = sorted(trials, key=lambda one: (one.template, one.strategy, one.trial))
    found = rows(ordered)
    made = {
        "note": setup.note,
        "setup": setup.model_dump(),
        "rows": [row.model_dump() for row in found],
        "trials": [one.model_dump() for one in ordered],
    }
    _replace(folder / JSON, json.dumps(made, indent=1, ensure_ascii=False) + "\n")
    _replace(folder / TABLE, page(setup, found, ordered))
    drawn = _plot(folder / PICTURE, setup, found)
    names = (JSON, TABLE, *((PICTURE,) if drawn else ()))
    return Report(tuple(folder / name for name in names), drawn, found)


def _replace(path: Path, text: str) -> None:
    draft = path.with_suffix(f"{path.suffix}.new")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
