"""How the ranking by meaning is made, and how it joins the one by words."""

import numpy as np
import pytest

from ebbtide.memory.ranking import Scores
from tests.memory.test_ranking import passages

BOTH = np.array([1.0, 0.0])


def test_a_passage_counts_with_its_window_and_its_heading() -> None:
    """The score is the sum of three cosines; that of a window is the mean of those in it."""
    found = passages({}, {}, topic=0).similarity(BOTH, np.array([0.25]))

    assert found.passages.tolist() == [1.75, 0.75]
    assert found.topics.tolist() == [1.75]


def test_a_passage_without_a_vector_has_no_score() -> None:
    """Neither the passage nor its effort is scored by what is not known, nor its window."""
    found = passages({}, {}, topic=0).similarity(np.array([np.nan, 1.0]), np.array([0.0, 0.5]))

    assert np.isnan(found.passages[0])
    assert found.passages[1] == 2.0
    assert found.topics.tolist() == [2.0, 0.5]


def test_the_best_by_meaning_has_half_the_best_by_words() -> None:
    """Scores by words are divided by their maximum, scores by meaning stretched to half of 1."""
    words = Scores(np.array([9.0, 0.0, 0.0]), np.array([3.0, 0.0]))
    both = words.blended(Scores(np.array([np.nan, 2.0, 0.0]), np.array([np.nan, 2.0])))

    assert both.passages.tolist() == [1.0, 0.5, 0.0]
    assert both.topics.tolist() == [1.0, 0.5]


def test_hardly_different_cosines_decide_little() -> None:
    """Where no meaning is much nearer than the others, the words decide."""
    words = Scores(np.array([4.0, 3.6]), np.array([]))

    both = words.blended(Scores(np.array([0.50, 0.55]), np.array([])))

    assert both.passages.tolist() == [1.475, 1.4]


@pytest.mark.parametrize("words", [[], [0.0]])
def test_nothing_to_divide_by(words: list[float]) -> None:
    """Without a score, or with zeros only, nothing fails."""
    unknown = np.full(len(words), np.nan)

    both = Scores(np.array(words), np.array(words)).blended(Scores(unknown, unknown))

    assert both.passages.tolist() == both.topics.tolist() == words
