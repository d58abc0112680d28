"""Templates: the shipped ones, and every way in which a file can be wrong."""

from pathlib import Path
from typing import Any

import pytest

from ebbtide.evaluation.template import (
    Template,
    TemplateFileError,
    read_template,
)
from tests.evaluation.conversations import plain, written


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

    with pytest.raises(TemplateFileError) as caught:
        read_template(path)

    assert said in str(caught.value)
    assert path in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there() -> None:
    """A name that is unknown is answered with the names that there are."""
    with pytest.raises(TemplateFileError, match="coding-session, incident-night-payments"):
        read_template("no-such-template")


def test_turn_ids_are_no_positions() -> None:
    """What was said until a turn goes by its number, whatever its place in the list."""
    template = Template.model_validate(plain())

    assert [turn.turn_id for turn in template.until(12)] == [5, 8, 11, 12]
    assert [point.turn_id for point in template.points] == [8, 20]
