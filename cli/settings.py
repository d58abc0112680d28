"""`ebbtide settings`: the settings that are in force, and where each was given."""

import os
from collections.abc import Iterator
from textwrap import fill
from typing import Annotated

import typer
from rich.console import Console

from ..graph.config import NAMES, Config, Keys, load
from ..graph.settings_table import described, settings_table, written
from .faults import discreet
from .home import ConfigFile
from .printable import printable

_INDENT = "  "


def settings(
    *,
    config: ConfigFile = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the table of docs/settings.md instead.")
    ] = False,
) -> None:
    """Show the settings that are in force, and where each was given."""
    if markdown:
        typer.echo(settings_table())
        return
    width = Console().width
    for head, meaning in _listed(load({}, environment=os.environ, path=config)):
        typer.echo(printable(head))
        typer.echo(fill(meaning, width, initial_indent=_INDENT, subsequent_indent=_INDENT))


def _listed(config: Config) -> Iterator[tuple[str, str]]:
    """Yield each setting with its value and who gave it, then its meaning and its range."""
    values = {**dict(config.settings), "model": config.model, "root": discreet(config.root)}
    for name in NAMES:
        row = described(name, Keys.model_fields[name])
        given = config.given.get(name, "default")
        yield f"{name}: {written(values[name])} ({given})", f"{row.meaning}; {row.range}"
