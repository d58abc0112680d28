"""`ebbtide eval`: measure how well strategies keep the goal of a conversation."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

from ..evaluation.harness import left, run
from ..evaluation.metrics import COSTS, SCORES, Metric
from ..evaluation.report import Report, write
from ..evaluation.results import Setup, TrialResult
from ..evaluation.store import Store, locked
from ..evaluation.strategies import OURS, STRATEGIES
from ..evaluation.summary import Row
from ..evaluation.tables import written
from ..evaluation.templates import shipped
from .evaluation_setup import Asked, Ready, ready
from .home import ConfigFile
from .printable import in_line, printable
from .screen import fitted

_BAR = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
_FOLDER = Path("evaluation-results")

_Strategies: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        help=f"Of {', '.join(STRATEGIES)}; may be repeated (default: the first {len(OURS)})."
    ),
]
_Templates: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        help=f"Of {', '.join(shipped())}, or a file; may be repeated (default: all of these)."
    ),
]
_Answering: TypeAlias = Annotated[
    str | None, typer.Option(help="Compresses and answers; such as openai:gpt-5-mini, or offline.")
]
_Judging: TypeAlias = Annotated[
    str | None, typer.Option(help="Scores the answers (default: the model), or off.")
]
_Trials: TypeAlias = Annotated[
    int | None, typer.Option(min=1, max=1_000, help="How many of each (default: 1).")
]
_Embedding: TypeAlias = Annotated[
    str | None, typer.Option(help="Compares quotes by meaning: minilm (default: by letters).")
]
_Prices: TypeAlias = Annotated[
    str | None, typer.Option(help="Dollars per million tokens read and written: 0.25,2.00.")
]
_Replay: TypeAlias = Annotated[
    Path | None, typer.Option(help="Take all answers from this file: no measurement.")
]


def evaluate(  # noqa: PLR0913 (the options of a command)
    *,
    strategy: _Strategies = None,
    template: _Templates = None,
    model: _Answering = None,
    judge: _Judging = None,
    trials: _Trials = None,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = _FOLDER,
    embeddings: _Embedding = None,
    prices: _Prices = None,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Trials that run at once.")] = 4,
    record: Annotated[Path | None, typer.Option(help="Write all answers into this file.")] = None,
    replay: _Replay = None,
    config: ConfigFile = None,
) -> None:
    """Measure how well strategies keep a conversation's goal when they compress it.

    A run that was stopped goes on where it was if it is started again with the same options.
    """
    asked = Asked(**locals())  # each option by its name
    with locked(out):
        prepared = ready(asked)
        store = Store(out, prepared.plan.setup)
        _work(prepared, store)
        report = write(out, prepared.plan.setup, store.trials)
    _show(out, prepared, report, store)


def _work(prepared: Ready, store: Store) -> None:
    """Run the trials that are left, under a progress bar on stderr."""
    number = len(left(prepared.plan, store))
    with Progress(*_BAR, console=Console(stderr=True)) as progress:
        task = progress.add_task("trials", total=number)

        def done(result: TrialResult) -> None:
            progress.update(task, advance=1, description=in_line(result.job.name))

        with warned_once():
            asyncio.run(run(prepared.plan, prepared.crew, store, done))


@contextmanager
def warned_once() -> Iterator[None]:
    """Show a warning that every trial gives only once."""
    shown: set[str] = set()

    def is_new(record: logging.LogRecord) -> bool:
        before = len(shown)
        shown.add(record.getMessage())
        return len(shown) > before

    handler = logging.lastResort or logging.NullHandler()
    handler.addFilter(is_new)
    try:
        yield
    finally:
        handler.removeFilter(is_new)


def _show(out: Path, prepared: Ready, report: Report, store: Store) -> None:
    """Print the results, and end with exit code 1 if some are missing because of errors."""
    console = Console(highlight=False)
    for table in _tables(prepared.plan.setup, report.rows):
        console.print(fitted(table, console))
    typer.echo(in_line(f"Quotes are compared by {prepared.plan.setup.likeness}."))
    names = ", ".join(path.name for path in report.files)
    typer.echo(in_line(f"Wrote {names} to {out}."))
    if not report.drawn:
        typer.echo("For a plot, install matplotlib: pip install 'ebbtide[plots]'")
    wrong = [f"{one.job.name}: {error}" for one in store.trials for error in one.errors]
    if wrong:
        typer.echo(f"{len(wrong)} errors; the same command repeats the trials that have some:")
        typer.echo(printable("\n".join(wrong)))
        raise typer.Exit(1)


def _tables(setup: Setup, rows: Sequence[Row]) -> Iterator[Table]:
    """Yield a table for each template: a row for each metric, a column for each strategy."""
    for template, group in groupby(rows, key=lambda row: row.template):
        some = [*group]
        title = f"{template}{f' ({setup.note})' if setup.note else ''}"
        columns = [Column(in_line(row.strategy), justify="right") for row in some]
        table = Table("Metric", *columns, title=Text(in_line(title)))
        for metric in (*SCORES, *COSTS):
            if any(metric.name in row.metrics for row in some):
                table.add_row(_titled(metric, some[0]), *(_cell(row, metric) for row in some))
        yield table


def _titled(metric: Metric, row: Row) -> str:
    """Return a metric's title, with its target if it is one for the template."""
    if metric.target is None or not metric.applies(row.turns):
        return metric.title
    return f"{metric.title} {metric.target.sign} {metric.target.value:.2f}"


def _cell(row: Row, metric: Metric) -> Text:
    """Return a value, and whether it meets its target."""
    value = written(row.metrics.get(metric.name), metric.digits)
    if metric.name not in row.targets:
        return Text(value)
    met = row.targets[metric.name]
    return Text(f"{value} {'met' if met else 'missed'}", "green" if met else "red")
