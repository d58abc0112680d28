"""Draw the figure of a slice: what each turn sent, the budget, and what happened when."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ebbtide import Settings

charts: Any = import_module("matplotlib.figure") if find_spec("matplotlib") else None


def draw_lines(
    name: str,
    lines: Mapping[str, tuple[str, Sequence[int | None]]],
    events: Mapping[int, str],
    legend: Mapping[str, Any] | None = None,
    **axes: Any,
) -> str:
    """Draw the lines, each with matplotlib's code of its style; return where the plot is.

    An event stands at its turn, at the foot of the figure; one that ends with a space stands before
    its turn.
    """
    if charts is None:
        return "For a plot, install matplotlib."
    figure = charts.Figure(figsize=(7, 4), layout="constrained")
    plot = figure.subplots()
    for label, (style, sizes) in lines.items():
        plot.plot(range(1, len(sizes) + 1), sizes, style, label=label)
    plot.axhline(Settings().context_budget, color="C3", label="budget")
    plot.set(ylabel="last call of the turn (tokens)", yscale="log", **axes)
    for turn, event in events.items():
        plot.axvline(turn, color="0.8", zorder=0)
        side = "right" if event.endswith(" ") else "left"
        plot.text(turn, plot.get_ylim()[0] * 1.1, event, ha=side)
    label_ticks(plot)
    plot.legend(**legend or {})
    return save(figure, name)


def draw_bars(name: str, bars: Mapping[str, Mapping[str, int]], **axes: Any) -> str:
    """Draw groups of bars, each with its parts; return where the plot is."""
    if charts is None:
        return "For a plot, install matplotlib."
    figure = charts.Figure(figsize=(7, 4), layout="constrained")
    plot = figure.subplots()
    parts = [*next(iter(bars.values()))]
    for number, (part, hatch) in enumerate(zip(parts, ("", "//", ".."), strict=True)):
        places = [step + 0.27 * (number - 1) for step in range(len(bars))]
        heights = [sizes[part] for sizes in bars.values()]
        plot.bar(places, heights, 0.25, label=part, hatch=hatch, edgecolor="black")
    plot.axhline(Settings().context_budget, color="C3", linestyle="--", label="budget")
    plot.set(ylabel="context of a call (tokens)", yscale="log", **axes)
    label_ticks(plot)
    plot.set_xticks(range(len(bars)), [*bars])
    plot.legend(ncols=4, loc="upper center")
    return save(figure, name)


def label_ticks(plot: Any) -> None:
    """Write 1,000 where matplotlib writes 10 to the 3rd; label 2,000 and 5,000 if there is room."""
    lowest, highest = plot.get_ylim()
    steps = (1, 2, 5) if highest < 100 * lowest else (1,)
    plot.yaxis.get_major_locator().set_params(subs=steps)
    plot.yaxis.set_major_formatter("{x:,.0f}")
    plot.xaxis.set_major_formatter("{x:,.0f}")
    plot.minorticks_off()


def save(figure: Any, name: str) -> str:
    """Save a figure as SVG and PNG."""
    for ending in ("svg", "png"):
        figure.savefig(f"{name}.{ending}", dpi=200)
    return f"Plot: {name}.svg and .png"
