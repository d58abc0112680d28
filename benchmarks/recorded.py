"""Replay recorded answers: how well their quotes keep the goal of a conversation.

python benchmarks/recorded.py --data benchmarks/recorded --out benchmarks/results

Each file of the folder was written by `ebbtide eval --record`, with the options below. No model is
called: each request has its recorded answer, so the figures are those of the present code. A second
table has the quotes of each point that misses the aim for precision, and are not of its truth:
"held before" if the truth had them until something revised them, else "not listed". A third one has
the constraints that an answer lacked or made up, in the judge's view, where a point misses its aim.
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
from ebbtide.evaluation.harness import matches
from ebbtide.evaluation.lines import read_lines
from ebbtide.evaluation.results import PointScores, TrialResult
from ebbtide.evaluation.template import Template, read_template

_TEMPLATES = (
    *("coding-session", "incident-night-payments", "long-support-case"),
    *("medical-eye-operation", "purchase-cold-van"),
    *("research-synthesis-001", "test-edge-cases", "test-simple"),
)
_OPTIONS = (
    *("--model", "openai:blind-reader", "--judge", "openai:blind-judge"),
    *("--strategy", "selective-salience"),
    *(word for name in _TEMPLATES for word in ("--template", name)),
)
"""The options of the recordings."""

_PRECISION = 0.75
"""The aim for the precision of quotes."""

_CONSTRAINT_RECALL = 0.95
"""The aim for the recall of constraints."""

_GOAL = {
    "answers": "goal",
    "precision": f"> {_PRECISION}",
    "recall": f"> {_PRECISION}",
    "coherence": "> 0.9",
    "constraints": f"> {_CONSTRAINT_RECALL}",
    "verbatim": "1.0",
    "ratio": "< 0.5, of 40 turns and more",
}
"""The aims, as a last row."""

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


def _trials(folder: Path) -> list[TrialResult]:
    """Return the trials of a folder in a fixed order, as they end in another one in each run."""
    trials = read_lines(folder / "trials.jsonl", TrialResult)
    return sorted(trials, key=lambda trial: trial.name)


def wrong(answers: Path, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the quotes that are not of the truth, at the points of a folder that miss the aim."""
    for trial in _trials(folder):
        template = read_template(trial.template)
        for point in trial.points:
            if point.salience_precision is not None and point.salience_precision <= _PRECISION:
                place = {"answers": answers.stem, "template": trial.template, "point": point.point}
                for quote, why in _unlisted(template, point):
                    yield {**place, "why": why, "quote": quote.replace("|", "/")}


def constraints(answers: Path, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the constraints that the answers of a folder lacked or made up, by the judge."""
    for trial in _trials(folder):
        for point in trial.points:
            recall = point.constraint_recall
            if recall is None or recall > _CONSTRAINT_RECALL:
                continue
            place = {"answers": answers.stem, "template": trial.template, "point": point.point}
            for why, found in (("lacking", point.unknown), ("made up", point.invented)):
                for text in found:
                    yield {**place, "why": why, "constraint": text.replace("|", "/")}


def _unlisted(template: Template, point: PointScores) -> Iterator[tuple[str, str]]:
    """Yield each quote that is no sentence of the truth and was not given, and why it is wrong."""
    place = template.points[point.point - 1]
    quotes = template.as_salient(point.quotes or ())
    for expected in (place.salient() or (), place.given):
        matched = {at for at, _ in matches(quotes, expected)}
        quotes = [quote for at, quote in enumerate(quotes) if at not in matched]
    earlier = [one for some in template.ground_truth_salience.values() for one in some]
    for quote in quotes:
        held = any(" ".join(quote.split()) == " ".join(one.split()) for one in earlier)
        yield " ".join(quote.split()), "held before" if held else "not listed"


def main() -> None:
    """Replay all files of a folder."""
    parser = argument_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    quotes: list[dict[str, Any]] = []
    rules: list[dict[str, Any]] = []
    for answers in sorted(options.data.glob("*.jsonl")):
        with TemporaryDirectory() as folder:
            rows += replayed(answers, Path(folder))
            quotes += wrong(answers, Path(folder))
            rules += constraints(answers, Path(folder))
    write(options.out, "recorded", "Recorded answers, replayed", [*rows, _GOAL])
    if quotes:
        write(options.out, "recorded_quotes", "Quotes beside the truth", quotes)
    if rules:
        write(options.out, "recorded_constraints", "Constraints lacking or made up", rules)


if __name__ == "__main__":
    main()
