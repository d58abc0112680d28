"""Capacity: when more are in attention than fit in, the lowest leaves."""

from tests.memory.attention.conftest import Make
from tests.memory.remembering import USER, add_all, attended, day, memory


def test_the_lowest_leaves(make: Make) -> None:
    """A memory that enters pushes out the one that holds least."""
    attention = make(capacity=2)
    add_all(attention, memory("t1/a", 60), memory("t1/b", 50), memory("t1/c", 70))

    assert attended(attention, 0) == ["t1/c", "t1/a"]


def test_it_may_enter_again(make: Make) -> None:
    """A memory that did not fit in enters when it is accessed, and the lowest leaves for it."""
    attention = make(capacity=2)
    add_all(attention, memory("t1/a", 60), memory("t1/b", 50), memory("t1/c", 49))

    attention.touch(USER, "t1/c", now=day(0))
    assert attended(attention, 0) == ["t1/a", "t1/b"]

    attention.touch(USER, "t1/c", now=day(0))
    assert attended(attention, 0) == ["t1/a", "t1/c"]


def test_each_user_has_all_of_it(make: Make) -> None:
    """One user's memories take no place of another's."""
    attention = make(capacity=1)
    add_all(attention, memory("t1/a", 60), user="ann")
    add_all(attention, memory("t1/b", 90), user="bob")

    assert attended(attention, 0, "ann") == ["t1/a"]
    assert attended(attention, 0, "bob") == ["t1/b"]


def test_a_smaller_capacity_lets_all_leave_that_do_not_fit(make: Make) -> None:
    """Under a smaller capacity the next to enter makes attention as small."""
    add_all(make(), *(memory(f"t1/{base}", base) for base in (50, 60, 70, 80)))

    add_all(make(capacity=2), memory("t1/75", 75))
    assert attended(make(), 0) == ["t1/80", "t1/75"]
