"""Matching of quotes with the truth, one to one, against values computed by hand."""

from functools import partial
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.evaluation.harness import THRESHOLD, agreement, assigned, by_meaning, lexical, matches
from ebbtide.memory.search.embeddings import Embedder
from tests.doubles import Concepts

CHOICES = st.lists(st.lists(st.integers(0, 4), max_size=5, unique=True), max_size=5)
SENTENCES = st.lists(st.sampled_from(["a b c d", "a b c e", "f g", "f  g", "h", ""]), max_size=8)


def most(choices: list[list[int]]) -> int:
    """Return how many get one of their choices at most, by trying all."""
    ways = permutations(range(5), len(choices))
    return max(sum(thing in own for thing, own in zip(way, choices, strict=True)) for way in ways)


@given(CHOICES)
def test_no_pairing_has_more(choices: list[list[int]]) -> None:
    """Who gets something gets one of its choices, nobody two, and as many get one as possible."""
    owners = assigned(dict(enumerate(choices)))

    assert all(thing in choices[one] for thing, one in owners.items())
    assert len({*owners.values()}) == len(owners) == most(choices)


def test_the_first_gets_something() -> None:
    """Of two who have but one choice, the same, the first one gets it."""
    assert assigned({7: [0], 3: [0]}) == {0: 7}


def test_the_likest_quote_is_paired() -> None:
    """Of two quotes that are alike enough to one sentence the likest one is right."""

    def similarity(_quotes: object, _truth: object) -> list[list[float]]:
        return [[0.9], [0.95]]

    assert matches(["a", "b"], ["c"], similarity) == ((1, 0),)


@given(SENTENCES, SENTENCES)
def test_a_score_is_never_above_one(quotes: list[str], truth: list[str]) -> None:
    """Whatever is compared, precision, recall and F1 are absent or between 0 and 1."""
    result = agreement(quotes, truth)
    scores = [result.precision, result.recall, result.f1]

    assert all(score is None or 0 <= score <= 1 for score in scores)
    assert len(matches(quotes, truth)) <= min(len(quotes), len(truth))


def test_a_repeated_quote_counts_once() -> None:
    """Three times the same right quote is one hit of three: precision 1/3, recall 1/2, F1 2/5."""
    result = agreement(["It rains."] * 3, ["It rains.", "The port is closed."])

    assert result.precision == pytest.approx(1 / 3)
    assert result.recall == pytest.approx(1 / 2)
    assert result.f1 == pytest.approx(2 / 5)


def test_the_same_words_come_first() -> None:
    """A quote goes to the sentence of its own words, also if a likelier one comes before."""
    truth = ["The port is 8081.", "The port is 8080."]

    assert matches(["The port is 8080.", "The port is 8081."], truth) == ((0, 1), (1, 0))


def test_as_many_as_possible_are_paired() -> None:
    """Two pairs that are alike enough are better than one that is more alike."""

    def similarity(_quotes: object, _truth: object) -> list[list[float]]:
        return [[0.99, 0.86], [0.86, 0.2]]

    assert matches(["a", "b"], ["c", "d"], similarity) == ((0, 1), (1, 0))


def test_the_threshold_is_a_bound() -> None:
    """A similarity of 0.85 is enough, a little less is not."""

    def similarity(_quotes: object, _truth: object) -> list[list[float]]:
        return [[THRESHOLD, 0.0], [0.0, THRESHOLD - 0.001]]

    assert matches(["a", "b"], ["c", "d"], similarity) == ((0, 0),)


def test_meaning_finds_other_words() -> None:
    """With embeddings two sentences of the same meaning are one, which letters do not show."""
    meaning = partial(by_meaning, Embedder(Concepts("car automobile", "buy purchase")))
    ours, truth = ["we buy a car"], ["we purchase a automobile"]

    assert matches(ours, truth, meaning) == ((0, 0),)
    assert matches(ours, truth, lexical) == ()


def test_without_a_side_a_score_is_absent() -> None:
    """Precision needs quotes, recall needs truth; neither is zero without them."""
    no_quotes, no_truth, neither = agreement([], ["a"]), agreement(["a"], []), agreement([], [])

    assert (no_quotes.precision, no_quotes.recall, no_quotes.f1) == (None, 0.0, None)
    assert (no_truth.precision, no_truth.recall, no_truth.f1) == (0.0, None, None)
    assert (neither.precision, neither.recall, neither.f1) == (None, None, None)


def test_nothing_right_is_zero() -> None:
    """If nothing matches, all three are zero."""
    result = agreement(["one thing"], ["something else entirely"])

    assert (result.precision, result.recall, result.f1) == (0.0, 0.0, 0.0)


def test_a_sentence_with_its_neighbour_is_found() -> None:
    """A quote that holds a sentence matches it unless it is more than twice as long."""
    truth = ["Make it two."]

    assert matches(["Three is a lot. Make it two."], truth) == ()
    assert matches(["Not three! Make it two."], truth) == ((0, 0),)


def test_free_sentences_are_neither_right_nor_wrong() -> None:
    """Of three quotes one is right, one free, one wrong; with free ones only there is no rate."""
    quotes = ["It rains.", "Paint it.", "So what?"]

    assert agreement(quotes, ["It rains."], lexical, ["Paint it."]).precision == 0.5
    assert agreement(["Paint it."], ["It rains."], lexical, ["Paint it."]).precision is None
