"""All benchmarks in a small size, one after the other, or those that are named.

    python benchmarks/run.py --out out
    python benchmarks/run.py --out out growth hops

It takes less than half an hour on two cores; what a program printed is in `out/NAME.log`. The sizes
of the kept results, which take hours, stand in the results themselves.
"""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter

from report import argument_parser, write
from rich.progress import track

_HERE = Path(__file__).parent
_TESTS = _HERE.parent / "tests" / "memory"
_DATA = _HERE / "data"

SMALL: Mapping[str, Sequence[str]] = {
    "hops": (),
    "turn_cost": ("--turns", "100"),
    "context_cost": ("--turns", "100", "--jobs", "2"),
    "long_turn": ("--budgets", "8000"),
    "long_turn_growth": ("50", "100"),
    "faults": ("--kills", "20", "--turns", "40"),
    "growth": ("100", "300"),
    "middleware": ("--turns", "60"),
    "attachment": (),
    "attention": ("1000", "10000"),
    "search_kinds": (),
    "recall": ("--work", str(_DATA / "work_sessions.yaml")),
    "references": (),
    "planted_rules": (),
    "recorded": ("--data", str(_HERE / "recorded")),
    "deduplication": (
        *("--data", str(_TESTS / "paraphrases.json"), str(_TESTS / "pairs.json")),
        *("--sizes", "100"),
    ),
    "search_scale": ("1000",),
    "search_sessions": ("100", "1000"),
    "archive_scale": ("--turns", "5000"),
    "archive_load": ("--threads", "20", "--turns", "10"),
}
"""The arguments of each benchmark; `inspector.py`, which needs a browser, is not among them."""


def main() -> None:
    """Run the benchmarks; the exit code is 1 if one failed."""
    parser = argument_parser(__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(SMALL)}")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in SMALL]:
        parser.error(f"no benchmark {', '.join(unknown)}: name some of {', '.join(SMALL)}")
    options.out.mkdir(parents=True, exist_ok=True)
    rows = [_ran(name, options.out) for name in track(options.names or [*SMALL], "Benchmarks")]
    write(options.out, "run", "All benchmarks", rows)
    sys.exit(any(row["failed"] for row in rows))


def _ran(name: str, out: Path) -> dict[str, str | float | bool]:
    print(name, flush=True)
    start, arguments = perf_counter(), [*SMALL[name], "--out", str(out)]
    program = [sys.executable, str(_HERE / f"{name}.py"), *arguments]
    with (out / f"{name}.log").open("w", encoding="utf-8") as log:
        done = subprocess.run(program, stdout=log, stderr=log, check=False)  # noqa: S603
    if done.returncode:
        print(f"{name} failed: {out / name}.log says why", file=sys.stderr, flush=True)
    seconds = round(perf_counter() - start, 1)
    return {"benchmark": name, "s": seconds, "failed": bool(done.returncode)}


if __name__ == "__main__":
    main()
