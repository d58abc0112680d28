"""The results summed up over trials, as tables, as JSON and as plots."""

import json
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import groupby
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from .results import REPLAYED, Setup, TrialResult, write_whole
from .strategies import STRATEGIES

LONG_TURNS = 40
"""A template with so many turns is a long one."""

_SIGNS = {">": operator.gt, "<": operator.lt, "=": operator.eq}
"""How a target is written, as the specification's targets are."""

_ABSENT = "–"
"""Stands for a figure that there is none of: a zero would be one."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a metric should be with a current model; `long` says: on long templates only."""

    sign: str
    value: float
    long: bool = False

    def met(self, value: float) -> bool:
        """Tell whether a value meets it.

        >>> Target(">", 0.75).met(0.75)
        False
        """
        return bool(_SIGNS[self.sign](value, self.value))

    def __str__(self) -> str:
        """Say it, such as "> 0.75"."""
        return f"{self.sign} {self.value:.2f}"


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
        values = [getattr(point, self.name) for point in trial.points]
        known = [value for value in values if value is not None]
        if not known:
            return None
        return float(sum(known)) if self.summed else fmean(known)

    def aim(self, turns: int) -> Target | None:
        """Return the target if it is one for a template of so many turns."""
        return None if self.target and self.target.long and turns < LONG_TURNS else self.target


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


@dataclass(frozen=True, slots=True)
class Spread:
    """The mean of a metric over trials, its standard deviation if there are two, its bounds."""

    mean: float
    deviation: float | None
    least: float
    most: float
    trials: int


@dataclass(frozen=True, slots=True)
class Row:
    """A strategy on a template; a metric that no trial has is not there.

    `targets` says of each target that applies whether the mean meets it.
    """

    template: str
    strategy: str
    turns: int
    trials: int
    errors: int
    metrics: dict[str, Spread]
    targets: dict[str, bool]

    def value(self, metric: Metric) -> str:
        """Return a metric's mean with its deviation, a dash for none."""
        spread = self.metrics.get(metric.name)
        if spread is None:
            return _ABSENT
        mean = f"{spread.mean:,.{metric.digits}f}"
        more = spread.deviation
        return mean if more is None else f"{mean} ± {more:,.{metric.digits}f}"


def rows(trials: Iterable[TrialResult]) -> tuple[Row, ...]:
    """Return a row for each template and strategy, sorted by them."""
    groups = groupby(sorted(trials, key=_place), key=lambda trial: _place(trial)[:2])
    return tuple(_row([*group]) for _, group in groups)


def _place(trial: TrialResult) -> tuple[str, str, int]:
    return trial.template, trial.strategy, trial.trial


def _row(trials: Sequence[TrialResult]) -> Row:
    first, metrics, targets = trials[0], dict[str, Spread](), dict[str, bool]()
    for metric in (*SCORES, *COSTS):
        values = [value for trial in trials if (value := metric.of(trial)) is not None]
        if not values:
            continue
        mean, deviation = fmean(values), stdev(values) if len(values) > 1 else None
        metrics[metric.name] = Spread(mean, deviation, min(values), max(values), len(values))
        if target := metric.aim(first.turns):
            targets[metric.name] = target.met(mean)
    errors = sum(len(trial.errors) for trial in trials)
    named = first.template, first.strategy, first.turns
    return Row(*named, len(trials), errors, metrics, targets)


def present(metrics: Sequence[Metric], rows: Sequence[Row]) -> list[Metric]:
    """Return the metrics that a row has."""
    return [metric for metric in metrics if any(metric.name in row.metrics for row in rows)]


def page(setup: Setup, rows: Sequence[Row], trials: Sequence[TrialResult]) -> str:
    """Return the page that is written beside the results: means, and deviations over trials."""
    notes = {name: STRATEGIES[name].note for name in _strategies(rows) if name in STRATEGIES}
    aimed = [metric for metric in SCORES if metric.target]
    errors = [f"- {trial.name}: {error}" for trial in trials for error in trial.errors]
    parts = [
        f"# Evaluation{f' ({REPLAYED})' if setup.note else ''}",
        _described(setup),
        "\n".join(f"- {name} {note}" for name, note in notes.items() if note),
        "## Scores",
        _valued(rows, SCORES),
        "## Targets",
        _table(map(_aim, aimed), rows, lambda row: [_verdict(row, metric) for metric in aimed]),
        "## Cost",
        _valued(rows, COSTS),
        "## Errors" if errors else "",
        "\n".join(errors),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _described(setup: Setup) -> str:
    judge = setup.judge or "none, so what a judge scores is absent"
    lines = [
        f"Ebbtide {setup.version}. Model: {setup.model}. Judge: {judge}.",
        f"Quotes are compared with the truth by {setup.likeness}, one to one.",
        "Values are means over trials ± their standard deviation; a dash is a score that there is",
        "no ground truth for. Tokens are those of what stands for the conversation, without an",
        "agent's instructions and tool schemas.",
    ]
    if setup.note:
        lines.append("The answers were recorded before: nothing on this page was measured.")
    return "\n".join(lines)


def _valued(rows: Sequence[Row], metrics: Sequence[Metric]) -> str:
    shown = present(metrics, rows)
    titles = ["trials", *(metric.title for metric in shown)]
    return _table(titles, rows, lambda row: [str(row.trials), *map(row.value, shown)])


def _aim(metric: Metric) -> str:
    target = metric.target
    return f"{metric.title} {target}{' (long templates)' if target and target.long else ''}"


def _verdict(row: Row, metric: Metric) -> str:
    """Return whether a row meets a target, with the value if it misses it."""
    if metric.name not in row.targets:
        return _ABSENT
    met = row.targets[metric.name]
    return "met" if met else f"missed ({row.metrics[metric.name].mean:.2f})"


def _table(
    titles: Iterable[str], rows: Sequence[Row], cells: Callable[[Row], Sequence[str]]
) -> str:
    """Return a table in Markdown, with the cells of each row behind its names."""
    head = ["template", "strategy", *titles]
    named = [[row.template, row.strategy, *cells(row)] for row in rows]
    lines = [
        " | ".join(" ".join(cell.replace("|", "/").split()) for cell in line)
        for line in (head, ["---"] * len(head), *named)
    ]
    return "\n".join(f"| {line} |" for line in lines)


def _strategies(rows: Sequence[Row]) -> list[str]:
    return sorted({row.strategy for row in rows})


_INCHES = (4.5, 2.6)
"""Width and height of a panel."""

_PANELS = 3
"""Panels in a row."""

_WIDTH = 0.8
"""What the bars of a template have of its place; the rest parts them from the next ones."""


def _plot(path: Path, setup: Setup, rows: Sequence[Row]) -> bool:
    """Draw the scores that there are; return False, and draw nothing, without matplotlib."""
    shown = present([metric for metric in SCORES if not metric.summed], rows)
    try:
        charts = import_module("matplotlib.figure")  # slow to load
    except ImportError:
        return False
    if not shown:
        return False
    lines = -(-len(shown) // _PANELS)
    size = (_PANELS * _INCHES[0], lines * _INCHES[1] + 1)
    figure = charts.Figure(figsize=size, layout="constrained")
    figure.suptitle(f"{setup.model}{f': {REPLAYED}' if setup.note else ''}")
    for place, metric in enumerate(shown, start=1):
        bars = _panel(figure.add_subplot(lines, _PANELS, place), metric, rows)
    figure.legend(bars, _strategies(rows), loc="outside lower center", ncols=4, fontsize="small")
    figure.savefig(path, metadata={"Title": figure.get_suptitle()})
    return True


def _panel(axes: Any, metric: Metric, rows: Sequence[Row]) -> list[Any]:
    """Draw one metric: templates side by side, in each a bar for every strategy; return these."""
    templates, strategies = sorted({row.template for row in rows}), _strategies(rows)
    width, bars = _WIDTH / len(strategies), []
    for at, strategy in enumerate(strategies):
        own = [row for row in rows if row.strategy == strategy and metric.name in row.metrics]
        places = [templates.index(row.template) + (at + 0.5) * width for row in own]
        means = [row.metrics[metric.name].mean for row in own]
        deviations = [row.metrics[metric.name].deviation or 0.0 for row in own]
        bars.append(axes.bar(places, means, width, yerr=deviations, color=f"C{at}"))
    if metric.target:
        axes.axhline(metric.target.value, linestyle=":", color="grey")
    axes.set_xticks([at + _WIDTH / 2 for at in range(len(templates))], templates, rotation=15)
    axes.tick_params(axis="x", labelsize="x-small")
    axes.set_title(metric.title, fontsize="medium")
    axes.set_ylim(min(0.0, axes.get_ylim()[0]), max(1.05, axes.get_ylim()[1]))
    return bars


JSON, TABLE, PICTURE = "results.json", "results.md", "results.png"


def write(folder: Path, setup: Setup, trials: Iterable[TrialResult]) -> tuple[str, ...]:
    """Write the files of the results anew; return their names, without matplotlib no picture."""
    ordered = sorted(trials, key=_place)
    summed = rows(ordered)
    results = {
        "note": setup.note,
        "setup": setup.model_dump(),
        "rows": [asdict(row) for row in summed],
        "trials": [trial.model_dump() for trial in ordered],
    }
    write_whole(folder / JSON, json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    write_whole(folder / TABLE, page(setup, summed, ordered))
    drawn = _plot(folder / PICTURE, setup, summed)
    return (JSON, TABLE, PICTURE) if drawn else (JSON, TABLE)
