"""Replay recorded answers: how well their quotes keep the goal of a conversation.

python benchmarks/recorded.py --data benchmarks/recorded --out benchmarks/results

Each file of the folder was written by `ebbtide eval --record`. No model is called: the answers are
replayed in their order, so the figures are those of the present code.
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

_COLUMNS = {
    "salience_precision": "precision",
    "salience_recall": "recall",
    "goal_coherence": "coherence",
    "constraint_recall": "constraints",
    "behavioural_alignment": "behaviour",
    "verbatim_rate": "verbatim",
    "compression_ratio": "ratio",
}


def replayed(tape: Path, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the scores of each trial in a file of recorded answers, None where there is none."""
    with redirect_stdout(io.StringIO()) as output:
        failed = app(["eval", "--replay", str(tape), "--out", str(folder)], standalone_mode=False)
    if failed:
        raise SystemExit(f"{tape} cannot be replayed: {output.getvalue()}")
    for row in json.loads((folder / "results.json").read_text(encoding="utf-8"))["rows"]:
        names = {"answers": tape.stem, "template": row["template"], "strategy": row["strategy"]}
        means = {name: row["metrics"].get(name, {}).get("mean") for name in _COLUMNS}
        scores = {_COLUMNS[name]: mean and round(mean, 3) for name, mean in means.items()}
        yield {**names, **scores}


def main() -> None:
    """Replay all files of a folder."""
    parser = argument_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for tape in sorted(options.data.glob("*.jsonl")):
        with TemporaryDirectory() as folder:
            rows += replayed(tape, Path(folder))
    write(options.out, "recorded", "Recorded answers, replayed", rows)


if __name__ == "__main__":
    main()
