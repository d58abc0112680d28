"""The scores that need no model, against values computed by hand."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from ebbtide.evaluation.harness import scores, size
from ebbtide.evaluation.strategy_protocol import Context, Quoted, as_messages
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


def test_a_superseded_sentence_is_no_longer_right() -> None:
    """A quote that a newer sentence supersedes counts against precision."""
    quotes = (LIMIT, NEWER, CHANGE, GOAL)
    result = scores(SECOND, Context((), quotes), None)

    assert (result["salience_precision"], result["salience_recall"]) == (0.75, 1.0)


def test_quotes_of_what_was_given_are_left_out() -> None:
    """Beside one right and one wrong quote the goal counts neither for precision nor for recall."""
    template = shed(
        ground_truth={"given": [GOAL]}, ground_truth_salience={"compression_point_1": [PORT]}
    )
    result = scores(template.points[0], Context((), (GOAL, PORT, "I looked it up.")), None)

    assert (result["salience_precision"], result["salience_recall"]) == (0.5, 1.0)


def test_fabricated_quotes_are_counted() -> None:
    """One of four quotes stands nowhere, two were dropped: 3 fabricated, 3/4 verbatim."""
    quotes = (GOAL, LIMIT, PORT, "Buy a third tin.")
    verdicts = ("fabricated", "verbatim", "fabricated")
    chosen = tuple(Quoted(quote="Two tins.", verdict=verdict) for verdict in verdicts)
    result = scores(FIRST, Context((), quotes, chosen), None)

    assert (result["verbatim_rate"], result["fabricated"]) == (0.75, 3)


def test_a_quote_of_later_turns_is_fabricated() -> None:
    """What is said after a point cannot be quoted at it."""
    result = scores(FIRST, Context((), (CHANGE,)), None)

    assert (result["verbatim_rate"], result["fabricated"]) == (0.0, 1)


def test_without_quotes_there_are_no_such_scores() -> None:
    """A strategy that chooses no sentences has no salience; one that chose none has no rate."""
    none = scores(FIRST, Context(()), None)
    empty = scores(FIRST, Context((), ()), None)

    assert {*none} & {"quotes", "verbatim_rate", "fabricated", "salience_precision"} == set()
    assert (empty["quotes"], empty["verbatim_rate"], empty["salience_precision"]) == (
        (),
        None,
        None,
    )
    assert empty["salience_recall"] == 0.0


def test_fallbacks_count_also_where_nothing_was_quoted() -> None:
    """A pass by rules of which nothing came is a fallback all the same."""
    assert scores(FIRST, Context((), fallbacks=1), None)["fallbacks"] == 1


def test_without_truth_salience_is_absent() -> None:
    """A template that lists no salient sentences has no precision and recall, not zero."""
    result = scores(shed(ground_truth_salience={}).points[0], Context((), (GOAL,)), None)

    assert "salience_precision" not in result
    assert result["verbatim_rate"] == 1.0


def test_constraints_in_the_context() -> None:
    """The share of constraints that the context has word for word; absent without constraints."""
    template = shed(ground_truth={"constraints": [LIMIT, NEWER]})
    context = Context((HumanMessage("Use no more\nthan two tins."), AIMessage("Yes.")))

    unknown, none = (shed(ground_truth=one) for one in ({}, {"constraints": [CHANGE]}))
    points = [*template.points, unknown.points[0], none.points[0]]
    kept = [scores(point, context, None)["constraints_in_context"] for point in points]

    assert kept == [1.0, 0.5, None, None]


def test_sizes() -> None:
    """The ratio is what is left of the conversation's tokens."""
    before = size(as_messages(FIRST.turns))
    context = Context(as_messages(FIRST.turns[:1]))
    result = scores(FIRST, context, None)

    assert result["tokens_before"] == before
    assert result["tokens_after"] == size(context.messages)
    assert result["compression_ratio"] == size(context.messages) / before
