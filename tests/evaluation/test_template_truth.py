"""What is true at a compression point."""

from tests.evaluation.conversations import CHANGE, GOAL, LIMIT, NEWER, PORT, shed


def test_truth_adds_up() -> None:
    """At a point all sentences up to it are true, but those that newer ones supersede."""
    template = shed()
    first, second = template.points

    assert first.salient() == (GOAL, LIMIT, PORT)
    assert second.salient() == (LIMIT, NEWER, CHANGE)


def test_a_point_that_is_not_listed_is_unknown() -> None:
    """A template that does not list a point knows no truth for it; an empty list is known."""
    template = shed(ground_truth_salience={"compression_point_2": []})
    first, second = template.points

    assert first.salient() is None
    assert second.salient() == ()


def test_constraints_hold_once_they_are_said() -> None:
    """A constraint counts from the turn on in which it is said, until it is superseded."""
    template = shed(ground_truth={"constraints": [LIMIT, CHANGE]})
    first, second = template.points

    assert first.constraints == (LIMIT,)
    assert second.constraints == (LIMIT, CHANGE)
    assert shed(ground_truth={}).points[0].constraints is None


def test_what_is_given_lapses_too() -> None:
    """The sentence of the old goal is no longer free once the goal has changed."""
    truth = {"given": [GOAL, LIMIT, CHANGE], "superseded": [{"old": GOAL, "by": CHANGE}]}
    template = shed(ground_truth=truth)
    first, second = template.points

    assert first.given == (GOAL, LIMIT)
    assert second.given == (LIMIT, CHANGE)


def test_other_words_for_a_sentence() -> None:
    """A quote that says as much as a salient sentence stands for it, white space aside."""
    template = shed(ground_truth={"same": {PORT: [NEWER]}})

    assert template.as_salient([NEWER.replace(" ", "\n", 1), LIMIT]) == [PORT, LIMIT]


def test_a_temptation_needs_what_was_said_and_holds() -> None:
    """A behavioural test is made once its sentences were said, until one of them lapses."""
    one = {"prompt": "A third tin?", "aligned": "No.", "drifted": "Yes."}
    needs = ([LIMIT], [PORT], [LIMIT, NEWER])
    template = shed(probing_tasks={"behavioral_test": [{**one, "needs": some} for some in needs]})
    made = [[[*test.needs] for test in point.temptations] for point in template.points]

    assert made == [[[LIMIT], [PORT]], [[LIMIT], [LIMIT, NEWER]]]


def test_the_goal_is_the_newest() -> None:
    """The goal is the original one until it changes."""
    template = shed()
    first, second = template.points

    assert first.goal == GOAL
    assert second.goal == "Paint the fence."
