"""Records: tips, branches, and which efforts a turn belongs to."""

from ebbtide.memory.record import Group, Tip, branch_id, memberships, place
from tests.memory.turns import concluded, turn


def test_tip_of_a_record() -> None:
    """A record's tip names its branch, turn and digest."""
    record = place(turn(3), "b1", "parent", ("main", 2))

    assert record.tip == Tip("b1", 3, record.digest)


def test_place_keeps_the_group() -> None:
    """A placed record has all that the group has."""
    group = Group(2, ({"type": "human", "data": {"content": "x"}},), "now", ("a",), (), "aborted")

    record = place(group, "main", "p", None)

    assert (record.messages, record.at, record.efforts) == (group.messages, "now", ("a",))
    assert (record.status, record.parent) == ("aborted", "p")


def test_branch_is_named_by_what_begins_it() -> None:
    """The same beginning gives the same name; another parent, turn or digest another one."""
    names = {
        branch_id("main", 3, "d"),
        branch_id("main", 3, "d"),
        branch_id("main", 3, "e"),
        branch_id("main", 4, "d"),
        branch_id("b1", 3, "d"),
    }

    assert len(names) == 4


def test_concluding_turn_belongs_to_both() -> None:
    """A turn belongs to the effort active at its end and to those it concluded, once each."""
    events = [concluded("a", ""), concluded("b", ""), concluded("a", "")]

    assert memberships("b", events) == ("b", "a")


def test_turn_without_effort_is_ambient() -> None:
    """With no active effort and nothing concluded a turn belongs to none."""
    assert memberships(None, [{"type": "expanded", "effort": "a"}]) == ()
