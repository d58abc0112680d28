"""The shipped templates: faults of their truth and their probes that rules can find."""

import pytest

from ebbtide.evaluation.template import (
    SHIPPED,
    Template,
    read_template,
    stands_in,
)

TEMPLATES = {name: read_template(name) for name in SHIPPED}

every = pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)


def first(template: Template, sentence: str) -> int:
    """Return the number of the turn that says a sentence first."""
    return next(turn.turn_id for turn in template.turns if stands_in(sentence, [turn]))


def point_after(template: Template, sentence: str) -> str:
    """Return the key of the first point after a sentence was said."""
    turn = first(template, sentence)
    return next(point.key for point in template.points if turn <= point.turn_id)


@every
def test_truth_is_said_since_the_point_before(template: Template) -> None:
    """A sentence is listed at the first point after it was said, once."""
    salient = template.ground_truth_salience
    listed = [(one, point.key) for point in template.points for one in salient[point.key]]
    truth = [one for some in salient.values() for one in some]

    assert len(truth) == len({*truth})
    assert listed == [(one, point_after(template, one)) for one, _ in listed]
