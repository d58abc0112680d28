"""Trials put together, against values computed by hand, and how they are written."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from ebbtide.evaluation.report import Report, Row
from ebbtide.evaluation.results import REPLAYED, TrialResult
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


def test_the_page() -> None:
    """The page has the scores, the targets beside them, who spoke, and the errors."""
    failed = result(point(drift=0.5), trial=4, errors=("point 1, goal_coherence: no",))
    trials = (*TRIALS, failed)
    text = Report(SETUP, trials).page()

    assert "| shed | window | 4 | 0.95 ± 0.05 | 0.50 |" in text
    assert "| goal coherence > 0.90 |" in text
    assert "- window/shed/4: point 1, goal_coherence: no" in text
    assert REPLAYED not in text


def test_every_file_says_that_it_was_replayed(tmp_path: Path) -> None:
    """JSON, table and picture made of recorded answers say so."""
    pytest.importorskip("matplotlib", reason="pip install 'ebbtide[plots]'")
    names = Report(SETUP.model_copy(update={"note": REPLAYED}), TRIALS).write(tmp_path)

    assert names == ("results.json", "results.md", "results.png")
    assert all(REPLAYED.encode() in (tmp_path / name).read_bytes() for name in names)
