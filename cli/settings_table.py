"""`ebbtide settings`: the settings in force, where each was given, and the table of all."""

import os
from collections.abc import Iterator
from textwrap import fill
from types import NoneType
from typing import Annotated, Literal, get_args, get_origin

import typer
from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo
from rich.console import Console

from ..graph.config import NAMES, Config, Keys, load
from ..memory.settings import Settings
from .faults import discreet
from .home import ConfigFile
from .printable import printable

_SIGNS = {Ge: "≥", Gt: ">", Le: "≤", Lt: "<"}
"""The limits that a setting can have, as they are written."""


def _value_text(value: object) -> str:
    """Return a value with its digits grouped as in source text.

    >>> _value_text(16000), _value_text(0.25), _value_text(None)
    ('16_000', '0.25', 'none')
    """
    if value is None:
        return "none"
    return f"{value:_}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def settings_table() -> str:
    """Return a Markdown table with a row for each setting."""
    rows = (_row(name, field) for name, field in Settings.model_fields.items())
    return "\n".join(
        ("| setting | default | range | meaning |", "| --- | --- | --- | --- |", *rows)
    )


def _row(name: str, field: FieldInfo) -> str:
    default = "none" if field.default is None else f"`{_value_text(field.default)}`"
    meaning = (field.description or "").replace("|", "\\|")
    return f"| `{name}` | {default} | {_range(field)} | {meaning} |"


def _range(field: FieldInfo) -> str:
    if choices := _choices(field.annotation):
        return ", ".join(f"`{choice}`" for choice in choices)
    limits = [
        f"{sign} {_value_text(getattr(limit, kind.__name__.lower()))}"
        for kind, sign in _SIGNS.items()
        for limit in field.metadata
        if isinstance(limit, kind)
    ]
    return ", ".join(limits) or "any"


def _choices(annotation: object) -> tuple[object, ...]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    parts = [part for part in get_args(annotation) if part is not NoneType]
    return _choices(parts[0]) if len(parts) == 1 else ()


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
        field, given = Keys.model_fields[name], config.given.get(name, "default")
        meaning = f"{field.description}; {_range(field)}"
        yield f"{name}: {_value_text(values[name])} ({given})", meaning
