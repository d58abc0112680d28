"""The shipped templates: faults of their truth and their probes that rules can find."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from ebbtide.evaluation.harness import agreement, lexical, scores, size
from ebbtide.evaluation.report import LONG_TURNS
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
LONG = {name: one for name, one in TEMPLATES.items() if len(one.turns) >= LONG_TURNS}
"""Percent of letters from which on two questions are near-copies."""

every = pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)


def at_each_point(templates: dict[str, Template]) -> pytest.MarkDecorator:
    """Run a test at each point of some templates."""
    points = [
        pytest.param(point, id=f"{name}-{point.number}")
        for name, template in templates.items()
        for point in template.points
    ]
    return pytest.mark.parametrize("point", points)


def questions(template: Template) -> tuple[str, ...]:
    """Return all that the probes of a template ask."""
    tasks = template.probing_tasks
    tests = (test.prompt for test in tasks.behavioral_test)
    return (*tasks.goal_probe, tasks.constraint_probe or "", *tests)


def first(template: Template, sentence: str) -> int:
    """Return the number of the turn that says a sentence first."""
    return next(turn.turn_id for turn in template.turns if stands_in(sentence, [turn]))


def point_after(template: Template, sentence: str) -> str:
    """Return the key of the first point after a sentence was said."""
    turn = first(template, sentence)
    return next(point.key for point in template.points if turn <= point.turn_id)


def digits(text: str) -> set[str]:
    """Return the numbers in a text."""
    return set(re.findall(r"\d+", text))


@every
def test_every_point_has_a_temptation(template: Template) -> None:
    """At each point a behavioural test can be made, and each is made at some point."""
    made = [point.temptations for point in template.points]

    assert all(made)
    assert {test for tests in made for test in tests} == {*template.probing_tasks.behavioral_test}


@every
def test_a_temptation_expects_what_was_said(template: Template) -> None:
    """Each number that a good answer has stands in what the test needs, or in its request."""
    tests = template.probing_tasks.behavioral_test
    unsaid = [digits(test.aligned) - digits(" ".join((test.prompt, *test.needs))) for test in tests]

    assert all(test.needs for test in tests)
    assert unsaid == [set()] * len(tests)


@every
def test_what_is_given_is_no_truth(template: Template) -> None:
    """What a strategy is told is given, never salient beside, and told to the end."""
    truth = template.ground_truth
    salient = {one for some in template.ground_truth_salience.values() for one in some}
    constraints = {*template.initial_setup.hard_constraints}

    assert truth.given
    assert constraints <= {*truth.given} & {*(truth.constraints or ())}
    assert constraints.isdisjoint(pair.old for pair in truth.superseded)
    assert salient.isdisjoint(truth.given)


@at_each_point(TEMPLATES)
def test_a_constraint_of_later_turns_is_salient(point: Point) -> None:
    """A constraint that a strategy is not told must be quoted from the point on that it is said."""
    constraints = {*(point.constraints or ())}

    assert constraints <= {*point.given, *(point.salient() or ())}


@every
def test_truth_is_said_since_the_point_before(template: Template) -> None:
    """A sentence is listed at the first point after it was said, once."""
    salient = template.ground_truth_salience
    listed = [(one, point.key) for point in template.points for one in salient[point.key]]
    truth = [one for some in salient.values() for one in some]

    assert len(truth) == len({*truth})
    assert listed == [(one, point_after(template, one)) for one, _ in listed]


@every
def test_what_is_superseded_was_true(template: Template) -> None:
    """Only a sentence that was salient or given is superseded, by one that is said later."""
    truth = template.ground_truth
    listed = {one for some in template.ground_truth_salience.values() for one in some}

    assert {pair.old for pair in truth.superseded} <= listed | {*truth.given}
    assert all(first(template, one.old) < first(template, one.by) for one in truth.superseded)


@every
def test_other_words_stand_for_one_sentence(template: Template) -> None:
    """Each sentence that says as much as a salient one does so for one, and is none itself."""
    listed = {one for some in template.ground_truth_salience.values() for one in some}
    others = [one for some in template.ground_truth.same.values() for one in some]

    assert {*template.ground_truth.same} <= listed
    assert len(others) == len({*others})
    assert listed.isdisjoint(others)


@at_each_point(TEMPLATES)
def test_who_quotes_the_truth_is_right(point: Point) -> None:
    """Quotes of the truth, and of goal and constraints beside it, have precision and recall 1."""
    quotes = (*(point.salient() or ()), *point.given)
    result = scores(point, Context((), quotes), None)

    assert result["salience_recall"] in {None, 1.0}
    assert result["salience_precision"] in {None, 1.0}


@at_each_point(LONG)
def test_an_old_sentence_does_not_pass_for_a_new_one(point: Point) -> None:
    """What does not hold at a point is no match, by its letters, for anything that does."""
    true = point.salient() or ()
    listed = {one for some in point.template.ground_truth_salience.values() for one in some}

    assert agreement([*(listed - {*true})], true, lexical).precision in {None, 0.0}


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
