"""How the ranking by meaning is made, and how it joins the one by words."""

import pytest

from ebbtide.memory.search.ranking import Meaning, Scores
from tests.memory.search.test_ranking import passages

BOTH = [1.0, 0.0]


def test_a_passage_counts_with_its_window_and_its_heading() -> None:
    """The score is the sum of three cosines; that of a window is the mean of those in it."""
    found = passages({}, {}, topic=0).similarity(BOTH, [0.25])

    assert found.passages == [1.75, 0.75]
    assert found.topics == [1.75]


def test_a_passage_without_a_vector_has_no_score() -> None:
    """Neither the passage nor its effort is scored by what is not known, nor its window."""
    found = passages({}, {}, topic=0).similarity([None, 1.0], [0.0, 0.5])

    assert found.passages[0] is None
    assert found.passages[1] == 2.0
    assert found.topics == [2.0, 0.5]


def test_the_best_by_meaning_has_half_the_best_by_words() -> None:
    """Scores by words are divided by their maximum, scores by meaning stretched to half of 1."""
    words = Scores([9.0, 0.0, 0.0], [3.0, 0.0])
    both = words.blended(Meaning([None, 2.0, 0.0], [0.0, 2.0]))

    assert both.passages == [1.0, 0.5, 0.0]
    assert both.topics == [1.0, 0.5]


def test_hardly_different_cosines_decide_little() -> None:
    """Where no meaning is much nearer than the others, the words decide."""
    words = Scores([4.0, 3.6], [])

    both = words.blended(Meaning([0.50, 0.55], []))

    assert both.passages == [1.475, 1.4]


@pytest.mark.parametrize("words", [[], [0.0]])
def test_nothing_to_divide_by(words: list[float]) -> None:
    """Without a score, or with zeros only, nothing fails."""
    both = Scores(words, []).blended(Meaning([None] * len(words), []))

    assert both.passages == words
