"""The results of a folder as files: JSON for programs, Markdown and a picture for people."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .plots import plot
from .results import Setup, TrialResult
from .summary import Row, rows
from .tables import page

JSON, TABLE, PICTURE = "results.json", "results.md", "results.png"


@dataclass(frozen=True, slots=True)
class Report:
    """What was written, whether there is a picture, and the rows of the table."""

    files: tuple[Path, ...]
    drawn: bool
    rows: tuple[Row, ...]


def write(folder: Path, setup: Setup, trials: Sequence[TrialResult]) -> Report:
    """Write `results.json`, `results.md` and, with matplotlib, `results.png`, anew each time."""
    ordered = sorted(trials, key=lambda one: (one.template, one.strategy, one.trial))
    found = rows(ordered)
    made = {
        "note": setup.note,
        "setup": setup.model_dump(),
        "rows": [row.model_dump() for row in found],
        "trials": [one.model_dump() for one in ordered],
    }
    _replace(folder / JSON, json.dumps(made, indent=1, ensure_ascii=False) + "\n")
    _replace(folder / TABLE, page(setup, found, ordered))
    drawn = plot(folder / PICTURE, setup, found)
    names = (JSON, TABLE, *((PICTURE,) if drawn else ()))
    return Report(tuple(folder / name for name in names), drawn, found)


def _replace(path: Path, text: str) -> None:
    draft = path.with_suffix(f"{path.suffix}.new")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
