"""The scores that need no model, and the matching of quotes, against values computed by hand."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from ebbtide.evaluation.harness import THRESHOLD, agreement, matches, scores
from ebbtide.evaluation.strategy_protocol import Context, Quoted
from tests.evaluation.conversations import CHANGE, GOAL, LIMIT, NEWER, PORT, shed

TEMPLATE = shed()
FIRST, SECOND = TEMPLATE.points


def test_quotes_are_compared_with_all_truth_so_far() -> None:
    """At the second point two of three quotes are right and two of three truths are found."""
    quotes = (LIMIT, NEWER, "I looked it up.")
    result = scores(SECOND, Context((), quotes), None)

    assert result["salience_precision"] == pytest.approx(2 / 3)
    assert result["salience_recall"] == pytest.approx(2 / 3)
    assert result["salience_f1"] == pytest.approx(2 / 3)
    assert (result["quotes"], result["verbatim_rate"], result["fabricated"]) == (quotes, 1.0, 0)


def test_fabricated_quotes_are_counted() -> None:
    """One of four quotes stands nowhere, two were dropped: 3 fabricated, 3/4 verbatim."""
    quotes = (GOAL, LIMIT, PORT, "Buy a third tin.")
    verdicts = ("fabricated", "verbatim", "fabricated")
    chosen = tuple(Quoted(quote="Two tins.", verdict=verdict) for verdict in verdicts)
    result = scores(FIRST, Context((), quotes, chosen), None)

    assert (result["verbatim_rate"], result["fabricated"]) == (0.75, 3)


def test_without_quotes_there_are_no_such_scores() -> None:
    """Nor without truth: a score that cannot be is absent, not zero."""
    none = scores(FIRST, Context(()), None)
    empty = scores(FIRST, Context((), ()), None)
    untold = scores(shed(ground_truth_salience={}).points[0], Context((), (GOAL,)), None)

    assert {*none} & {"quotes", "verbatim_rate", "fabricated", "salience_precision"} == set()
    assert (empty["quotes"], empty["verbatim_rate"], empty["salience_precision"]) == (
        (),
        None,
        None,
    )
    assert empty["salience_recall"] == 0.0
    assert "salience_precision" not in untold


def test_constraints_in_the_context() -> None:
    """The share of constraints that the context has word for word; absent without constraints."""
    template = shed(ground_truth={"constraints": [LIMIT, NEWER]})
    context = Context((HumanMessage("Use no more\nthan two tins."), AIMessage("Yes.")))

    unknown, none = (shed(ground_truth=one) for one in ({}, {"constraints": [CHANGE]}))
    points = [*template.points, unknown.points[0], none.points[0]]
    kept = [scores(point, context, None)["constraints_in_context"] for point in points]

    assert kept == [1.0, 0.5, None, None]


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
