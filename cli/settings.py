"""`ebbtide settings`: a table of the settings that are in force, and where each was given."""

import os
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from ..graph.config import NAMES, Config, Keys, load
from ..graph.settings_table import described, written
from .faults import discreet
from .printable import printable

_OTHERS = ("Value", "From", "Range", "Meaning")


def settings(path: Path | None) -> None:
    """Print a row for each setting: its value, who gave it, its range and its meaning."""
    config = load({}, environment=os.environ, path=path)
    listed = Table(Column("Setting", no_wrap=True), *map(_folded, _OTHERS))
    for name in NAMES:
        listed.add_row(*(Text(printable(cell)) for cell in _row(name, config)))
    Console(highlight=False).print(listed)


def _folded(header: str) -> Column:
    return Column(header, overflow="fold")


def _row(name: str, config: Config) -> tuple[str, ...]:
    """Return the cells of a setting, as the program, the environment or the file has it."""
    values = {**dict(config.settings), "model": config.model, "root": discreet(config.root)}
    row = described(name, Keys.model_fields[name])
    return name, written(values[name]), config.given.get(name, "default"), row.range, row.meaning
