"""`ebbtide eval`: measure how well strategies keep the goal of a conversation."""

import asyncio
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

from ..evaluation.failures import TapeError
from ..evaluation.harness import Plan, Runners, run, trials_left
from ..evaluation.judge import Judge
from ..evaluation.matching import by_meaning, lexical
from ..evaluation.report import COSTS, SCORES, Metric, Report, Row, value_text, write
from ..evaluation.results import REPLAYED, Setup, Store, TrialResult, append, locked, mended
from ..evaluation.strategies import OURS, STRATEGIES, chosen
from ..evaluation.tape import Library, header, library, named
from ..evaluation.template import read_all, shipped
from ..graph.agent import choose_embedder
from ..graph.models import OFFLINE, model_name
from ..graph.offline_model import OfflineModel
from ..memory.errors import SettingsError
from .faults import installed_version, one_line
from .home import ConfigFile, configured
from .printable import in_line, printable
from .screen import fitted

_OFF = "off"
"""The name of no judge."""

_JUDGED = "judged"
_BY_LETTERS = "their letters (rapidfuzz's ratio, no embeddings were given)"
_BY_MEANING = "their meaning (cosine of {name})"


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the command was given; none of a kind means all that there are."""

    strategy: list[str] | None
    template: list[str] | None
    trials: int | None
    concurrency: int
    model: str | None
    judge: str | None
    embeddings: str | None
    prices: str | None
    out: Path
    record: Path | None
    replay: Path | None
    config: Path | None


def _ready(asked: _Asked) -> tuple[Plan, Runners]:
    """Return the plan and the crew; raises what is wrong with the options before any work."""
    if asked.replay and (asked.model or asked.judge or asked.record):
        raise typer.BadParameter("--replay names the model and the judge; leave out the others")
    embedder = choose_embedder(asked.embeddings)
    tapes = library(asked.replay) if asked.replay else None
    names = (tapes.model, tapes.judge) if tapes else _names(asked)
    settings = configured(None, None, asked.config).settings
    setup = Setup(
        version=installed_version(),
        model=names[0],
        judge=names[1],
        likeness=_BY_MEANING.format(name=asked.embeddings) if asked.embeddings else _BY_LETTERS,
        prices=_prices(asked.prices),
        settings=settings.model_dump(mode="json", exclude_unset=True),
        note=REPLAYED if tapes else "",
    )
    plan = _plan(asked, setup, tapes)
    chat = _loaded(names[0], replayed=tapes is not None)
    judging = _judge(setup, asked.out / _JUDGED, tapes)
    if asked.record:
        _begin(asked.record, setup)
    alike = by_meaning(embedder) if embedder else lexical
    return plan, Runners(chat, judging, embedder, alike, settings, tapes, asked.record)


def _names(asked: _Asked) -> tuple[str, str | None]:
    """Return who answers and who judges; the offline model can judge nothing."""
    name = model_name(configured(None, None, asked.config, asked.model).model, os.environ)
    judging = asked.judge or name
    return name, None if judging in {_OFF, OFFLINE} else judging


def _plan(asked: _Asked, setup: Setup, tapes: Library | None) -> Plan:
    strategies, templates, trials = named(tapes) if tapes else ([], [*shipped()], 1)
    return Plan(
        strategies=chosen(asked.strategy or strategies),
        templates=read_all(asked.template or templates),
        trials=asked.trials or trials,
        setup=setup,
        concurrency=asked.concurrency,
    )


def _judge(setup: Setup, folder: Path, tapes: Library | None) -> Judge | None:
    if setup.judge is None:
        return None
    if tapes:
        return Judge(setup.judge, None, folder, tapes.judged)
    return Judge(setup.judge, _loaded(setup.judge), folder)


def _loaded(name: str, *, replayed: bool = False) -> BaseChatModel:
    """Return a model by its name; one that is replayed needs no key."""
    if name == OFFLINE:
        return OfflineModel()
    try:
        model: BaseChatModel = (
            init_chat_model(name, api_key="-") if replayed else init_chat_model(name)
        )
    except Exception as error:  # each provider's package raises its own
        why = one_line(error, os.environ)
        raise SettingsError(f"model {name!r} cannot be used: {why}") from error
    return model


def _begin(path: Path, setup: Setup) -> None:
    """Begin a file of recorded answers, or go on with one of the same model and judge."""
    first = header(setup.model, setup.judge)
    if not path.exists() or not path.stat().st_size:
        append(path, first)
        return
    if not path.read_bytes().startswith(first.encode()):
        raise TapeError(
            f"{str(path)!r} does not hold answers of {setup.model!r}, judged by {setup.judge!r}: "
            "choose another file"
        )
    mended(path)


def _prices(written: str | None) -> tuple[float, float] | None:
    if written is None:
        return None
    try:
        read, wrote = map(float, written.split(","))
    except ValueError as error:
        raise typer.BadParameter(
            f"--prices needs two numbers: 0.25,2.00, not {written!r}"
        ) from error
    if not (0 <= read < float("inf") and 0 <= wrote < float("inf")):
        raise typer.BadParameter(f"--prices: {written!r} is no price")
    return read, wrote


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
    asked = _Asked(**locals())  # each option by its name
    with locked(out):
        plan, crew = _ready(asked)
        store = Store(out, plan.setup)
        _work(plan, crew, store)
        report = write(out, plan.setup, store.trials)
    _show(out, plan.setup, report, store)


def _work(plan: Plan, crew: Runners, store: Store) -> None:
    """Run the trials that are left, under a progress bar on stderr."""
    number = len(trials_left(plan, store))
    with Progress(*_BAR, console=Console(stderr=True)) as progress:
        task = progress.add_task("trials", total=number)

        def done(result: TrialResult) -> None:
            progress.update(task, advance=1, description=in_line(result.job.name))

        with warned_once():
            asyncio.run(run(plan, crew, store, done))


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


def _show(out: Path, setup: Setup, report: Report, store: Store) -> None:
    """Print the results, and end with exit code 1 if some are missing because of errors."""
    console = Console(highlight=False)
    for table in _tables(setup, report.rows):
        console.print(fitted(table, console))
    typer.echo(in_line(f"Quotes are compared by {setup.likeness}."))
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
    value = value_text(row.metrics.get(metric.name), metric.digits)
    if metric.name not in row.targets:
        return Text(value)
    met = row.targets[metric.name]
    return Text(f"{value} {'met' if met else 'missed'}", "green" if met else "red")
