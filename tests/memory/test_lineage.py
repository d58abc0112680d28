"""Lineage: what a tip sees of its branch and of the branches before it."""

from ebbtide.memory.lineage import Segment, lineage
from ebbtide.memory.record import Tip


def test_root_sees_itself() -> None:
    """A tip on a root sees that branch up to itself."""
    assert lineage(Tip("main", 4), {"main": None}) == (Segment("main", 4),)


def test_unknown_branch_sees_itself() -> None:
    """A branch that is not known is a root."""
    assert lineage(Tip("b1", 4), {}) == (Segment("b1", 4),)


def test_fork_of_a_fork_sees_both_parents() -> None:
    """Each ancestor is seen up to where it was left."""
    origins = {"main": None, "b1": ("main", 3), "b2": ("b1", 5)}

    seen = lineage(Tip("b2", 9), origins)

    assert seen == (Segment("b2", 9), Segment("b1", 5), Segment("main", 3))


def test_tip_before_its_branch_sees_no_more_of_the_parent() -> None:
    """An older tip sees no turn of the parent that is newer than itself."""
    assert lineage(Tip("b1", 2), {"b1": ("main", 4)})[1] == Segment("main", 2)


def test_circle_ends() -> None:
    """Damaged origins that lead in a circle do not lead on for ever."""
    assert len(lineage(Tip("a", 4), {"a": ("b", 3), "b": ("a", 2)})) == 2
