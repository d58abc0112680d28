"""What is true at a compression point: what was said until then and still holds."""

from collections.abc import Iterable, Sequence

from .template import BehavioralTest, Point, Template, TemplateTurn, folded, stands_in


def salient(template: Template, point: Point, through: int | None = None) -> tuple[str, ...] | None:
    """Return the sentences that are salient at a point, None if the template does not know.

    They are those of this point and of all before it that no newer sentence supersedes, as far as
    they were said in turns up to `through`, by default all. A template knows it if it lists the
    point, be it with no sentence.
    """
    listed = template.ground_truth_salience
    if point.key not in listed:
        return None
    until = [one.key for one in template.points if one.number <= point.number]
    turns = template.until(point.turn_id if through is None else through)
    said = (one for key in until for one in listed.get(key, ()) if stands_in(one, turns))
    return _holding(template, turns, said)


def constraints(template: Template, point: Point) -> tuple[str, ...] | None:
    """Return the constraints that hold at a point, None if the template does not know."""
    known = template.ground_truth.constraints
    turns = template.until(point.turn_id)
    if known is None:
        return None
    return _holding(template, turns, (one for one in known if stands_in(one, turns)))


def given(template: Template, point: Point) -> tuple[str, ...]:
    """Return the sentences of what a strategy was told itself that hold at a point."""
    turns = template.until(point.turn_id)
    said = (one for one in template.ground_truth.given if stands_in(one, turns))
    return _holding(template, turns, said)


def temptations(template: Template, point: Point) -> tuple[BehavioralTest, ...]:
    """Return the behavioural tests that need nothing but what was said and holds at a point."""
    turns = template.until(point.turn_id)

    def holds(test: BehavioralTest) -> bool:
        said = all(stands_in(one, turns) for one in test.needs)
        return said and len(_holding(template, turns, test.needs)) == len(test.needs)

    return tuple(test for test in template.probing_tasks.behavioral_test if holds(test))


def named(template: Template, quotes: Iterable[str]) -> tuple[str, ...]:
    """Return quotes; one that says as much as a salient sentence is that sentence."""
    same = template.ground_truth.same.items()
    names = {folded(other): sentence for sentence, others in same for other in others}
    return tuple(names.get(folded(quote), quote) for quote in quotes)


def goal(template: Template, point: Point) -> str:
    """Return the goal as it is at a point: the original one, or the newest change."""
    changes = [turn.goal_change for turn in template.until(point.turn_id) if turn.goal_change]
    return changes[-1].goal if changes else template.initial_setup.original_goal


def _holding(
    template: Template, turns: Sequence[TemplateTurn], sentences: Iterable[str]
) -> tuple[str, ...]:
    """Return sentences once each, without those that one of these turns supersedes."""
    pairs = template.ground_truth.superseded
    gone = {folded(pair.old) for pair in pairs if stands_in(pair.by, turns)}
    once = dict.fromkeys(folded(sentence) for sentence in sentences)
    return tuple(sentence for sentence in once if sentence not in gone)
