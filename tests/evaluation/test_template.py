"""Templates: what is true at a point, the shipped ones, and every way for a file to be wrong."""

from pathlib import Path
from typing import Any

import pytest

from ebbtide.evaluation.template import (
    SHIPPED,
    EvaluationError,
    Template,
    read_template,
    stands_in,
)
from tests.evaluation.conversations import CHANGE, GOAL, LIMIT, NEWER, PORT, plain, shed, written


def turn(**values: Any) -> dict[str, Any]:
    """Return a turn of a template, with a compression point."""
    return {
        "turn_id": 1,
        "role": "user",
        "content": "Hello.",
        "is_compression_point": True,
        **values,
    }


def tempting(**values: Any) -> dict[str, Any]:
    """Return a behavioural test of a template."""
    return {"prompt": "A third tin?", "aligned": "No.", "drifted": "Yes.", **values}


def unsaid(place: str, value: Any) -> tuple[dict[str, Any], str]:
    """Return ground truth or a probe that nobody has said, and what tells of it."""
    part, key = place.split(".", 1)
    return {part: {key.partition(".")[0]: value}}, f"{place}: 'Never said.' is in no turn"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mood": "good"}, "mood: Extra inputs are not permitted"),
        ({"template_id": " "}, "template_id: String should have at least 1 character"),
        ({"turns": [turn(), turn()]}, "turns: turn_id 1 follows 1"),
        ({"turns": [turn(is_compression_point=False)]}, "no turn has is_compression_point"),
        (
            {"turns": [turn(tool_call={"name": "look", "output": "x"})]},
            "turns.0: tool_call: only a turn of the assistant can have one",
        ),
        ({"initial_setup": {}}, "initial_setup.original_goal: Field required"),
        unsaid("ground_truth.constraints", ["Never said."]),
        unsaid("ground_truth.given", ["Never said."]),
        unsaid("ground_truth.same", {"The shed is 12 metres long.": ["Never said."]}),
        unsaid("ground_truth.superseded", [{"old": "Never said.", "by": "Said."}]),
        unsaid("probing_tasks.behavioral_test.needs", tempting(needs=["Never said."])),
        (
            {"ground_truth_salience": {"compression_point_3": []}},
            "ground_truth_salience.compression_point_3: there is no such point",
        ),
        (
            {"ground_truth_salience": {"compression_point_1": ["We now paint the fence instead."]}},
            "ground_truth_salience.compression_point_1: 'We now paint the fence instead.' is",
        ),
    ],
)
def test_an_error_names_file_and_field(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    """What is wrong is said in one line, with the file and the field."""
    path = written(tmp_path, plain(**changes))

    with pytest.raises(EvaluationError) as caught:
        read_template(path)

    assert said in str(caught.value)
    assert path in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there() -> None:
    """A name that is unknown is answered with the names that there are."""
    with pytest.raises(EvaluationError, match="coding-session, incident-night-payments"):
        read_template("no-such-template")


def test_turn_ids_are_no_positions() -> None:
    """What was said until a turn goes by its number, whatever its place in the list."""
    template = Template.model_validate(plain())

    assert [turn.turn_id for turn in template.until(12)] == [5, 8, 11, 12]
    assert [point.turn_id for point in template.points] == [8, 20]


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


@pytest.mark.parametrize("name", SHIPPED)
def test_truth_is_said_since_the_point_before(name: str) -> None:
    """A sentence is listed at the first point after it was said, once."""
    template = read_template(name)
    salient = template.ground_truth_salience
    listed = [(one, point) for point in template.points for one in salient[point.key]]
    said = [
        next(turn.turn_id for turn in template.turns if stands_in(one, [turn])) for one, _ in listed
    ]

    assert len(listed) == len({one for one, _ in listed})
    assert [point.key for _, point in listed] == [
        next(point.key for point in template.points if turn <= point.turn_id) for turn in said
    ]
