"""What the slices share: sums, and figures of what turns sent, the budget and the events."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ebbtide import Settings

charts: Any = import_module("matplotlib.figure") if find_spec("matplotlib") else None
FEW = 3  # events that stand side by side
SHORT = 50  # turns that have room for markers
DASHED: Any = {"color": "k", "linestyle": (0, (8, 3)), "label": "budget"}


def sums(figures: Any) -> str:
    """Return the largest context of a session, and its tokens beside those of the baselines."""
    largest = max(call.total for turn in figures.turns for call in turn.calls)
    return (
        f"Largest context: {largest:,} tokens of {Settings().context_budget:,}.\n"
        f"All calls: {figures.sent:,} tokens, with logs always expanded "
        f"{figures.always_expanded:,}, with full history {figures.full_history:,}."
    )


def draw_turns(name: str, turns: Sequence[Any], events: Mapping[int, str], **options: Any) -> str:
    """Draw what each turn sent, and its baselines; return where the plot is."""
    few = len(turns) <= SHORT
    lines = {
        "full history": ("k^:" if few else "k:", [turn.full_history for turn in turns]),
        "always expanded": ("C1s--" if few else "C1-.", [turn.always_expanded for turn in turns]),
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
    """Draw the lines, each with matplotlib's code of its style; return where the plot is.

    An event stands at its turn, at the foot of the figure, one of many above the other; one that
    ends with a space stands before its turn.
    """
    if charts is None:
        return "For a plot, install matplotlib."
    figure = charts.Figure(figsize=(7, 4), layout="constrained")
    plot = figure.subplots()
    for label, (style, sizes) in lines.items():
        plot.plot(range(1, len(sizes) + 1), sizes, style, label=label)
    plot.axhline(Settings().context_budget, **DASHED)
    plot.set(ylabel="last call of the turn (tokens)", yscale="log", **axes)
    levels = 1 if len(events) <= FEW else FEW
    for number, (turn, event) in enumerate(events.items()):
        plot.axvline(turn, color="0.8", zorder=0)
        side = "right" if event.endswith(" ") else "left"
        height = 0.02 + 0.05 * (number % levels)
        place = plot.get_xaxis_transform()
        plot.text(turn, height, event, ha=side, transform=place)
    label_ticks(plot)
    plot.legend(**legend or {})
    return save(figure, name)


def draw_parts(name: str, steps: Mapping[str, Mapping[str, int]], **axes: Any) -> str:
    """Draw for each step the sizes of its parts; return where the plot is."""
    if charts is None:
        return "For a plot, install matplotlib."
    figure = charts.Figure(figsize=(7, 4), layout="constrained")
    plot = figure.subplots()
    parts = [*next(iter(steps.values()))]
    for number, (part, marker) in enumerate(zip(parts, "Dso", strict=True)):
        sizes = [(at + 0.2 * (number - 1), step[part]) for at, step in enumerate(steps.values())]
        shown = [(at, size) for at, size in sizes if size]
        plot.plot(*zip(*shown, strict=True), marker, label=part, markersize=8)
        for at, size in shown:
            plot.annotate(f"{size:,}", (at, size), (0, 8), textcoords="offset points", ha="center")
    plot.axhline(Settings().context_budget, **DASHED)
    plot.set(ylabel="context of a call (tokens)", yscale="log", **axes)
    label_ticks(plot)
    plot.set_xticks(range(len(steps)), [*steps])
    plot.legend(ncols=2, loc="upper center")
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
