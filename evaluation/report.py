"""The results of a folder as files: JSON for programs, Markdown and a picture for people."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from .metrics import SCORES, Metric
from .results import REPLAYED, Setup, TrialResult
from .summary import Row, rows
from .tables import page

_INCHES = (4.5, 2.6)
"""Width and height of a panel."""

_PANELS = 3
"""Panels in a row."""

_WIDTH = 0.8
"""What the bars of a template have of its place; the rest parts them from the next ones."""


def plot(path: Path, setup: Setup, rows: Sequence[Row]) -> bool:
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
    figure.legend(bars, _strategies(rows), loc="outside lower center", ncols=4, fontsize="small")
    figure.savefig(path, metadata={"Title": figure.get_suptitle()})
    return True


def _charts() -> Any:
    """Return the part of matplotlib that draws, None without it; it is slow to load."""
    try:
        return import_module("matplotlib.figure")
    except ImportError:
        return None


def _strategies(rows: Sequence[Row]) -> list[str]:
    return sorted({row.strategy for row in rows})


def _panel(axes: Any, metric: Metric, rows: Sequence[Row]) -> list[Any]:
    """Draw one metric: templates side by side, in each a bar for every strategy; return these."""
    templates, strategies = sorted({row.template for row in rows}), _strategies(rows)
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
    drawn = plot(folder / PICTURE, setup, found)
    names = (JSON, TABLE, *((PICTURE,) if drawn else ()))
    return Report(tuple(folder / name for name in names), drawn, found)


def _replace(path: Path, text: str) -> None:
    draft = path.with_suffix(f"{path.suffix}.new")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
