"""The results of a benchmark as files: JSON for programs, Markdown for people."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def write(folder: Path, name: str, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of one shape as `name.json` and as a table in `name.md`, and print the table."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [_line(rows[0].keys()), _line("---" for _ in rows[0]), *map(_line, map(_cells, rows))]
    text = f"# {title}\n\n" + "\n".join(lines) + "\n"
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
    (folder / f"{name}.json").write_text(json.dumps(list(rows), indent=1) + "\n", encoding="utf-8")
    print(text)


def _cells(row: Mapping[str, Any]) -> list[str]:
    return [f"{value:,}" if isinstance(value, int) else str(value) for value in row.values()]


def _line(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"
