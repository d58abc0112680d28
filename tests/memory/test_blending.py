"""How the ranking by meaning is made, and how it joins the one by words."""

import numpy as np
import pytest

from ebbtide.memory.blending import blend, blended, likeness
from ebbtide.memory.search import Scores, Turns

MEANT = np.array([1, 0], np.float32)
BOTH = [(0, 1), (1, 0)]


def turns(*efforts: str | None, near: list[tuple[int, int]] | None = None) -> Turns:
    """Return turns of these efforts that say nothing."""
    pairs = np.array(near or [], np.intp).reshape(-1, 2)
    return Turns(efforts, pairs, np.empty((len(efforts), 0)), np.ones(len(efforts)))


def test_a_turn_counts_with_its_window_and_its_heading() -> None:
    """The score is the sum of three cosines; the window's vector is the mean, of length 1."""
    found = likeness(turns("x", "x", near=BOTH), np.eye(2, dtype="f"), {"x": 0.25}, MEANT)
    window = 0.5**0.5

    assert found.turns == pytest.approx({0: 1 + window + 0.25, 1: window + 0.25})
    assert found.efforts == pytest.approx({"x": 1 + window + 0.25})


def test_an_ambient_turn_has_its_window_twice() -> None:
    """What belongs to no effort has the turns around it in place of a heading."""
    found = likeness(turns(None, None, near=BOTH), np.eye(2, dtype="f"), {}, MEANT)
    window = 0.5**0.5

    assert found.turns == pytest.approx({0: 1 + 2 * window, 1: 2 * window})
    assert found.efforts == {}


def test_a_turn_without_a_vector_has_no_score() -> None:
    """Zeros are no vector: neither the turn nor its effort is scored by them."""
    found = likeness(turns("x", "y"), np.array([[0, 0], [1, 0]], np.float32), {"z": 0.5}, MEANT)

    assert found == Scores({1: 2.0}, {"z": 0.5, "y": 2.0})


def test_the_best_by_meaning_has_half_the_best_by_words() -> None:
    """Scores by words are divided by their maximum, scores by meaning stretched to half of 1."""
    both = blended(Scores({1: 9.0}, {"x": 3.0}), Scores({2: 2.0, 3: 0.0}, {"y": 2.0}))

    assert both == Scores({1: 1.0, 2: 0.5, 3: 0.0}, {"x": 1.0, "y": 0.5})


def test_hardly_different_cosines_decide_little() -> None:
    """Where no meaning is much nearer than the others, the words decide."""
    both = blend({1: 4.0, 2: 3.6}, {1: 0.50, 2: 0.55})

    assert both == {1: 1.475, 2: 1.4}


@pytest.mark.parametrize(("words", "meaning"), [({}, {}), ({1: 0.0}, {}), ({}, {1: 0.0})])
def test_nothing_to_divide_by(words: dict[int, float], meaning: dict[int, float]) -> None:
    """Without a score, or with zeros only, nothing fails."""
    assert set(blend(words, meaning)) == {*words, *meaning}
