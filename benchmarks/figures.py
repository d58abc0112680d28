"""The figures of the benchmarks: one for each question, drawn from the rows of its results.

`python benchmarks/figures.py --out benchmarks/results` draws them again from the rows that are
stored there.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

charts: Any = import_module("matplotlib.figure") if find_spec("matplotlib") else None
effects: Any = import_module("matplotlib.patheffects") if charts else None
if charts:  # so that the same rows give the same file, and its words stay words
    import_module("matplotlib").rcParams |= {"svg.hashsalt": "ebbtide", "svg.fonttype": "none"}

Row: TypeAlias = Mapping[str, Any]
Aim: TypeAlias = Callable[[Row, str, Sequence[Row]], float | None]
"""Returns the goal of a column of a row, which may depend on the other rows."""

_PEERS = {
    "ebbtide": "C0",
    "EbbtideMiddleware": "C0",
    "create_memory_agent": "C0",
    "create_agent": "0.35",
    "SummarizationMiddleware": "C1",
    "LangMem": "C2",
    "deepagents": "C3",
    "ContextEditing": "C4",
    "DeltaChannel": "C5",
}
"""The colour of each agent, by the beginning of its name; the same one in all figures."""

_STYLES = ("o-", "s--", "^:", "D-.", "v-", "x--")
_MARKERS = "os^Dvx"
_HATCHES = ("", "///", "...", "xx", "\\\\", "++")
"""What tells lines and bars apart where there are no colours."""

LOW, HIGH = ", p5", ", p95"
"""How the columns end that have the percentiles of a column of medians."""

_DASHES = ("--", ":", "-.", (0, (1, 3)))
"""The lines of goals and limits."""

_BAR, _LINE, _WIDTH = 0.26, 0.36, 7.0
"""Inches of a bar, of a line of dots, and of a figure."""

_MANY = 60
"""Bars in a figure from which on there are dots instead, which need less room."""

_LONG_LABEL = 30
"""Characters of a label of which three do not fit beside each other."""

_DECADES = 30
"""How many times as large as the smallest value the largest one must be for a log scale."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A question, and the columns that answer it.

    `x` are the columns that name what is compared: one of numbers makes lines, texts make bars.
    `y` are the columns that are drawn, on one axis with its unit. Each value of the column `by`
    has lines or bars of its own. `where` chooses rows; `marks` are goals and limits by their names,
    `aim` gives one for a single value. With `across` the columns are compared, and the rows have
    bars of their own. `reads` has words for columns and rows in the legend. `log` makes dots: bars
    on a log scale begin nowhere. Where rows have the percentiles of a column, a line shows them.
    """

    name: str
    question: str
    x: tuple[str, ...]
    y: tuple[str, ...]
    unit: str
    by: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    marks: Mapping[str, float] = field(default_factory=dict)
    log: bool = False
    aim: Aim | None = None
    aimed: str = "goal"
    across: bool = False
    reads: Mapping[str, str] = field(default_factory=dict)
    title: str = ""


_SEARCH = Figure(
    "time",
    "How long does a search take as the archive grows?",
    ("efforts",),
    ("search p50 ms", "search p95 ms"),
    "time of a search (ms)",
    marks={"goal for p95 at 10,000 efforts": 20, "goal for p95 at 100,000 efforts": 60},
    log=True,
)
_SEARCH_SEMANTIC = replace(_SEARCH, marks={"goal for p95 at 10,000 efforts": 20})
_GROUPS = ("agent", "efforts", "budget")
_OPERATIONS: Mapping[str, str] = {
    "open CPU p50 ms": "open a session",
    "commit CPU p50 ms": "commit a turn",
    "search CPU p50 ms": "search a session",
    "elsewhere CPU p50 ms": "search other sessions",
}
_SCALE = Figure(
    "time",
    "How fast is a large archive?",
    ("database", "turns"),
    (*_OPERATIONS,),
    "median CPU time (ms)",
    reads=_OPERATIONS,
)
_SHARES = ("R@5", "all@5", "all@10", "turn R@10", "1,000 tokens", "4,000 tokens")
_RECALL = Figure(
    "evidence",
    "How often is the evidence in what is found?",
    ("utterances to a turn",),
    _SHARES,
    "questions (%)",
    aim=lambda row, _, __: _RECALL_GOALS[row["measure"]],
    across=True,
    reads={
        "1": "one utterance to a turn",
        "2": "two utterances to a turn",
        "R@5": "an effort with evidence is in the first 5 (R@5)",
        "all@5": "all of them are in the first 5 (all@5)",
        "all@10": "all of them are in the first 10 (all@10)",
        "turn R@10": "a turn with evidence is in the first 10 (R@10)",
        "1,000 tokens": "evidence verbatim within 1,000 tokens",
        "4,000 tokens": "evidence verbatim within 4,000 tokens",
    },
)
_RECALL_GOALS: Mapping[str, float] = dict(
    zip((_RECALL.reads[one] for one in _SHARES), (90, 85, 92, 74, 87, 95), strict=True)
)
_COSTS = {
    ("scripted", 4_000): 1_250,
    ("scripted", 16_000): 1_450,
    ("day", 4_000): 1_450,
    ("day", 16_000): 2_600,
    ("long", 4_000): 2_200,
    ("long", 16_000): 2_200,
}
"""The goals for the cost of a turn of Ebbtide, by conversation and budget."""
_RIGHT = {"goal for true": 60.0, "goal for false": 2.0}
_TRUE = {"true %": "true: recognised mentions", "false %": "false: other messages"}


def _turn_aim(row: Row, column: str, rows: Sequence[Row]) -> float | None:
    """Return the time of deepagents early in a session, half of `create_agent`'s late."""
    peer, share = ("deepagents", 1.0) if "10-60" in column else ("create_agent", 0.5)
    times = [share * one[column] for one in rows if one["agent"] == peer]
    return times[0] if times and row["agent"] == "ebbtide" else None


def _long_turn_aim(row: Row, column: str, rows: Sequence[Row]) -> float | None:
    """Return the smaller goal: a share of what two peers cost with the same budget."""
    shares = {"ContextEditingMiddleware": 0.45, "deepagents": 0.55}
    beside = [one for one in rows if one["budget"] == row["budget"] and one["agent"] in shares]
    costs = [shares[one["agent"]] * one[column] for one in beside]
    return min(costs) if costs and row["agent"] == "ebbtide" else None


def _cost_aim(row: Row, _: str, __: Sequence[Row]) -> float | None:
    of_us = row["agent"].startswith("ebbtide")
    return _COSTS.get((row["talk"], row["budget"])) if of_us else None


def _budget(row: Row, _: str, __: Sequence[Row]) -> float | None:
    return row["budget"] or None


FIGURES: Mapping[str, tuple[Figure, ...]] = {
    "turn_cost": (
        Figure(
            "time",
            "How long does a turn take, early and late?",
            ("agent",),
            ("ms, turns 10-60", "ms, turns 450-500"),
            "median time of a turn, SQLite (ms)",
            where={"case": "SQLite"},
            log=True,
            aim=_turn_aim,
        ),
        Figure(
            "checkpoints",
            "How many bytes does a turn add to the checkpoints?",
            ("agent",),
            ("checkpoint bytes a turn",),
            "checkpoints of a turn, SQLite (bytes)",
            where={"case": "SQLite"},
            marks={"goal": 50_000},
            log=True,
        ),
    ),
    "context_cost": (
        Figure(
            "cost",
            "What does a turn cost, a cached token counted as a tenth?",
            ("agent",),
            ("cost per turn",),
            "cost of a turn (tokens)",
            by="talk",
            aim=_cost_aim,
        ),
        Figure(
            "worst",
            "Does the largest call keep to the budget?",
            ("agent",),
            ("worst call",),
            "largest call of the long conversation (tokens)",
            where={"talk": "long"},
            log=True,
            aim=_budget,
            aimed="budget",
        ),
    ),
    "long_turn": (
        Figure(
            "cost",
            "What does a turn of 80 rounds cost?",
            _GROUPS,
            ("cost",),
            "cost (tokens)",
            aim=_long_turn_aim,
            title="agent, efforts, budget (tokens)",
        ),
        Figure(
            "largest",
            "Does the largest call keep to the budget?",
            _GROUPS,
            ("largest call",),
            "largest call (tokens)",
            aim=_budget,
            aimed="budget",
            title="agent, efforts, budget (tokens)",
        ),
    ),
    "long_turn_growth": (
        Figure(
            "checkpoints",
            "How many bytes does a round add to the checkpoints?",
            ("round",),
            ("checkpoint KB a round",),
            "checkpoints of a round (KB)",
            by="agent",
            log=True,
        ),
        Figure(
            "time",
            "How long does a round take, early and late?",
            ("round",),
            ("CPU ms a round",),
            "CPU time of a round (ms)",
            by="agent",
        ),
    ),
    "recall_work": (
        Figure(
            "evidence",
            "How often is the evidence in what is found, in sessions of work?",
            ("unit",),
            ("1,000 tokens", "4,000 tokens"),
            "questions (%)",
            marks={"goal as called, about 1,000 tokens": 55},
        ),
    ),
    "search_kinds": (
        Figure(
            "answered",
            "Which kinds of questions are answered in the first five?",
            ("kind",),
            ("Ebbtide", "FTS5 unicode61", "FTS5 trigram"),
            "questions (%)",
            marks={"goal for all together": 90},
        ),
    ),
    "growth": (
        Figure(
            "time",
            "Does a turn take longer as the session grows?",
            ("turns",),
            ("ratio",),
            "CPU time of a turn, relative to turns 51-150\nof new sessions that alternate with it",
            marks={"goal": 1.1},
            log=True,
        ),
    ),
    "search_scale": (_SEARCH,),
    "search_scale_semantic": (_SEARCH_SEMANTIC,),
    "search_sessions": (
        Figure(
            "time",
            "How long does a search take in many sessions?",
            ("sessions",),
            ("search p50 ms", "search p95 ms"),
            "time of a search (ms)",
            log=True,
        ),
    ),
    "recall": (_RECALL,),
    "recall_minilm": (_RECALL,),
    "recall_long_talk": (
        Figure(
            "evidence",
            "How often is the evidence in so many tokens?",
            ("unit",),
            _SHARES[-2:],
            "questions (%)",
        ),
    ),
    "references": (
        Figure(
            "rules",
            "How many mentions are recognised, and how many falsely?",
            ("rule",),
            ("true %", "false %"),
            "messages (%)",
            marks=_RIGHT,
            reads=_TRUE,
        ),
    ),
    "references_dialogues": (
        Figure(
            "rules",
            "How many mentions are recognised in dialogues, and how many falsely?",
            ("dialogues", "half"),
            ("true %", "false %"),
            "messages (%)",
            where={"rule": "distinctive keywords"},
            marks=_RIGHT,
            reads=_TRUE,
        ),
    ),
    "archive_scale_postgresql": (_SCALE,),
    "archive_scale_sqlite": (_SCALE,),
    "middleware": (
        Figure(
            "time",
            "How long does a late turn take?",
            ("agent",),
            ("ms, last 50 turns",),
            "median time of the last 50 turns (ms)",
        ),
    ),
    "deduplication": (
        Figure(
            "right",
            "Which pairs are merged, and which kept apart?",
            ("likeness", "pairs"),
            ("merged", "kept apart"),
            "pairs of the same meaning, and pairs that only look alike (%)",
            marks={"goal for merged": 60, "goal for kept apart": 100},
            reads={"merged": "same meaning: merged", "kept apart": "look alike: kept apart"},
        ),
    ),
    "planted_rules": (
        Figure(
            "rules",
            "What became of 60 rules said in one long effort?",
            ("budget",),
            ("in view", "named as out of view", "waiting", "neither"),
            "rules",
            title="budget (tokens)",
        ),
    ),
    "recorded": (
        Figure(
            "kept",
            "How much of what is salient was quoted, and how much else?",
            ("template", "answers"),
            ("precision", "recall"),
            "share",
            marks={"goal": 0.75},
            where={"strategy": "selective-salience"},
        ),
    ),
}
"""The figures by the name of the results."""


def draw(folder: Path, name: str, rows: Sequence[Row]) -> list[str]:
    """Draw the figures of some results as SVG and PNG; return the names of the files."""
    files: list[str] = []
    for one in FIGURES.get(name, ()) if charts else ():
        figure = one
        chosen = [row for row in rows if figure.where.items() <= row.items()]
        chosen = [row for row in chosen if any(_is_number(row.get(y)) for y in figure.y)]
        if not chosen:
            continue
        if figure.across:
            figure, chosen = _across(figure, chosen)
        drawn = _lines(figure, chosen) if _is_line(figure, chosen) else _bars(figure, chosen)
        for ending in ("svg", "png"):
            files.append(f"{name}_{figure.name}.{ending}")
            drawn.savefig(folder / files[-1], dpi=150, metadata={_DATED[ending]: None})
    return files


_DATED = {"svg": "Date", "png": "Software"}
"""What would make two files of the same rows differ."""


def _across(figure: Figure, rows: Sequence[Row]) -> tuple[Figure, list[Row]]:
    """Make a row of each column, and a column of each row."""
    (x,) = figure.x
    names = [figure.reads.get(str(row[x]), str(row[x])) for row in rows]
    turned: list[Row] = [
        {"measure": figure.reads.get(y, y)}
        | {name: row.get(y) for name, row in zip(names, rows, strict=True)}
        for y in figure.y
    ]
    return replace(figure, x=("measure",), y=tuple(names)), turned


def _is_line(figure: Figure, rows: Sequence[Row]) -> bool:
    (x, *others) = figure.x
    return not others and len(rows) > 1 and all(_is_number(row[x]) for row in rows)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _series(figure: Figure, rows: Sequence[Row]) -> list[tuple[str, str, list[Row]]]:
    """Return the label, the column and the rows of each line or group of bars."""
    series: list[tuple[str, str, list[Row]]] = []
    for group, y in product(dict.fromkeys(row.get(figure.by, "") for row in rows), figure.y):
        column = y if len(figure.y) > 1 or not group else ""
        members = [row for row in rows if row.get(figure.by, "") == group]
        column = figure.reads.get(column, column)
        series.append((", ".join(filter(None, (group, column))), y, members))
    return series


def _range(figure: Figure, row: Row, y: str) -> tuple[float, float]:
    """Return how far a cell's 5th percentile is below it, and its 95th above; 0 if not measured."""
    low, high = row.get(f"{y}{LOW}"), row.get(f"{y}{HIGH}")
    upper = y.replace("p50", "p95")
    if upper != y and upper not in figure.y:
        high = row.get(upper)
    below = row[y] - low if _is_number(low) else 0.0
    above = high - row[y] if _is_number(high) else 0.0
    return max(0.0, below), max(0.0, above)


def _ranges(axes: Any, figure: Figure, rows: Sequence[Row], column: str, **look: Any) -> str:
    """Draw the percentiles of a column at some places (`x` or `y`); return which, or nothing."""
    found = [_range(figure, row, column) for row in rows]
    if not any(map(any, found)):
        return ""
    (free,) = {"x", "y"} - look.keys()
    look |= {free: [row[column] for row in rows], f"{free}err": [*zip(*found, strict=True)]}
    axes.errorbar(fmt="none", capsize=3, linewidth=1.2, **look)
    return "5th to 95th percentile" if any(below for below, _ in found) else "95th percentile"


def _axes(figure: Figure, height: float) -> tuple[Any, Any]:
    drawn = charts.Figure(figsize=(_WIDTH, height), layout="constrained")
    axes = drawn.subplots()
    drawn.suptitle(figure.question)
    return drawn, axes


def _lines(figure: Figure, rows: Sequence[Row]) -> Any:
    """Draw lines over a column of numbers."""
    drawn, axes = _axes(figure, 4.0)
    (x,) = figure.x
    ranged = ""
    for number, (label, y, points) in enumerate(_series(figure, rows)):
        at, style = [row[x] for row in points], _STYLES[number % len(_STYLES)]
        colour = _colours(points, number)[0]
        ranged = _ranges(axes, figure, points, y, x=at, ecolor=colour) or ranged
        axes.plot(at, [row[y] for row in points], style, label=label, color=colour)
    for (label, value), style in zip(figure.marks.items(), _DASHES, strict=False):
        axes.axhline(value, color="black", linestyle=style, label=label)
    axes.set(xlabel=figure.title or x, ylabel=figure.unit)
    values = [row[y] for row in rows for y in figure.y if _is_number(row.get(y))]
    if 0 < _DECADES * min(values) < max(values):
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, 1.06 * axes.dataLim.ymax)
    axes.yaxis.set_major_formatter(_PLAIN)
    if figure.log:
        axes.set_xscale("log")
    ticks = sorted({row[x] for row in rows})
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks], minor=False)
    axes.minorticks_off()
    _legend(drawn, axes, ranged)
    return drawn


def _legend(drawn: Any, axes: Any, ranged: str) -> None:
    """Put the legend below the axes, and say what the lines of the percentiles are."""
    if ranged:
        axes.plot([], [], "|-", color="black", linewidth=1.2, label=ranged)
    if labels := axes.get_legend_handles_labels()[1]:
        columns = 3 if max(map(len, labels)) < _LONG_LABEL else 2
        drawn.legend(loc="outside lower center", ncols=columns)


_PLAIN = "{x:,.10g}"
"""A number without a power of ten."""


def _bars(figure: Figure, rows: Sequence[Row]) -> Any:
    """Draw horizontal bars or dots, a group for each row or for each value of `x`."""
    names = dict.fromkeys(_name(figure, row) for row in rows)
    series = _series(figure, rows)
    values = [row[y] for row in rows for y in figure.y if _is_number(row.get(y))]
    log = figure.log and min(values) > 0  # a logarithm has no place for a zero
    dots = log or len(names) * len(series) > _MANY
    lines = _LINE * len(names) if dots else _BAR * len(names) * max(2, len(series))
    drawn, axes = _axes(figure, 1.6 + lines)
    places = {name: len(names) - at for at, name in enumerate(names)}
    aims: list[tuple[float, float, float]] = []
    ranged = ""
    thickness = (0.6 if dots else 0.8) / len(series)
    for number, (label, y, members) in enumerate(series):
        bars = [row for row in members if _is_number(row.get(y))]
        if not bars:
            continue
        middle = thickness * ((len(series) - 1) / 2 - number)
        at = [places[_name(figure, row)] + middle for row in bars]
        look: dict[str, Any] = {"edgecolor": "black", "linewidth": 0.5}
        look["label"] = label if len(series) > 1 else None
        look["color"] = _colours(bars, number) if len(series) == 1 else f"C{number}"
        if dots:
            axes.scatter([row[y] for row in bars], at, marker=_MARKERS[number], zorder=4, **look)
        else:
            hatch = _HATCHES[number % len(_HATCHES)]
            axes.barh(at, [row[y] for row in bars], thickness, hatch=hatch, **look)
        ranged = _ranges(axes, figure, bars, y, y=at, ecolor="black") or ranged
        found = [figure.aim(row, y, rows) if figure.aim else None for row in bars]
        half = thickness / 2
        aims += [(x, y - half, y + half) for x, y in zip(found, at, strict=True) if x]
    if aims:
        look = {"color": "black", "linewidth": 2.5, "label": figure.aimed, "zorder": 3}
        axes.vlines(*zip(*aims, strict=True), path_effects=() if dots else _OUTLINE, **look)
    for (label, value), style in zip(figure.marks.items(), _DASHES, strict=False):
        axes.axvline(value, color="black", linestyle=style, label=label)
    axes.set_yticks([*places.values()], [*places])
    axes.set(xlabel=figure.unit, ylabel=figure.title or ", ".join(figure.x))
    axes.set_ylim(0.4, len(names) + 0.6)
    if log:
        axes.set_xscale("log")
        ratio = max(values) / min(values)
        steps = (1, 2, 5) if ratio < _DECADES else (1, 3) if ratio < 10 * _DECADES else (1,)
        axes.xaxis.get_major_locator().set_params(subs=steps)
        axes.minorticks_off()
    else:
        axes.locator_params(axis="x", nbins=6)
    axes.xaxis.set_major_formatter(_PLAIN)
    if dots:
        axes.grid(axis="y", color="0.9")
        axes.set_axisbelow(True)
    _legend(drawn, axes, ranged)
    return drawn


_OUTLINE: Sequence[Any] = [effects.withStroke(linewidth=4.5, foreground="white")] if charts else []
"""Around the line of a goal, so that it is seen on a dark bar."""


def _name(figure: Figure, row: Row) -> str:
    parts = (row.get(x, "") for x in figure.x)
    return ", ".join(f"{one:,}" if isinstance(one, int) else str(one) for one in parts if one != "")


def _colours(rows: Sequence[Row], number: int) -> list[str]:
    """Return the colours of bars: those of the agents, if they are of agents."""
    names = [str(row.get("agent", "")) for row in rows]
    starts = sorted(_PEERS, key=len, reverse=True)
    found = (next((one for one in starts if one in name), "") for name in names)
    return [_PEERS.get(one, f"C{number}") for one in found]


def main() -> None:
    """Draw all figures again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    folder = parser.parse_args().out
    for path in sorted(folder.glob("*.json")):
        rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
        print(*draw(folder, path.stem, rows), sep="\n")


if __name__ == "__main__":
    main()
