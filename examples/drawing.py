"""What the examples share: sums, and files with their figure and with the rows of their tables."""

import json
import os
import platform
import subprocess
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.table import Table

from ebbtide import Settings

charts: Any = import_module("matplotlib.figure") if find_spec("matplotlib") else None
FEW = 3  # events that stand side by side
MARKERS = 40  # at most so many on a line
MISSING = "For a plot, install matplotlib."
ENDINGS = ("svg", "png", "pdf")
PACKAGES = ("ebbtide", "langchain-core", "langgraph", "tiktoken")
METRICS = (
    *("false_decay_rate", "avg_expansion_duration", "auto_collapses", "manual_collapses"),
    *("tokens_saved_by_decay", "expansion_overhead", "sent", "always_expanded", "full_history"),
)
BEHIND: Any = {"facecolor": "white", "edgecolor": "none", "pad": 0}  # no line strikes a label
DASHED: Any = {"color": "k", "linestyle": (0, (8, 3)), "label": "budget"}


def output(program: str, description: str | None) -> Path:
    """Return where an example's files go, without their endings; make the folder."""
    parser = ArgumentParser(description=description)
    what = "folder for the figure (SVG, PNG, PDF) and for the rows of the tables (JSON)"
    where = f"{what}; default: %(default)s"
    parser.add_argument("--out", type=Path, default=Path("example-results"), help=where)
    folder: Path = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    return folder / Path(program).stem


def write_rows(path: Path, settings: Settings, *tables: Table, figures: Any = None) -> str:
    """Write the tables with settings, versions and commit, and a session's metrics; say where."""
    made = {
        "commit": commit(),
        "versions": {"Python": platform.python_version()} | {one: version(one) for one in PACKAGES},
        "scripted model": "OPENAI_API_KEY" not in os.environ,
        "settings": settings.model_dump(mode="json"),
        "tables": [{"title": table.title, "rows": rows(table)} for table in tables],
    }
    if figures:
        made["metrics"] = {name: getattr(figures, name) for name in METRICS}
    file = path.with_suffix(".json")
    file.write_text(f"{json.dumps(made, indent=1, ensure_ascii=False)}\n", encoding="utf-8")
    return f"Rows: {file}"


def rows(table: Table) -> list[dict[str, str | float]]:
    """Return the rows of a table by the names of its columns, and numbers as numbers."""
    names = [str(column.header).replace("\n", " ") for column in table.columns]
    lines = zip(*(column.cells for column in table.columns), strict=True)
    return [dict(zip(names, map(number, map(str, line)), strict=True)) for line in lines]


def number(cell: str) -> str | float:
    """Return 1234 for `1,234`, and any other text as it is."""
    try:
        return json.loads(cell.replace(",", "")) if cell[:1].isdigit() else cell
    except ValueError:
        return cell


def commit() -> str:
    """Return the commit of the checkout, with -dirty if files were changed since, or unknown."""
    describe = ("describe", "--always", "--exclude=*", "--abbrev=8", "--dirty")
    command = ["git", "-C", str(Path(__file__).parent), *describe]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return ran.stdout.strip()


def sums(figures: Any) -> str:
    """Return the largest context of a session, and its tokens beside those of the baselines."""
    calls = [call for turn in figures.turns for call in turn.calls]
    fixed = [call.parts["system"] + call.parts["tools"] for call in calls]
    logs = sum(turn.expanded for turn in figures.turns)
    less = sum(turn.total < turn.last_full_history for turn in figures.turns)
    return (
        f"Largest context: {max(call.total for call in calls):,} tokens of "
        f"{Settings().context_budget:,}.\n"
        f"Expanded logs in all calls: {logs:,} tokens, if always expanded "
        f"{logs + figures.always_expanded - figures.sent:,}.\n"
        f"All calls: {figures.sent - sum(fixed):,} tokens, and {fixed[-1]:,} of instructions and "
        f"tools in each; with full history {figures.full_history:,}.\n"
        f"This pays once the full history is longer: here in {less:,} of "
        f"{len(figures.turns):,} turns."
    )


def begin(xlabel: str, ylabel: str) -> Any:
    """Return empty axes, or None where matplotlib is missing."""
    if charts is None:
        return None
    axes = charts.Figure(figsize=(7, 4), layout="constrained").subplots()
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.yaxis.set_major_formatter("{x:,.10g}")
    return axes


def mark(axes: Any, events: Mapping[int, str]) -> None:
    """Mark events where they happen, with their names at the foot, many one above the other.

    An event that ends with a space stands before its place.
    """
    many = len(events) > FEW
    for number, (place, event) in enumerate(events.items()):
        axes.axvline(place, color="0.8", zorder=0)
        look: Any = {"ha": "right" if event.endswith(" ") else "left", "bbox": BEHIND, "zorder": 1}
        height = 0.02 + 0.05 * number * many
        axes.text(place, height, event, transform=axes.get_xaxis_transform(), **look)


def with_baselines(turns: Sequence[Any]) -> dict[str, tuple[str, list[int]]]:
    """Return the lines of what each turn sent, and of its baselines."""
    return {
        "full history": ("k^:", [turn.last_full_history for turn in turns]),
        "always expanded": ("C1s--", [turn.last_always_expanded for turn in turns]),
        "sent": ("C0o-", [turn.total for turn in turns]),
    }


def draw_turns(path: Path, turns: Sequence[Any], events: Mapping[int, str], **options: Any) -> str:
    """Draw what each turn sent, and its baselines; return where the plot is."""
    return draw_lines(path, with_baselines(turns), events, **options)


def draw_lines(
    path: Path,
    lines: Mapping[str, tuple[str, Sequence[int | None]]],
    events: Mapping[int, str],
    legend: Mapping[str, Any] | None = None,
    **axes: Any,
) -> str:
    """Draw the lines, each with matplotlib's code of its style; return where the plot is."""
    plot = begin("", "last call of the turn (tokens)")
    if plot is None:
        return MISSING
    for label, (style, sizes) in lines.items():
        some = len(sizes) // MARKERS + 1
        plot.plot(range(1, len(sizes) + 1), sizes, style, label=label, markevery=some)
    plot.axhline(Settings().context_budget, **DASHED)
    plot.set(yscale="log", **axes)
    mark(plot, events)
    label_ticks(plot)
    return save(plot, path, legend or {})


def draw_parts(path: Path, steps: Mapping[str, Mapping[str, int]], **axes: Any) -> str:
    """Draw for each step the sizes of its parts; return where the plot is."""
    plot = begin("", "context of a call (tokens)")
    if plot is None:
        return MISSING
    parts = [*next(iter(steps.values()))]
    for number, (part, marker) in enumerate(zip(parts, "Dso", strict=True)):
        sizes = [(at + 0.2 * (number - 1), step[part]) for at, step in enumerate(steps.values())]
        shown = [(at, size) for at, size in sizes if size]
        plot.plot(*zip(*shown, strict=True), marker, label=part, markersize=8)
        for at, size in shown:
            plot.annotate(f"{size:,}", (at, size), (0, 8), textcoords="offset points", ha="center")
    plot.axhline(Settings().context_budget, **DASHED)
    plot.set(yscale="log", **axes)
    label_ticks(plot)
    plot.set_xticks(range(len(steps)), [*steps])
    return save(plot, path, {"ncols": 2, "loc": "upper center"})


def label_ticks(plot: Any) -> None:
    """Write 1,000 where matplotlib writes 10 to the 3rd; label 2,000 and 5,000 if there is room."""
    lowest, highest = plot.get_ylim()
    steps = (1, 2, 5) if highest < 100 * lowest else (1,)
    plot.yaxis.get_major_locator().set_params(subs=steps)
    plot.yaxis.set_major_formatter("{x:,.0f}")
    plot.xaxis.set_major_formatter("{x:,.0f}")
    plot.minorticks_off()


def save(axes: Any, path: Path, legend: Mapping[str, Any] | None = None) -> str:
    """Save a figure in each format, with a legend if options of one are given; return where."""
    if legend is not None:
        axes.legend(**legend)
    for ending in ENDINGS:
        axes.figure.savefig(path.with_suffix(f".{ending}"), dpi=200)
    return f"Plot: {path}.svg, .png and .pdf"
