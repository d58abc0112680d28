"""`docs/settings.md` and `docs/numbers.md`, made from the code: `make docs` writes them."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ebbtide.cli.reports import settings_table

ROOT = Path(__file__).parents[1]
FOLDERS = ("memory", "nodes", "graph", "cli", "evaluation")

SETTINGS = """\
# Settings

What a user can say why he changes: each is a field of `ebbtide.Settings`, for an agent
(`settings=Settings(...)`) or for one run (`context={...}`). The commands and the server also read
them from `ebbtide.yaml` (`context_budget: 8000`) and from variables such as
`EBBTIDE_CONTEXT_BUDGET`, beside `model` and `root`; an option beats a variable, which beats the
file. `ebbtide settings` shows those in force and who gave each. Other numbers are constants:
[numbers.md](numbers.md).

"""

NUMBERS = """\
# Numbers

The constants of the code, with the reason that stands beside each. They are no settings
([settings.md](settings.md)): changing one is a change of the rule that reads it.

| file | constant | value | why |
| --- | --- | --- | --- |
"""


_MADE_BY = {"frozenset", "log", "range", "round"}
_SHAPE = (
    *(ast.Constant, ast.Tuple, ast.Set, ast.Dict, ast.Starred, ast.Call, ast.Name),
    *(ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop, ast.expr_context),
)
"""The parts of an expression whose value can be numbers."""


@cache  # all tests of the pages look at the same code
def pages() -> dict[str, str]:
    """Return what each page must hold."""
    sources = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    rows = [row for path in sources for row in rows_of(path)]
    return {
        "docs/settings.md": f"{SETTINGS}{settings_table()}\n",
        "docs/numbers.md": "\n".join([NUMBERS.rstrip(), *rows, ""]),
    }


def rows_of(path: Path) -> Iterator[str]:
    """Yield a row for each constant of a module or a class that is a number, or some."""
    text = path.read_text(encoding="utf-8")
    module = ast.parse(text)
    bodies = [node.body for node in ast.walk(module) if isinstance(node, ast.ClassDef)]
    where, lines = path.relative_to(ROOT).as_posix(), text.splitlines()
    for body in [module.body, *bodies]:
        for statement, after in zip(body, [*body[1:], None], strict=True):
            name, value = _constant(statement)
            if name and _numeric(value):
                written = ast.unparse(value).replace("|", "\\|") if value else ""
                why = _why(statement, after, lines)
                yield f"| {where} | `{name}` | {written} | {why} |"


def _constant(statement: ast.stmt) -> tuple[str, ast.expr | None]:
    """Return the name and the value of a constant, an empty name of what is none."""
    if isinstance(statement, ast.AnnAssign) and "ClassVar" in ast.unparse(statement.annotation):
        return ast.unparse(statement.target), statement.value
    if isinstance(statement, ast.AnnAssign):
        name, value = ast.unparse(statement.target), statement.value
    elif isinstance(statement, ast.Assign):
        name, value = ast.unparse(statement.targets[0]).strip("()"), statement.value
    else:
        return "", None
    return (name if name.isupper() else ""), value


def _numeric(value: ast.expr | None) -> bool:
    """Tell whether a value is made of numbers alone, perhaps named ones, or is some by their names.

    What only repeats another constant says nothing.
    """
    if value is None:
        return False
    nodes = [*ast.walk(value)]
    keys = {key for node in nodes if isinstance(node, ast.Dict) for key in node.keys}
    leaves = [node for node in nodes if isinstance(node, ast.Constant) and node not in keys]
    named = [node.id for node in nodes if isinstance(node, ast.Name)]
    shape = all(isinstance(node, _SHAPE) for node in nodes)
    known = all(name.isupper() or name in _MADE_BY for name in named)
    numbers = all(type(leaf.value) in {int, float} for leaf in leaves)
    return shape and known and bool(leaves) and numbers


def _why(statement: ast.stmt, after: ast.stmt | None, lines: list[str]) -> str:
    """Return the docstring below a constant, else the comment beside or above it."""
    if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
        return " ".join(str(after.value.value).split()).replace("|", "\\|")
    beside = lines[(statement.end_lineno or 1) - 1].partition("#")[2].strip()
    above = lines[statement.lineno - 2].strip()
    why = beside or (above.removeprefix("#").strip() if above.startswith("#") else "")
    return f"{why[:1].upper()}{why[1:].removesuffix('.')}." if why else ""


if __name__ == "__main__":
    for page, held in pages().items():
        (ROOT / page).write_text(held, encoding="utf-8")
