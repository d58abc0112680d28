"""What is measured, and the results as files: JSON for programs, the others for people."""

import argparse
import json
import os
import platform
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from statistics import fmean, median, quantiles
from time import perf_counter, process_time
from typing import Any, TypeVar

from figures import HIGH, LOW, draw

from ebbtide import SqlArchive

T = TypeVar("T")

_PIDS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend'
"""
_PACKAGES = (
    *("ebbtide", "snowballstemmer", "tiktoken"),
    *("langchain", "langgraph", "langmem", "deepagents"),
)


def _commit() -> str:
    """Return the commit that was measured, "unknown" outside of a repository.

    It ends with `-dirty` if files were changed since; results that were just written do not count.
    """
    if not (commit := _git("rev-parse", "--short=8", "HEAD")):
        return "unknown"
    changed = _git("status", "--porcelain", "--", ":/", ":(top,exclude)benchmarks/results")
    return f"{commit}-dirty" if changed else commit


def _git(*arguments: str) -> str:
    """Return what git prints, nothing if there is no git or no repository."""
    git = shutil.which("git")
    if git is None:
        return ""
    command = [git, "-C", str(Path(__file__).parent), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return ran.stdout.strip()


_MEASURED = _commit()
"""Read when a program begins: what is changed while it runs is not what it measures."""


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


def cpu_clock(archive: SqlArchive) -> Callable[[], float]:
    """Return a clock: the seconds of the CPU that this process took, and the archive's server.

    The server's count if it is PostgreSQL on the same Linux, for the connections that are open.
    """
    files: list[Path] = []
    if not archive.database.sqlite:
        with archive.database.reading() as connection:
            pids = connection.exec_driver_sql(_PIDS).scalars().all()
        files = [path for pid in pids if (path := Path(f"/proc/{pid}/schedstat")).exists()]

    def seconds() -> float:
        server = sum(int(path.read_text(encoding="ascii").split()[0]) for path in files)
        return process_time() + server / 1e9

    return seconds


def ranged(column: str, values: Sequence[float], digits: int = 1) -> dict[str, float]:
    """Return the cells of a median, and of the 5th and the 95th percentile.

    >>> ranged("ms", [3.0, 1.0, 2.0])
    {'ms': 2.0, 'ms, p5': 1.1, 'ms, p95': 2.9}
    """
    steps = quantiles(values, n=20, method="inclusive") if len(values) > 1 else values
    cells = {column: median(values), f"{column}{LOW}": steps[0], f"{column}{HIGH}": steps[-1]}
    return {name: round(cell, digits or None) for name, cell in cells.items()}


def spread(name: str, milliseconds: Sequence[float]) -> dict[str, float]:
    """Return the cells of the median and of the 95th percentile, as columns of their own."""
    high = quantiles(milliseconds, n=20)[-1]
    return {f"{name} p50 ms": round(median(milliseconds), 2), f"{name} p95 ms": round(high, 2)}


def percent(values: Iterable[float], digits: int = 1) -> float:
    """Return the mean of values or of flags in percent."""
    return round(100 * fmean(values), digits)


def stored_bytes(folder: Path, pattern: str = "**/*") -> int:
    """Return the size of the files in a folder."""
    return sum(path.stat().st_size for path in folder.glob(pattern) if path.is_file())


def write(folder: Path, name: str, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as `name.json`, as a table in `name.md`, and as the figures of that name.

    A cell that a row lacks is empty. The files say when, where and with what they were made. The
    table is printed. Without matplotlib there are no figures.
    """
    folder.mkdir(parents=True, exist_ok=True)
    columns = dict.fromkeys(chain.from_iterable(rows), "")
    rows = [columns | dict(row) for row in rows]
    percentiles = "p5, p50, p95: percentiles of the samples of this run"
    has_spread = any("p95" in column for column in columns)
    shown = {"spread": percentiles if has_spread else "none", "units": units(rows)}
    results = {"title": title, **made(), **shown}
    text = json.dumps(results | {"rows": rows}, indent=1)
    (folder / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")
    page = f"# {title}\n\n{table(rows)}\n\n`{results['command']}`\n\n{_where(results)}\n"
    (folder / f"{name}.md").write_text(page, encoding="utf-8")
    draw(folder, name, rows)
    print(page)


def made() -> dict[str, Any]:
    """Return when, where and with what this program runs.

    What is random in a benchmark is drawn from fixed seeds. The command runs it once: medians and
    percentiles are of the many turns, calls or passes of that run.
    """
    return {
        "command": command(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _MEASURED,
        "versions": versions(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "seed": "fixed in the program",
        "runs": 1,
    }


def units(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the unit of each column, "text" where no cell is a number.

    >>> units([{"agent": "ebbtide", "budget": 4000, "over": 0}, {"agent": "x", "over": "no bound"}])
    {'agent': 'text', 'budget': 'tokens', 'over': 'tokens'}
    """
    columns = dict.fromkeys(chain.from_iterable(rows), "text")
    numbers = {name for row in rows for name, cell in row.items() if isinstance(cell, int | float)}
    return columns | {name: unit(name) for name in columns if name in numbers}


def unit(column: str) -> str:
    """Return the unit of a column of numbers, "number" for a count or a share of one.

    >>> unit("search p50 ms"), unit("worst call"), unit("recall"), unit("over")
    ('ms', 'tokens', 'number', 'tokens')
    """
    return next((unit for pattern, unit in _UNITS.items() if re.search(pattern, column)), "number")


_UNITS = {
    r"\bms\b|beside it\b": "ms",
    r"per s$": "turns/s",
    r"\bs(, p\d+)?$": "s",
    r"\bMB\b": "MB",
    r"\bKB\b": "KB",
    r"bytes|^raw$": "bytes",
    r"%|^R@|^all@|^turn R@|^[\d,]+ tokens$|^hints|^not weak|^as called|merged|apart$|above": "%",
    r"token|cost|budget|\bcall$|^over$|summaries$": "tokens",
}
"""The units by what the names of their columns have; the first that is found counts."""


def _processor() -> str:
    """Return the name of the processor, where the system has one."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _where(results: Mapping[str, Any]) -> str:
    place = f"{results['date']}, commit {results['commit']}, {results['processor']}"
    return f"{place}, {results['cores']} cores, {_joined(results['versions'])}"


def command() -> str:
    """Return the command that runs this program again."""
    return shlex.join(["python", *sys.argv])


def versions() -> dict[str, str]:
    """Return the versions of the measured packages and of the system."""
    packages = {name: number for name in _PACKAGES if (number := _version(name))}
    system = {"Python": platform.python_version(), "SQLite": sqlite3.sqlite_version}
    return {**packages, **system, "system": f"{platform.system()} {platform.machine()}"}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as a table in Markdown, with the percentiles of a median in its cell.

    >>> print(table([{"size": 1000, **ranged("took ms", [2.0, 2.5, 3.0])}]))
    | size | took ms |
    | --- | --- |
    | 1,000 | 2.5 (2.0-3.0) |
    """
    columns = [name for name in rows[0] if not name.endswith((LOW, HIGH))]
    head = [_line(columns), _line("---" for _ in columns)]
    return "\n".join([*head, *(_line(_cell(row, name) for name in columns) for row in rows)])


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _joined(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _cell(row: Mapping[str, Any], column: str) -> str:
    value, low, high = row[column], row.get(f"{column}{LOW}", ""), row.get(f"{column}{HIGH}", "")
    text = f"{value:,}" if isinstance(value, int) else str(value)
    return text if low == "" else f"{text} ({low}-{high})"


def _line(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"
