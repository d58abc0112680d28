"""Trials put together, against values computed by hand, and how they are written."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from ebbtide.evaluation.report import Metric, Report, Row
from ebbtide.evaluation.results import REPLAYED, TrialResult
from ebbtide.nodes.ask import QuestionCost
from tests.evaluation.outcomes import SETUP, point, result

TRIALS = (
    result(point(1, goal_coherence=0.8, fabricated=1), point(2, goal_coherence=1.0, fabricated=2)),
    result(point(1, goal_coherence=1.0, fabricated=0), point(2), trial=2),
    result(point(1, goal_coherence=0.95), trial=3),
)


def rows(trials: Iterable[TrialResult]) -> tuple[Row, ...]:
    """Return the rows of these trials."""
    return Report(SETUP, trials).rows


def test_means_over_points_and_trials() -> None:
    """Means over points are 0.9, 1.0 and 0.95: mean 0.95, deviation 0.05; sums are 3 and 0."""
    (row,) = rows(TRIALS)
    coherence, fabricated = row.metrics["goal_coherence"], row.metrics["fabricated"]

    assert coherence.mean == pytest.approx(0.95)
    assert coherence.deviation == pytest.approx(0.05)
    assert (coherence.least, coherence.most, coherence.trials) == (0.9, 1.0, 3)
    assert (fabricated.mean, fabricated.least, fabricated.most) == (1.5, 0, 3)
    assert fabricated.trials == 2


def test_what_is_absent_is_not_zero() -> None:
    """A metric that no point has is not in the row, and has no target."""
    (row,) = rows([result(point())])

    assert "goal_coherence" not in row.metrics
    assert row.targets == {"compression_ratio": True}


def test_a_trial_without_points_has_no_metrics() -> None:
    """A trial that failed at its first point counts as a trial with an error, and adds nothing."""
    (row,) = rows([result(errors=("point 1, compress: it broke",))])

    assert (row.trials, row.errors, row.metrics) == (1, 1, {})


@pytest.mark.parametrize(
    ("name", "value", "met"),
    [
        ("salience_precision", 0.75, False),
        ("verbatim_rate", 0.999, False),
        ("verbatim_rate", 1.0, True),
        ("compression_ratio", 0.5, False),
        ("compression_ratio", 0.49, True),
    ],
)
def test_targets(name: str, value: float, met: bool) -> None:
    """The targets are the documented ones, and their bounds are not met by themselves."""
    (row,) = rows([result(point().model_copy(update={name: value}))])

    assert row.targets[name] is met


def test_a_short_template_has_no_target_of_compression() -> None:
    """Under forty turns there is next to nothing to compress, and no target for it."""
    (row,) = rows([result(point(), turns=39)])

    assert row.targets == {}


def test_one_trial_has_no_deviation() -> None:
    """The deviation needs two trials, and stands beside the mean; a dash stands for no value."""
    first, second = (result(point(drift=at), trial=at + 1) for at in (0, 1))
    (one,), (both,) = rows([first]), rows([first, second])
    drift, costs = Metric("drift", "drift"), Metric("cost", "cost")

    assert one.metrics["drift"].deviation is None
    assert both.metrics["drift"].deviation == pytest.approx(0.5**0.5)
    assert (one.value(drift), both.value(drift)) == ("0.00", "0.50 ± 0.71")
    assert both.value(costs) == "–"


def test_the_page() -> None:
    """The page has the scores, the targets beside them, who spoke, and the errors."""
    failed = result(point(drift=0.5), trial=4, errors=("point 1, goal_coherence: no",))
    trials = (*TRIALS, failed)
    text = Report(SETUP, trials).page()

    assert "Model: m. Judge: j." in text
    assert "by their letters, one to one" in text
    assert "| shed | window | 4 | 0.95 ± 0.05 | 0.50 |" in text
    assert "goal coherence > 0.90" in text
    assert "| shed | window | – | – | met |" in text
    assert "- window/shed/4: point 1, goal_coherence: no" in text
    assert REPLAYED not in text


def test_a_name_does_not_break_the_table() -> None:
    """A template's id is its author's, and may hold what a table is made of."""
    trials = (result(point(), template="a|b\nc"),)

    assert "| a/b c | window |" in Report(SETUP, trials).page()


def test_every_file_says_that_it_was_replayed(tmp_path: Path) -> None:
    """JSON, table and picture made of recorded answers say so."""
    pytest.importorskip("matplotlib", reason="pip install 'ebbtide[plots]'")
    names = Report(SETUP.model_copy(update={"note": REPLAYED}), TRIALS).write(tmp_path)

    assert names == ("results.json", "results.md", "results.png")
    assert all(REPLAYED.encode() in (tmp_path / name).read_bytes() for name in names)


def test_the_files_of_a_measurement(tmp_path: Path) -> None:
    """JSON has the rows; nothing else is left in the folder."""
    names = Report(SETUP, TRIALS[::-1]).write(tmp_path)
    made = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))

    assert made["rows"][0]["metrics"]["goal_coherence"]["mean"] == pytest.approx(0.95)
    assert made["note"] == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def test_without_results_there_is_no_picture(tmp_path: Path) -> None:
    """If no trial has a score there is nothing to draw."""
    assert Report(SETUP, ()).write(tmp_path) == ("results.json", "results.md")


def test_the_seconds_of_calls_have_their_means() -> None:
    """A point has the mean of its extractions, a trial the mean of its points that have any."""
    calls = [
        *(QuestionCost("extraction", "m", seconds, read=900, written=90) for seconds in (2.0, 4.0)),
        QuestionCost("background", "m", 1.0),
    ]
    (row,) = rows([result(point(1, calls=calls), point(2))])

    assert row.metrics["extraction_seconds"].mean == 3.0
    assert row.metrics["background_seconds"].mean == 1.0
