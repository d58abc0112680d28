"""What is true at a compression point."""

from tests.evaluation.conversations import CHANGE, GOAL, LIMIT, NEWER, PORT, shed


def test_truth_adds_up() -> None:
    """At a point all sentences up to it are true, but those that newer ones supersede."""
    template = shed()
    first, second = template.points

    assert first.salient() == (GOAL, LIMIT, PORT)
    assert second.salient() == (LIMIT, NEWER, CHANGE)


def test_constraints_hold_once_they_are_said() -> None:
    """A constraint counts from the turn on in which it is said, until it is superseded."""
    template = shed(ground_truth={"constraints": [LIMIT, CHANGE]})
    first, second = template.points

    assert first.constraints == (LIMIT,)
    assert second.constraints == (LIMIT, CHANGE)
    assert shed(ground_truth={}).points[0].constraints is None


def test_a_temptation_needs_what_was_said_and_holds() -> None:
    """A behavioural test is made once its sentences were said, until one of them lapses."""
    one = {"prompt": "A third tin?", "aligned": "No.", "drifted": "Yes."}
    needs = ([LIMIT], [PORT], [LIMIT, NEWER])
    template = shed(probing_tasks={"behavioral_test": [{**one, "needs": some} for some in needs]})
    made = [[[*test.needs] for test in point.temptations] for point in template.points]

    assert made == [[[LIMIT], [PORT]], [[LIMIT], [LIMIT, NEWER]]]
