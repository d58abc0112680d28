"""Matching of quotes with the truth, one to one, against values computed by hand."""

import pytest

from ebbtide.evaluation.harness import THRESHOLD, agreement, matches


def test_a_repeated_quote_counts_once() -> None:
    """Three times the same right quote is one hit of three: precision 1/3, recall 1/2, F1 2/5."""
    result = agreement(["It rains."] * 3, ["It rains.", "The port is closed."])

    assert result.precision == pytest.approx(1 / 3)
    assert result.recall == pytest.approx(1 / 2)
    assert result.f1 == pytest.approx(2 / 5)


def test_the_threshold_is_a_bound() -> None:
    """A similarity of 0.85 is enough, a little less is not."""

    def similarity(_quotes: object, _truth: object) -> list[list[float]]:
        return [[THRESHOLD, 0.0], [0.0, THRESHOLD - 0.001]]

    assert matches(["a", "b"], ["c", "d"], similarity) == ((0, 0),)


def test_without_a_side_a_score_is_absent() -> None:
    """Precision needs quotes, recall needs truth; neither is zero without them."""
    no_quotes, no_truth, neither = agreement([], ["a"]), agreement(["a"], []), agreement([], [])

    assert (no_quotes.precision, no_quotes.recall, no_quotes.f1) == (None, 0.0, None)
    assert (no_truth.precision, no_truth.recall, no_truth.f1) == (0.0, None, None)
    assert (neither.precision, neither.recall, neither.f1) == (None, None, None)
