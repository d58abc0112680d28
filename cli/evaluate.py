"""`ebbtide eval`: measure how well strategies keep the goal of a conversation."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..evaluation.harness import left, run
from ..evaluation.report import Report, write
from ..evaluation.results import TrialResult
from ..evaluation.store import Store, locked
from . import evaluation_options as given
from .evaluation_setup import Options, Ready, ready
from .evaluation_tables import shown
from .options import ConfigFile
from .printable import in_line, printable

_BAR = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
_FOLDER = Path("evaluation-results")


def evaluate(  # noqa: PLR0913 (the options of a command)
    *,
    strategy: given.Strategies = None,
    template: given.Templates = None,
    model: given.Answering = None,
    judge: given.Judging = None,
    trials: given.Trials = None,
    out: given.Out = _FOLDER,
    embeddings: given.Embedding = None,
    prices: given.Prices = None,
    concurrency: given.Concurrency = 4,
    record: given.Record = None,
    replay: given.Replay = None,
    config: ConfigFile = None,
) -> None:
    """Measure how well strategies keep a conversation's goal when they compress it.

    A run that was stopped goes on where it was if it is started again with the same options.
    """
    options = Options(tuple(strategy or ()), tuple(template or ()), trials, concurrency)
    with locked(out):
        models, files = (model, judge, embeddings, prices), (out, record, replay)
        prepared = ready(options, models, files, config)
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
    for table in shown(prepared.plan.setup, report.rows):
        console.print(table)
    typer.echo(in_line(f"Quotes are compared by {prepared.plan.setup.likeness}."))
    written = ", ".join(path.name for path in report.files)
    typer.echo(in_line(f"Wrote {written} to {out}."))
    if not report.drawn:
        typer.echo("For a plot, install matplotlib: pip install 'ebbtide[plots]'")
    wrong = [f"{one.job.name}: {error}" for one in store.trials for error in one.errors]
    if wrong:
        typer.echo(f"{len(wrong)} errors; the same command repeats the trials that have some:")
        typer.echo(printable("\n".join(wrong)))
        raise typer.Exit(1)
