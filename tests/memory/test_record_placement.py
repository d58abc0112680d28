"""Placement: a place that is free, held, or taken by another."""

from dataclasses import dataclass

from ebbtide.memory.record import Slot, Tip, branch_id, place, placement
from tests.memory.turns import turn

DIGEST = place(turn(2), "main", "", None).digest
TIP = Tip("main", 1, "one")
ONE = {("main", 1): Slot("one", "", None)}


@dataclass(frozen=True)
class Held:
    """Occupied places in a dict."""

    slots: dict[tuple[str, int], Slot]

    def slot(self, branch: str, turn: int) -> Slot | None:
        """Return what occupies a place."""
        return self.slots.get((branch, turn))

    def head(self, branch: str, below: int | None = None) -> int:
        """Return the newest turn of a branch."""
        turns = [t for b, t in self.slots if b == branch and (below is None or t < below)]
        return max(turns, default=0)


def test_free_place_after_the_tip_is_taken() -> None:
    """A group goes to the branch of its tip if that goes no further."""
    record, stored = placement(TIP, turn(2), Held(ONE))

    assert (record.branch, stored) == ("main", False)


def test_same_group_is_stored_already() -> None:
    """The same digest after the same parent is the record itself."""
    record, stored = placement(TIP, turn(2), Held({**ONE, ("main", 2): Slot(DIGEST, "one", None)}))

    assert (record.branch, stored) == ("main", True)


def test_same_group_after_another_parent_is_another() -> None:
    """The same digest after another parent begins a branch."""
    record, _ = placement(TIP, turn(2), Held({**ONE, ("main", 2): Slot(DIGEST, "else", None)}))

    assert record.origin == ("main", 1)


def test_occupied_branch_leads_to_the_next() -> None:
    """If the place on the new branch is taken too, another name is derived from it."""
    first = branch_id("main", 2, DIGEST)
    taken = {("main", 2): Slot("x", "one", None), (first, 2): Slot("y", "one", ("main", 1))}

    record, stored = placement(TIP, turn(2), Held({**ONE, **taken}))

    assert record.branch == branch_id(first, 2, DIGEST)
    assert (record.origin, stored) == (("main", 1), False)


def test_branch_leaves_its_parent_before_its_first_turn() -> None:
    """A turn that is committed after a later one does not see that one."""
    record, _ = placement(Tip("main", 1, "one"), turn(1), Held(ONE))

    assert record.origin == ("main", 0)
