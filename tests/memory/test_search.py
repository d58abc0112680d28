"""Ranking: turns, windows and efforts by BM25."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.search import Scores, Topic, Turn, ranked, rarity, relevance, score

SAYS = st.dictionaries(st.sampled_from("abc"), st.integers(1, 5))
RARE = {"a": 1.0, "b": 2.0, "c": 0.5}


def scored(*turns: Turn) -> Scores:
    """Score turns that are their own keys, without topics."""
    return score(dict(enumerate(turns)), {}, RARE)


@given(st.integers(1, 10**6), st.data())
def test_a_term_is_rarer_the_fewer_have_it(turns: int, data: st.DataObject) -> None:
    """Rarity is above 0 and falls with the number of turns that have a term."""
    having = data.draw(st.integers(1, turns))

    assert rarity(turns, having) > 0
    assert rarity(turns, having) >= rarity(turns, min(turns, having + 1))


@given(SAYS, st.integers(1, 10**6), st.integers(1, 10**6))
def test_saying_more_scores_more_and_length_costs(
    says: dict[str, int], length: int, usual: int
) -> None:
    """One more mention never lowers a score, and more length never raises it."""
    plain = relevance(says, RARE, length, usual)

    assert relevance({**says, "a": says.get("a", 0) + 1}, RARE, length, usual) > plain
    assert relevance(says, RARE, length + 1, usual) <= plain


def test_a_neighbour_that_says_it_helps() -> None:
    """A turn beside a match scores above a turn that stands apart, and below the match itself."""
    found = scored(Turn({"a": 1}, 9, (1,)), Turn({}, 9, (0,)), Turn({}, 9))

    assert found.turns[0] > found.turns[1] > found.turns[2] == 0


def test_the_effort_lifts_its_turns() -> None:
    """A turn that says nothing scores by what its effort says."""
    turns = {0: Turn({}, 9, effort="x"), 1: Turn({}, 9, effort="y")}
    topics = {"x": Topic({"a": 1}, 9), "y": Topic({}, 9)}
    found = score(turns, topics, RARE)

    assert found.turns[0] == found.efforts["x"] > 0
    assert found.turns[1] == found.efforts["y"] == 0


def test_an_effort_counts_by_its_best_turn() -> None:
    """Further matching turns do not add up, except in what the effort says as a whole."""
    turn = Turn({"a": 1}, 9, effort="x")
    topics = {"x": Topic({"a": 1}, 9)}

    assert score({0: turn, 1: turn}, topics, RARE).efforts == score({0: turn}, topics, RARE).efforts


def test_a_topic_without_turns_is_scored() -> None:
    """An effort of which only the heading is known is found by it."""
    assert score({}, {"x": Topic({"a": 1}, 0)}, RARE).efforts["x"] > 0


@pytest.mark.parametrize(
    ("scores", "order"),
    [({}, []), ({"a": 0.0}, []), ({"a": 1.0, "b": 3.0, "c": 1.0}, ["b", "a", "c"])],
)
def test_ranking_leaves_out_what_does_not_match(scores: dict[str, float], order: list[str]) -> None:
    """The best comes first, of equals the first, and what scored nothing is left out."""
    assert ranked(scores) == order
