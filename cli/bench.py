"""`ebbtide bench`: run benchmarks of a checkout in a small size."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from ..memory.errors import CommandError
from .home import choosing
from .printable import in_line

_PROGRAM = Path("benchmarks", "run.py")
_OURS = 'name = "ebbtide"'
"""The line of `pyproject.toml` by which a checkout is known."""


def _completed(incomplete: str) -> list[str]:
    with suppress(CommandError, OSError):
        return choosing(_names(_folder()))(incomplete)
    return []


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Names of benchmarks (default: list them).", autocompletion=_completed),
    ] = None,
    *,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("bench-results"),
) -> None:
    """Run benchmarks in a small size, in a checkout of Ebbtide; without a name list them."""
    folder = _folder()
    known = [*_names(folder)]
    if unknown := [name for name in names or () if name not in known]:
        raise typer.BadParameter(f"no benchmark {unknown[0]!r}: use one of {', '.join(known)}")
    if not names:
        for name in known:
            typer.echo(f"{name}: {_title(folder / f'{name}.py')}")
        return
    program = [sys.executable, str(folder / _PROGRAM.name), "--out", str(out), *names]
    code = subprocess.run(program, check=False).returncode  # noqa: S603 (a checkout's own program)
    if code:
        raise typer.Exit(code)
    typer.echo(in_line(f"The results are in {out}."))


def _folder() -> Path:
    """Return the folder of the benchmarks, of the checkout that the working directory is in."""
    here = Path.cwd()
    for checkout in (here, *here.parents):
        about = checkout / "pyproject.toml"
        has_both = (checkout / _PROGRAM).is_file() and about.is_file()
        if has_both and _OURS in about.read_text(encoding="utf-8").splitlines():
            return checkout / _PROGRAM.parent
    raise CommandError(
        f"{here} is not in a checkout of Ebbtide, and an installed package has no benchmarks: "
        "run this in the folder of a checkout, after pip install '.[dev,bench,plots]' there"
    )


def _names(folder: Path) -> Iterator[str]:
    """Yield the keys of `SMALL` without running what defines it: a shell asks at every Tab."""
    for statement in ast.parse((folder / _PROGRAM.name).read_text(encoding="utf-8")).body:
        match statement:
            case ast.AnnAssign(target=ast.Name("SMALL"), value=ast.Dict(keys)):
                yield from (ast.literal_eval(key) for key in keys if key)


def _title(program: Path) -> str:
    """Return the first line of a program's docstring."""
    text = ast.get_docstring(ast.parse(program.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]
