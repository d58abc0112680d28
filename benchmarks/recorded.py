"""Replay recorded answers: how well their quotes keep the goal of a conversation.

python benchmarks/recorded.py --data benchmarks/recorded --out benchmarks/results

Each file of the folder was written by `ebbtide eval --record`, with the options below. No model is
called: each request has its recorded answer, so the figures are those of the present code.
"""

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from report import argument_parser, write

from ebbtide.cli.main import app

_TEMPLATES = (
    *("coding-session", "incident-night-payments", "long-support-case"),
    *("medical-eye-operation", "purchase-cold-van"),
)
_OPTIONS = (
    *("--model", "openai:blind-reader", "--judge", "openai:blind-judge"),
    *("--strategy", "selective-salience"),
    *(word for name in _TEMPLATES for word in ("--template", name)),
)
"""The options of the recordings."""

_COLUMNS = {
    "salience_precision": "precision",
    "salience_recall": "recall",
    "goal_coherence": "coherence",
    "constraint_recall": "constraints",
    "behavioural_alignment": "behaviour",
    "verbatim_rate": "verbatim",
    "compression_ratio": "ratio",
}


def replayed(answers: Path, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the scores of each trial in a file of recorded answers, None where there is none."""
    with redirect_stdout(io.StringIO()) as output:
        command = ["eval", *_OPTIONS, "--replay", str(answers), "--out", str(folder)]
        failed = app(command, standalone_mode=False)
    if failed:
        raise SystemExit(f"{answers} cannot be replayed: {output.getvalue()}")
    for row in json.loads((folder / "results.json").read_text(encoding="utf-8"))["rows"]:
        names = {"answers": answers.stem, "template": row["template"], "strategy": row["strategy"]}
        means = {name: row["metrics"].get(name, {}).get("mean") for name in _COLUMNS}
        scores = {_COLUMNS[name]: mean and round(mean, 3) for name, mean in means.items()}
        yield {**names, **scores}


def main() -> None:
    """Replay all files of a folder."""
    parser = argument_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for answers in sorted(options.data.glob("*.jsonl")):
        with TemporaryDirectory() as folder:
            rows += replayed(answers, Path(folder))
    write(options.out, "recorded", "Recorded answers, replayed", rows)


if __name__ == "__main__":
    main()
