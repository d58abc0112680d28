"""What is true at a compression point."""

from ebbtide.evaluation.truth import constraints, goal, salient
from tests.evaluation.conversations import CHANGE, GOAL, LIMIT, NEWER, PORT, shed


def test_truth_adds_up() -> None:
    """At a point all sentences up to it are true, but those that newer ones supersede."""
    template = shed()
    first, second = template.points

    assert salient(template, first) == (GOAL, LIMIT, PORT)
    assert salient(template, second) == (LIMIT, NEWER, CHANGE)


def test_a_point_that_is_not_listed_is_unknown() -> None:
    """A template that does not list a point knows no truth for it; an empty list is known."""
    template = shed(ground_truth_salience={"compression_point_2": []})
    first, second = template.points

    assert salient(template, first) is None
    assert salient(template, second) == ()


def test_constraints_hold_once_they_are_said() -> None:
    """A constraint counts from the turn on in which it is said, until it is superseded."""
    template = shed(ground_truth={"constraints": [LIMIT, CHANGE]})
    first, second = template.points

    assert constraints(template, first) == (LIMIT,)
    assert constraints(template, second) == (LIMIT, CHANGE)
    assert constraints(shed(ground_truth={}), first) is None


def test_the_goal_is_the_newest() -> None:
    """The goal is the original one until it changes."""
    template = shed()
    first, second = template.points

    assert goal(template, first) == GOAL
    assert goal(template, second) == "Paint the fence."
