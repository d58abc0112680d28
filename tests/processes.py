"""Python in processes of its own, forked from one that has imported already what agents need.

To start Python and import all of that takes seconds, most programs of the tests a fraction of one.
What stands or falls with a new process, such as another order of sets, starts one itself.
"""

import os
import runpy
import signal
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import forkserver, get_context
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

import pytest

from tests.draws import SOAK

ROOT = Path(__file__).parents[1]

_PATIENCE = 7_000.0 if SOAK else 240.0
"""Seconds that a program may take before it is killed: fewer than a test may take."""

_FORKS = get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.imported", "pytest"])


def forks() -> ForkServerContext:
    """Return how processes are forked from the one that has imported all, which runs by then."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))  # Python 3.11 does not tell the server where it is
        forkserver.ensure_running()
    return _FORKS


@dataclass(frozen=True)
class Ended:
    """What a program that has ended printed, on stdout and on stderr, and its exit code."""

    printed: str
    failed: str
    code: int | None


def ended(
    arguments: Sequence[str],
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    typed: str = "",
) -> Ended:
    """Run Python with these arguments, a text on stdin, and wait until it ends."""
    with TemporaryDirectory() as kept:
        streams = [Path(kept, name) for name in ("stdin", "stdout", "stderr")]
        streams[0].write_text(typed, encoding="utf-8")
        process = begun(arguments, folder or Path.cwd(), environment, [*map(str, streams)])
        process.join(_PATIENCE)
        if process.is_alive():
            process.kill()
            process.join(_PATIENCE)
        printed, failed = (path.read_text(encoding="utf-8") for path in streams[1:])
        return Ended(printed, failed, process.exitcode)


def begun(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] | None,
    streams: Sequence[str],
) -> ForkServerProcess:
    """Run Python with these arguments in a folder: `-c` and code, `-m` and a module, or a file.

    It begins a session of its own. `streams` are paths for stdin, stdout and stderr; `-W error`
    may come first. Whoever calls this joins the process.
    """
    told = dict(os.environ if environment is None else environment)
    process = forks().Process(target=_main, args=([*arguments], folder, told, [*streams]))
    process.start()
    return process


@contextmanager
def printing(arguments: Sequence[str], folder: Path) -> Iterator[TextIO]:
    """Run Python with these arguments, yield what it prints while it runs, and kill it."""
    with TemporaryDirectory() as kept:
        pipe = Path(kept, "stdout")
        os.mkfifo(pipe)
        process = begun(arguments, folder, None, [os.devnull, str(pipe), os.devnull])
        with pipe.open(encoding="utf-8") as printed:
            try:
                yield printed
            finally:
                process.kill()
                process.join()


def _main(
    arguments: list[str], folder: Path, environment: dict[str, str], streams: list[str]
) -> None:
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in enumerate(streams):
        written = os.O_CREAT | os.O_TRUNC if number else 0
        os.dup2(os.open(path, os.O_RDWR | os.O_NOCTTY | written), number)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 (open as long as the process)
        for number, mode in enumerate("rww")
    )
    signal.signal(signal.SIGINT, signal.default_int_handler)  # an ignored one is inherited
    if arguments[:2] == ["-W", "error"]:
        del arguments[:2]
        warnings.simplefilter("error")
    _run(arguments)


def _run(arguments: list[str]) -> None:
    first, *rest = arguments
    if first not in {"-c", "-m"}:
        sys.argv = arguments
        sys.path.insert(0, str(Path(first).parent))
        runpy.run_path(first, run_name="__main__")
        return
    sys.argv = [first, *rest[1:]]
    if first == "-m":
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 (the program of a test)
