"""What the examples share: sums, and figures with what was sent, the budget and the events."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ebbtide import Settings

charts: Any = import_module("matplotlib.figure") if find_spec("matplotlib") else None
FEW = 3  # events that stand side by side
SHORT = 50  # turns that have room for markers
MISSING = "For a plot, install matplotlib."
DASHED: Any = {"color": "k", "linestyle": (0, (8, 3)), "label": "budget"}


def sums(figures: Any) -> str:
    """Return the largest context of a session, and its tokens beside those of the baselines."""
    largest = max(call.total for turn in figures.turns for call in turn.calls)
    return (
        f"Largest context: {largest:,} tokens of {Settings().context_budget:,}.\n"
        f"All calls: {figures.sent:,} tokens, with logs always expanded "
        f"{figures.always_expanded:,}, with full history {figures.full_history:,}."
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
    levels = 1 if len(events) <= FEW else FEW
    for number, (place, event) in enumerate(events.items()):
        axes.axvline(place, color="0.8", zorder=0)
        side = "right" if event.endswith(" ") else "left"
        height = 0.02 + 0.05 * (number % levels)
        axes.text(place, height, event, ha=side, transform=axes.get_xaxis_transform())


def draw_turns(name: str, turns: Sequence[Any], events: Mapping[int, str], **options: Any) -> str:
    """Draw what each turn sent, and its baselines; return where the plot is."""
    few = len(turns) <= SHORT
    always = [turn.last_always_expanded for turn in turns]
    lines = {
        "full history": ("k^:" if few else "k:", [turn.last_full_history for turn in turns]),
        "always expanded": ("C1s--" if few else "C1-.", always),
        "sent": ("C0o-" if few else "C0-", [turn.total for turn in turns]),
    }
    return draw_lines(name, lines, events, **options)


def draw_lines(
    name: str,
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
        plot.plot(range(1, len(sizes) + 1), sizes, style, label=label)
    plot.axhline(Settings().context_budget, **DASHED)
    plot.set(yscale="log", **axes)
    mark(plot, events)
    label_ticks(plot)
    return save(plot, name, legend or {})


def draw_parts(name: str, steps: Mapping[str, Mapping[str, int]], **axes: Any) -> str:
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
    return save(plot, name, {"ncols": 2, "loc": "upper center"})


def label_ticks(plot: Any) -> None:
    """Write 1,000 where matplotlib writes 10 to the 3rd; label 2,000 and 5,000 if there is room."""
    lowest, highest = plot.get_ylim()
    steps = (1, 2, 5) if highest < 100 * lowest else (1,)
    plot.yaxis.get_major_locator().set_params(subs=steps)
    plot.yaxis.set_major_formatter("{x:,.0f}")
    plot.xaxis.set_major_formatter("{x:,.0f}")
    plot.minorticks_off()


def save(axes: Any, name: str, legend: Mapping[str, Any] | None = None) -> str:
    """Save a figure as SVG and PNG, with a legend if options of one are given; return where."""
    if legend is not None:
        axes.legend(**legend)
    for ending in ("svg", "png"):
        axes.figure.savefig(f"{name}.{ending}", dpi=200)
    return f"Plot: {name}.svg and .png"
