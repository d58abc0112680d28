"""The shipped templates: faults of their truth and their probes that rules can find."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from ebbtide.evaluation.harness import scores, size
from ebbtide.evaluation.strategies import SelectiveSalience
from ebbtide.evaluation.strategy_protocol import Context, StrategyInputs, as_messages
from ebbtide.evaluation.template import (
    SHIPPED,
    Point,
    Template,
    read_template,
    stands_in,
)
from ebbtide.memory.efforts import one_line
from tests.doubles import ScriptedModel

TEMPLATES = {name: read_template(name) for name in SHIPPED}

every = pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)


def at_each_point(templates: dict[str, Template]) -> pytest.MarkDecorator:
    """Run a test at each point of some templates."""
    points = [
        pytest.param(point, id=f"{name}-{point.number}")
        for name, template in templates.items()
        for point in template.points
    ]
    return pytest.mark.parametrize("point", points)


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


@at_each_point(TEMPLATES)
def test_who_quotes_the_truth_is_right(point: Point) -> None:
    """Quotes of the truth, and of goal and constraints beside it, have precision and recall 1."""
    quotes = (*(point.salient() or ()), *point.given)
    result = scores(point, Context((), quotes), None)

    assert result["salience_recall"] in {None, 1.0}
    assert result["salience_precision"] in {None, 1.0}


@every
def test_compressing_pays(template: Template) -> None:
    """With the truth quoted and a background, each point is much shorter than the conversation."""
    truth = [one for some in template.ground_truth_salience.values() for one in some]

    def quoting(messages: Sequence[BaseMessage]) -> dict[str, Any]:
        log = one_line(messages[-1].text.split("<log", 1)[1])
        return {"new": [{"quote": one, "kind": "fact"} for one in truth if one_line(one) in log]}

    model = ScriptedModel(answers=lambda _: "They talked it over. " * 12, structured=quoting)
    strategy = SelectiveSalience(StrategyInputs(model, None, Path()))
    strategy.initialize(template.initial_setup.original_goal, ())

    for point in template.points:
        context = strategy.compress(point.turns)
        assert size(context.messages) < 0.75 * size(as_messages(point.turns))
