"""The examples' part of the page of benchmarks, and what of it an example did not print."""

import re

from tests.pages import text

_SECTION = text("docs/benchmarks.md").split("\n## ")[1]
_COMMAND = r"^`(?:python examples/(\w+)\.py|ebbtide (demo))`"
_, *_PARTS = re.split(_COMMAND, _SECTION, flags=re.MULTILINE)
SHOWN = {
    example or demo: said
    for example, demo, said in zip(_PARTS[::3], _PARTS[1::3], _PARTS[2::3], strict=True)
    if "\n| " in said
}
_WIDE = 5  # cells of a row that is printed as it stands on the page


def _rows(page: str, sign: str) -> list[list[str]]:
    """Return the cells of the rows of the tables of a page, which a sign divides."""
    lines = [line.strip() for line in page.splitlines() if line.startswith(f"{sign} ")]
    return [[cell.strip() for cell in line.strip(sign).split(sign)] for line in lines]


def not_printed(name: str, printed: str) -> list[str]:
    """Return the figures and words in a cell of their own, and the rows, that are not printed."""
    rows, shown = _rows(SHOWN[name], "|"), _rows(printed, "│")
    figures = [cell for row in rows for cell in row[1:] if cell.startswith("`")]
    whole = [row for row in rows if len(row) >= _WIDE and row[-1][0].isdigit()]
    missing = [one for one in figures if one.strip("`") not in printed]
    return missing + [", ".join(row) for row in whole if row not in shown]
