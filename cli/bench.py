"""`ebbtide bench`: run benchmarks of a checkout in a small size."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..memory.errors import CommandError

_OURS = 'name = "ebbtide"'
"""The line of `pyproject.toml` by which a checkout is known."""


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of benchmarks (default: list them).")
    ] = None,
    *,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("bench-results"),
) -> None:
    """Run benchmarks in a small size, in a checkout of Ebbtide; without a name list them."""
    arguments = ["--out", str(out), *names] if names else ["--help"]
    program = [sys.executable, str(_program()), *arguments]
    raise typer.Exit(subprocess.run(program, check=False).returncode)  # noqa: S603 (our own program)


def _program() -> Path:
    """Return `benchmarks/run.py` of the checkout that the working directory is in."""
    here = Path.cwd()
    for checkout in (here, *here.parents):
        about, program = checkout / "pyproject.toml", checkout / "benchmarks" / "run.py"
        has_both = program.is_file() and about.is_file()
        if has_both and _OURS in about.read_text(encoding="utf-8").splitlines():
            return program
    raise CommandError(
        f"{here} is not in a checkout of Ebbtide, and an installed package has no benchmarks: "
        "run this in the folder of a checkout, after pip install '.[dev,bench,plots]' there"
    )
