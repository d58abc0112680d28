"""What `ebbtide eval` works with, made from its asked."""

import os
from dataclasses import dataclass
from pathlib import Path

import typer
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel

from ..evaluation.errors import TapeError
from ..evaluation.harness import Plan, Runners
from ..evaluation.judge import Judge
from ..evaluation.matching import by_meaning, lexical
from ..evaluation.results import REPLAYED, Setup
from ..evaluation.store import append, mended
from ..evaluation.strategies import chosen
from ..evaluation.tape import Library, header, library, named
from ..evaluation.templates import read_all, shipped
from ..graph.agent import choose_embedder
from ..graph.models import OFFLINE, model_name
from ..graph.offline_model import OfflineModel
from ..memory.errors import SettingsError
from .faults import installed_version, one_line
from .home import configured

OFF = "off"
"""The name of no judge."""

_JUDGED = "judged"
_BY_LETTERS = "their letters (rapidfuzz's ratio, no embeddings were given)"
_BY_MEANING = "their meaning (cosine of {name})"


@dataclass(frozen=True, slots=True)
class Asked:
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


@dataclass(frozen=True, slots=True)
class Ready:
    """A plan, and who carries it out."""

    plan: Plan
    crew: Runners


def ready(asked: Asked) -> Ready:
    """Return the plan and the crew; raises what is wrong with the options before any work."""
    if asked.replay and (asked.model or asked.judge or asked.record):
        raise typer.BadParameter("--replay names the model and the judge; leave out the others")
    embedder = choose_embedder(asked.embeddings)
    tapes = library(asked.replay) if asked.replay else None
    names = (tapes.model, tapes.judge) if tapes else _names(asked)
    setup = Setup(
        version=installed_version(),
        model=names[0],
        judge=names[1],
        likeness=_BY_MEANING.format(name=asked.embeddings) if asked.embeddings else _BY_LETTERS,
        prices=_prices(asked.prices),
        note=REPLAYED if tapes else "",
    )
    plan = _plan(asked, setup, tapes)
    chat = _loaded(names[0], replayed=tapes is not None)
    judging = _judge(setup, asked.out / _JUDGED, tapes)
    if asked.record:
        _begin(asked.record, setup)
    alike = by_meaning(embedder) if embedder else lexical
    settings = configured(None, None, asked.config).settings
    return Ready(plan, Runners(chat, judging, embedder, alike, settings, tapes, asked.record))


def _names(asked: Asked) -> tuple[str, str | None]:
    """Return who answers and who judges; the offline model can judge nothing."""
    name = model_name(configured(None, None, asked.config, asked.model).model, os.environ)
    judging = asked.judge or name
    return name, None if judging in {OFF, OFFLINE} else judging


def _plan(asked: Asked, setup: Setup, tapes: Library | None) -> Plan:
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
