"""Ranking: turns, windows and efforts by BM25."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.search import Numbers, Topics, Turns, ranked, rarity, relevance, score

SAYS = st.dictionaries(st.sampled_from("abc"), st.integers(1, 5))
RARE = {"a": 1.0, "b": 2.0, "c": 0.5}
WEIGHTS = np.array([*RARE.values()])


def saying(*says: Mapping[str, int]) -> Numbers:
    """Return what texts say of `RARE`, a row for each."""
    return np.array([[one.get(term, 0) for term in RARE] for one in says], float).reshape(-1, 3)


def turns(
    *says: Mapping[str, int], near: list[tuple[int, int]] | None = None, effort: str | None = None
) -> Turns:
    """Return turns of 9 bytes each."""
    pairs = np.array(near or [], np.intp).reshape(-1, 2)
    return Turns([effort] * len(says), pairs, saying(*says), np.full(len(says), 9.0))


def topics(**says: Mapping[str, int]) -> Topics:
    """Return efforts of 9 bytes each, by their names."""
    return Topics([*says], saying(*says.values()), np.full(len(says), 9.0))


@given(st.integers(1, 10**6), st.data())
def test_a_term_is_rarer_the_fewer_have_it(turns: int, data: st.DataObject) -> None:
    """Rarity is above 0 and falls with the number of turns that have a term."""
    having = data.draw(st.integers(1, turns))

    assert rarity(turns, having) > 0
    assert rarity(turns, having) >= rarity(turns, min(turns, having + 1))


@given(SAYS, st.integers(1, 10**6))
def test_saying_more_scores_more_and_length_costs(says: dict[str, int], length: int) -> None:
    """One more mention never lowers a score, and more length never raises it."""
    said = saying(says, {**says, "a": says.get("a", 0) + 1}, says)
    plain, more, longer = relevance(said, WEIGHTS, np.array([length, length, length + 1.0]))

    assert more > plain
    assert longer <= plain


def test_a_neighbour_that_says_it_helps() -> None:
    """A turn beside a match scores above a turn that stands apart, and below the match itself."""
    found = score(turns({"a": 1}, {}, {}, near=[(0, 1), (1, 0)]), topics(), WEIGHTS)

    assert found.turns[0] > found.turns[1] > found.turns[2] == 0


def test_the_effort_lifts_its_turns() -> None:
    """A turn that says nothing scores by what its effort says."""
    both = topics(x={"a": 1}, y={})
    saying_it, other = (score(turns({}, effort=name), both, WEIGHTS) for name in "xy")

    assert saying_it.turns[0] == saying_it.efforts["x"] > 0
    assert other.turns[0] == other.efforts["y"] == 0


def test_an_ambient_turn_has_its_window_twice() -> None:
    """A turn of no effort has its window in the place of one."""
    found = score(turns({"a": 1}), topics(), WEIGHTS)

    assert found.turns[0] == pytest.approx(3 * relevance(saying({"a": 1}), WEIGHTS, np.ones(1))[0])


def test_an_effort_counts_by_its_best_turn() -> None:
    """Further matching turns do not add up, except in what the effort says as a whole."""
    one, two = turns({"a": 1}, effort="x"), turns({"a": 1}, {"a": 1}, effort="x")

    assert len({score(each, topics(x={"a": 1}), WEIGHTS).efforts["x"] for each in (one, two)}) == 1


def test_a_topic_without_turns_is_scored() -> None:
    """An effort of which only the heading is known is found by it."""
    assert score(turns(), topics(x={"a": 1}), WEIGHTS).efforts["x"] > 0


@pytest.mark.parametrize(
    ("scores", "order"),
    [({}, []), ({"a": 0.0}, []), ({"a": 1.0, "b": 3.0, "c": 1.0}, ["b", "a", "c"])],
)
def test_ranking_leaves_out_what_does_not_match(scores: dict[str, float], order: list[str]) -> None:
    """The best comes first, of equals the first, and what scored nothing is left out."""
    assert ranked(scores) == order
