"""What is measured, and the results as files: JSON for programs, Markdown and a plot for people."""

import argparse
import json
import platform
import shlex
import sqlite3
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import chain, takewhile
from pathlib import Path
from statistics import fmean, median, quantiles
from time import perf_counter
from typing import Any, TypeVar

charts: Any = import_module("matplotlib.figure") if find_spec("matplotlib") else None

T = TypeVar("T")

_PACKAGES = (
    *("ebbtide", "snowballstemmer", "tiktoken"),
    *("langchain", "langgraph", "langmem", "deepagents"),
)
_PANELS = 3
"""Charts beside each other, as fit the width of a page."""
_WIDTH, _HEIGHT = 3.0, 5.0
"""Size of a panel with the labels below it, in inches."""

_LABEL = 32
"""Characters of a text in the label of a bar."""


def argument_parser(description: str | None, **defaults: int | str) -> argparse.ArgumentParser:
    """Return a parser with the option that all benchmarks have, and one for each default."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, required=True)
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    return parser


def timed(do: Callable[[], T]) -> tuple[float, T]:
    """Return the milliseconds of a call, and its result."""
    start = perf_counter()
    result = do()
    return (perf_counter() - start) * 1_000, result


def spread(name: str, milliseconds: Sequence[float]) -> dict[str, float]:
    """Return the cells of the median and of the 95th percentile."""
    high = quantiles(milliseconds, n=20)[-1]
    return {f"{name} p50 ms": round(median(milliseconds), 2), f"{name} p95 ms": round(high, 2)}


def percent(values: Iterable[float], digits: int = 1) -> float:
    """Return the mean of values or of flags in percent."""
    return round(100 * fmean(values), digits)


def stored_bytes(folder: Path, pattern: str = "**/*") -> int:
    """Return the size of the files in a folder."""
    return sum(path.stat().st_size for path in folder.glob(pattern) if path.is_file())


def write(folder: Path, name: str, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as `name.json`, as a table in `name.md` and as bars in `name.png`.

    A cell that a row lacks is empty. The files have the command and the versions that made them.
    The table is printed. Without matplotlib there is no plot.
    """
    folder.mkdir(parents=True, exist_ok=True)
    columns = dict.fromkeys(chain.from_iterable(rows), "")
    rows = [columns | dict(row) for row in rows]
    run, packages = command(), versions()
    results = {"title": title, "command": run, "versions": packages, "rows": rows}
    (folder / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    text = f"# {title}\n\n{table(rows)}\n\n`{run}`\n\n{_joined(packages)}\n"
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
    if charts:
        plot(title, rows).savefig(folder / f"{name}.png")
    print(text)


def command() -> str:
    """Return the command that runs this program again."""
    return shlex.join(["python", *sys.argv])


def versions() -> dict[str, str]:
    """Return the versions of the measured packages and of the system."""
    packages = {name: number for name in _PACKAGES if (number := _version(name))}
    system = {"Python": platform.python_version(), "SQLite": sqlite3.sqlite_version}
    return {**packages, **system, "system": f"{platform.system()} {platform.machine()}"}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as a table in Markdown.

    >>> print(table([{"size": 1000, "took ms": 2.5}]))
    | size | took ms |
    | --- | --- |
    | 1,000 | 2.5 |
    """
    lines = [_line(rows[0].keys()), _line("---" for _ in rows[0]), *map(_line, map(_cells, rows))]
    return "\n".join(lines)


def plot(title: str, rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return a figure with a panel for each column of numbers but the first, a bar for each row.

    The label of a bar has the first texts of its row, or its first number.
    """
    columns = [name for name in [*rows[0]][1:] if any(_is_number(row[name]) for row in rows)]
    lines = -(-len(columns) // _PANELS)
    size = (_PANELS * _WIDTH, lines * _HEIGHT)
    figure = charts.Figure(figsize=size, layout="constrained")
    figure.suptitle(title)
    for place, name in enumerate(columns, start=1):
        axes = figure.add_subplot(lines, _PANELS, place)
        bars = [row for row in rows if _is_number(row[name])]
        axes.bar(range(len(bars)), [row[name] for row in bars])
        axes.set_xticks(range(len(bars)), [_label(row) for row in bars])
        axes.tick_params(axis="x", labelrotation=90, labelsize="small")
        axes.set_title(name)
    return figure


def _label(row: Mapping[str, Any]) -> str:
    texts = takewhile(lambda value: isinstance(value, str), row.values())
    return "\n".join(text[:_LABEL] for text in texts if text) or _cells(row)[0]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _joined(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _cells(row: Mapping[Any, Any]) -> list[str]:
    return [f"{value:,}" if isinstance(value, int) else str(value) for value in row.values()]


def _line(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"
