"""Summaries of results over trials: tables, JSON and plots."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from .results import REPLAYED, Setup, TrialResult
from .strategies import STRATEGIES

_ABSENT = "–"
"""The cell of a missing figure: a zero would be a figure."""

JSON, TABLE, PICTURE = "results.json", "results.md", "results.png"


@dataclass(frozen=True, slots=True)
class Metric:
    """A score of `PointScores`: title, digits; `summed` adds the points up.

    The `target` is for a current model, that of the compression ratio for long templates.
    """

    name: str
    title: str
    digits: int = 2
    summed: bool = False
    target: str = ""

    @property
    def heading(self) -> str:
        """The title with the target."""
        return f"{self.title} {self.target}".rstrip()

    def value(self, trial: TrialResult) -> float | None:
        """Return the value of a trial: the mean or the sum of its points, None without any."""
        scores = [getattr(point, self.name) for point in trial.points]
        values = [score for score in scores if score is not None]
        if not values:
            return None
        return float(sum(values)) if self.summed else fmean(values)


SCORES = (
    Metric("salience_precision", "salience precision", target="> 0.75"),
    Metric("salience_recall", "salience recall", target="> 0.75"),
    Metric("salience_f1", "salience F1"),
    Metric("goal_coherence", "goal coherence", target="> 0.90"),
    Metric("drift", "drift"),
    Metric("constraint_recall", "constraint recall", target="> 0.95"),
    Metric("constraints_in_context", "constraints in the context"),
    Metric("behavioural_alignment", "behavioural alignment"),
    Metric("verbatim_rate", "verbatim rate", target="= 1.00"),
    Metric("fabricated", "fabricated quotes", digits=1, summed=True),
    Metric("fallbacks", "fallbacks to rules", digits=1, summed=True),
    Metric("compression_ratio", "compression ratio", target="< 0.50"),
)
"""The metrics of quality: how well the goal is kept, how much shorter the context is."""

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
"""The metrics of cost: tokens, seconds, dollars."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and bounds of a metric over trials, with the standard deviation of two or more."""

    mean: float
    deviation: float | None
    least: float
    most: float
    trials: int


@dataclass(frozen=True, slots=True)
class Row:
    """A strategy on a template, and its metrics."""

    template: str
    strategy: str
    turns: int
    trials: int
    errors: int
    metrics: dict[str, Spread]

    def value(self, metric: Metric) -> str:
        """Return the mean of a metric with its deviation, or a dash."""
        spread = self.metrics.get(metric.name)
        if spread is None:
            return _ABSENT
        mean, deviation = f"{spread.mean:,.{metric.digits}f}", spread.deviation
        return mean if deviation is None else f"{mean} ± {deviation:,.{metric.digits}f}"

    @classmethod
    def of(cls, trials: Sequence[TrialResult]) -> "Row":
        """Sum up the trials of one strategy on one template; there must be one."""
        first, metrics = trials[0], dict[str, Spread]()
        for metric in (*SCORES, *COSTS):
            values = [value for trial in trials if (value := metric.value(trial)) is not None]
            if not values:
                continue
            mean, deviation = fmean(values), stdev(values) if len(values) > 1 else None
            metrics[metric.name] = Spread(mean, deviation, min(values), max(values), len(values))
        errors = sum(len(trial.errors) for trial in trials)
        names = first.template, first.strategy, first.turns
        return cls(*names, len(trials), errors, metrics)


class Report:
    """The trials of a setup, and a row for each template and strategy, sorted."""

    def __init__(self, setup: Setup, trials: Iterable[TrialResult]) -> None:
        """Sort and sum up the trials."""
        self.setup = setup
        self.trials = sorted(trials, key=attrgetter("template", "strategy", "trial"))
        groups = groupby(self.trials, key=attrgetter("template", "strategy"))
        self.rows = tuple(Row.of([*group]) for _, group in groups)
        self.errors = [f"{trial.name}: {error}" for trial in self.trials for error in trial.errors]

    def by_template(self) -> Iterator[tuple[str, list[Row], list[Metric]]]:
        """Yield each template with its rows and the metrics that they have."""
        for template, group in groupby(self.rows, key=attrgetter("template")):
            rows = [*group]
            yield template, rows, _present((*SCORES, *COSTS), rows)

    def write(self, folder: Path) -> tuple[str, ...]:
        """Write the files; return their names. Without matplotlib there is no picture."""
        results = {
            "note": self.setup.note,
            "setup": self.setup.model_dump(),
            "rows": [asdict(row) for row in self.rows],
        }
        (folder / JSON).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        (folder / TABLE).write_text(self.page(), encoding="utf-8")
        has_picture = _plot(folder / PICTURE, self.setup, self.rows)
        return (JSON, TABLE, PICTURE) if has_picture else (JSON, TABLE)

    def page(self) -> str:
        """Return the page in Markdown: means, and deviations over trials."""
        setup, names = self.setup, _strategies(self.rows)
        judge = setup.judge or "none, so what a judge scores is absent"
        notes = {name: STRATEGIES[name].note for name in names if name in STRATEGIES}
        lines = [
            f"Ebbtide {setup.version}. Model: {setup.model}. Judge: {judge}.",
            f"Quotes are compared with the truth by {setup.likeness}, one to one.",
            "Values are means over trials ± their standard deviation; a dash is a score that there",
            "is no ground truth for. Tokens are those of what stands for the conversation, without",
            "an agent's instructions and tool schemas.",
        ]
        if setup.note:
            lines.append("The answers were recorded before: nothing on this page was measured.")
        parts = [
            f"# Evaluation{f' ({REPLAYED})' if setup.note else ''}",
            "\n".join(lines),
            "\n".join(f"- {name} {note}" for name, note in notes.items() if note),
            "## Scores",
            _values(self.rows, SCORES),
            "## Cost",
            _values(self.rows, COSTS),
            "## Errors" if self.errors else "",
            "\n".join(f"- {error}" for error in self.errors),
        ]
        return "\n\n".join(filter(None, parts)) + "\n"


def _present(metrics: Sequence[Metric], rows: Sequence[Row]) -> list[Metric]:
    return [metric for metric in metrics if any(metric.name in row.metrics for row in rows)]


def _strategies(rows: Sequence[Row]) -> list[str]:
    return sorted({row.strategy for row in rows})


def _values(rows: Sequence[Row], metrics: Sequence[Metric]) -> str:
    """Return a table in Markdown with a line for each row."""
    present = _present(metrics, rows)
    head = ["template", "strategy", "trials", *(metric.heading for metric in present)]
    body = [[row.template, row.strategy, str(row.trials), *map(row.value, present)] for row in rows]
    lines = [
        " | ".join(" ".join(cell.replace("|", "/").split()) for cell in line)
        for line in (head, ["---"] * len(head), *body)
    ]
    return "\n".join(f"| {line} |" for line in lines)


_INCHES = (4.5, 2.6)
"""Width and height of a panel, in inches."""

_PANELS = 3
"""Panels in a row."""

_WIDTH = 0.8
"""The share of a template's space that its bars take; the other part is a gap."""


def _plot(path: Path, setup: Setup, rows: Sequence[Row]) -> bool:
    """Draw the scores; return False if there are none, or no matplotlib."""
    metrics = _present([metric for metric in SCORES if not metric.summed], rows)
    if not metrics or find_spec("matplotlib") is None:
        return False
    charts = import_module("matplotlib.figure")  # slow to load
    lines = -(-len(metrics) // _PANELS)
    size = (_PANELS * _INCHES[0], lines * _INCHES[1] + 1)
    figure = charts.Figure(figsize=size, layout="constrained")
    figure.suptitle(f"{setup.model}{f': {REPLAYED}' if setup.note else ''}")
    for place, metric in enumerate(metrics, start=1):
        bars = _panel(figure.add_subplot(lines, _PANELS, place), metric, rows)
    figure.legend(bars, _strategies(rows), loc="outside lower center", ncols=4, fontsize="small")
    figure.savefig(path, metadata={"Title": figure.get_suptitle()})
    return True


def _panel(axes: Any, metric: Metric, rows: Sequence[Row]) -> list[Any]:
    """Draw one metric: for each template a bar per strategy; return the bars by strategy."""
    templates, strategies = sorted({row.template for row in rows}), _strategies(rows)
    width, bars = _WIDTH / len(strategies), []
    for at, strategy in enumerate(strategies):
        scored = [row for row in rows if row.strategy == strategy and metric.name in row.metrics]
        places = [templates.index(row.template) + (at + 0.5) * width for row in scored]
        means = [row.metrics[metric.name].mean for row in scored]
        deviations = [row.metrics[metric.name].deviation or 0.0 for row in scored]
        bars.append(axes.bar(places, means, width, yerr=deviations, color=f"C{at}"))
    if metric.target:
        axes.axhline(float(metric.target.split()[1]), linestyle=":", color="grey")
    axes.set_xticks([at + _WIDTH / 2 for at in range(len(templates))], templates, rotation=15)
    axes.tick_params(axis="x", labelsize="x-small")
    axes.set_title(metric.title, fontsize="medium")
    axes.set_ylim(min(0.0, axes.get_ylim()[0]), max(1.05, axes.get_ylim()[1]))
    return bars
