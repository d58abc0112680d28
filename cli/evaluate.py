"""`ebbtide eval`: measure how well strategies keep the goal of a conversation."""

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

import typer
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

from .. import __version__
from ..evaluation.answers import Answers
from ..evaluation.harness import Plan
from ..evaluation.judge import Judge
from ..evaluation.lines import append
from ..evaluation.report import PICTURE, Report
from ..evaluation.results import REPLAYED, Setup, TrialResult, read_trials
from ..evaluation.strategies import STRATEGIES, select
from ..evaluation.template import SHIPPED, read_templates
from ..graph.agent import choose_embedder
from ..graph.models import SCRIPTED, model_name
from ..memory.metrics import prices_of
from ..memory.questions import What
from ..testing import ScriptedModel
from .home import (
    Compressing,
    ConfigFile,
    Extracting,
    Home,
    as_settings_error,
    configured,
    installing,
    remedy_for,
)
from .printable import in_line, printable, without_secrets
from .reports import Prices
from .screen import print_part

_BAR = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())

_Strategies = Annotated[
    list[str] | None,
    typer.Option(help=f"{', '.join(STRATEGIES)}; repeat it for several (default: all)."),
]
_Templates = Annotated[
    list[str] | None,
    typer.Option(
        help=f"{', '.join(SHIPPED)}, or a file; repeat it for several (default: all of these)."
    ),
]
_Answering = Annotated[
    str | None,
    typer.Option(help="Model that compresses and answers, such as scripted."),
]
_Judging = Annotated[
    str | None, typer.Option(help="Model that scores the answers (default: --model), or off.")
]
_Trials = Annotated[int, typer.Option(min=1, max=1_000, help="Trials per strategy and template.")]
_Embedding = Annotated[
    str | None, typer.Option(help="For comparing quotes by meaning: minilm (default: by letters).")
]
_Replay = Annotated[
    Path | None,
    typer.Option(help="Replay this file; the other options must be those of the recording."),
]


def evaluate(  # noqa: PLR0913 (the options of a command)
    *,
    strategy: _Strategies = None,
    template: _Templates = None,
    model: _Answering = None,
    extraction_model: Extracting = None,
    compression_model: Compressing = None,
    judge: _Judging = None,
    trials: _Trials = 1,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("evaluation-results"),
    embeddings: _Embedding = None,
    prices: Prices = None,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Trials that run at once.")] = 4,
    record: Annotated[Path | None, typer.Option(help="Write all answers into this file.")] = None,
    replay: _Replay = None,
    config: ConfigFile = None,
) -> None:
    """Measure how well strategies keep a conversation's goal when they compress it.

    To continue a run that was stopped, start it again with the same options.
    """
    if replay and record:
        raise typer.BadParameter("--record keeps a model's answers, --replay asks none: leave one")
    models = {"extraction_model": extraction_model, "compression_model": compression_model}
    home = configured(None, None, config, model=model, **models)
    setup = _setup(home, judge, embeddings, prices, note=REPLAYED if replay else "")
    kept = replay or record
    answers = Answers(kept, replayed=bool(replay)) if kept else None
    load = cache(partial(_loaded, setup=setup))  # one object for one name
    judged = answers or Answers(out / "judged.jsonl")
    named: dict[What, str | None] = {
        "extraction": home.settings.extraction_model,
        "background": home.settings.compression_model,
    }
    plan = Plan(
        strategies=select(strategy or []),
        templates=read_templates(template or SHIPPED),
        setup=setup,
        model=load(setup.model),
        models={what: load(name) for what, name in named.items() if name},
        judge=Judge(setup.judge, load(setup.judge), judged) if setup.judge else None,
        embedder=choose_embedder(embeddings),
        settings=home.settings,
        trials=trials,
        concurrency=concurrency,
        answers=answers,
        discreet=lambda text: without_secrets(text, os.environ),
    )
    _run(plan, out)


def _setup(
    home: Home, judge: str | None, embeddings: str | None, prices: str | None, *, note: str
) -> Setup:
    """Return the setup that the results will be of; the scripted model can judge nothing."""
    name = model_name(home.model, os.environ)
    judge_name = judge or name
    by_letters = "their letters (rapidfuzz's ratio, no embeddings were given)"
    return Setup(
        version=__version__,
        model=name,
        judge=None if judge_name in {"off", SCRIPTED} else judge_name,
        likeness=f"their meaning (cosine of {embeddings})" if embeddings else by_letters,
        prices=prices_of(prices)[:2] if prices is not None else None,
        settings=home.settings.model_dump(mode="json", exclude_unset=True),
        note=note,
    )


def _loaded(name: str, setup: Setup) -> BaseChatModel:
    """Return a model by its name; a replayed one needs no key."""
    if name == SCRIPTED:
        return ScriptedModel()
    key: Any = {"api_key": "-"} if setup.note else {}
    with as_settings_error(f"model {name!r}", "" if key else remedy_for(name, os.environ)):
        model: BaseChatModel = init_chat_model(name, **key)
        return model


def _run(plan: Plan, out: Path) -> None:
    """Run the pending trials with a progress bar on stderr, then write and print all results."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "trials.jsonl"
    trials = read_trials(path, plan.setup)
    pending = plan.pending(trials)  # its error comes before the bar, which prints a line
    with Progress(*_BAR, console=Console(stderr=True)) as progress, warned_once():
        task = progress.add_task("trials", total=len(pending))

        def keep(trial: TrialResult) -> None:
            append(path, trial)
            trials[trial.name] = trial
            progress.update(task, advance=1, description=in_line(trial.name))

        asyncio.run(plan.run(pending, keep))
    report = Report(plan.setup, trials.values())
    files = report.write(out)
    _print_tables(report)
    typer.echo(in_line(f"Model: {plan.setup.model}. Judge: {plan.setup.judge or 'none'}."))
    typer.echo(in_line(f"Quotes are compared by {plan.setup.likeness}."))
    typer.echo(in_line(f"Wrote {', '.join(files)} to {out}."))
    if PICTURE not in files:
        typer.echo(f"For a plot, {installing('plots')}")
    if report.errors:
        number = len(report.errors)
        typer.echo(f"{number} errors; the same command repeats the trials that have some:")
        typer.echo(printable("\n".join(report.errors)))
        raise typer.Exit(1)


@contextmanager
def warned_once() -> Iterator[None]:
    """Print a warning that every trial repeats only once."""
    messages: set[str] = set()

    def is_new(record: logging.LogRecord) -> bool:
        number = len(messages)
        messages.add(record.getMessage())
        return len(messages) > number

    handler = logging.lastResort or logging.NullHandler()
    handler.addFilter(is_new)
    try:
        yield
    finally:
        handler.removeFilter(is_new)


def _print_tables(report: Report) -> None:
    """Print a table for each template: a row for each metric, a column for each strategy."""
    console = Console(highlight=False)
    for template, rows, metrics in report.by_template():
        title = f"{template}{f' ({report.setup.note})' if report.setup.note else ''}"
        columns = [Column(in_line(row.strategy), justify="right") for row in rows]
        table = Table("Metric", *columns, title=Text(in_line(title)))
        for metric in metrics:
            table.add_row(metric.heading, *(row.value(metric) for row in rows))
        print_part(table, console)
