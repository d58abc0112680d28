"""Capacity: when more are in attention than fit in, the lowest leaves."""

from ebbtide.memory.attention.law import Attention
from tests.memory.attention.conftest import Make
from tests.memory.remembering import USER, add_all, attended, day, memory


def test_the_lowest_leaves(make: Make) -> None:
    """A memory that enters pushes out the one that holds least."""
    attention = make(capacity=2)
    add_all(attention, memory("t1/a", 60), memory("t1/b", 50), memory("t1/c", 70))

    assert attended(attention, 0) == ["t1/c", "t1/a"]


def test_the_one_that_enters_may_be_the_lowest(make: Make) -> None:
    """A memory that holds less than all others does not get in."""
    attention = make(capacity=2)
    add_all(attention, memory("t1/a", 60), memory("t1/b", 50), memory("t1/c", 45))
    found = attention.explain(USER, "t1/c", now=day(0))

    assert attended(attention, 0) == ["t1/a", "t1/b"]
    assert found is not None
    assert not found.attended


def test_of_equals_the_oldest_leaves(make: Make) -> None:
    """Of two that hold least alike, the older one leaves."""
    attention = make(capacity=1)
    add_all(attention, memory("t1/a", 100))

    attention.add(USER, memory("t1/b", 80, created=20), now=day(20))
    assert attended(attention, 20) == ["t1/b"]


def test_it_is_judged_at_that_moment(make: Make) -> None:
    """The lowest is who holds least then, not who did when it entered."""
    attention = make(capacity=2)
    add_all(attention, memory("t1/a", 80), memory("t1/b", 70, created=20))

    add_all(attention, memory("t1/c", 66, created=20))
    assert attended(attention, 20) == ["t1/b", "t1/c"]


def test_what_faded_makes_room(make: Make) -> None:
    """A memory that is below the threshold takes nobody's place, whether it was pruned or not."""
    attention = make(capacity=2)
    add_all(attention, memory("t1/a", 50), memory("t1/b", 90))

    add_all(attention, memory("t1/c", 45, created=21))
    assert attended(attention, 21) == ["t1/b", "t1/c"]


def test_what_was_suppressed_makes_room(make: Make) -> None:
    """A memory that was taken out takes nobody's place."""
    attention = make(capacity=2)
    add_all(attention, memory("t1/a", 90), memory("t1/b", 80))

    attention.suppress(USER, "t1/a", now=day(0))
    add_all(attention, memory("t1/c", 45))
    assert attended(attention, 0) == ["t1/b", "t1/c"]


def test_it_may_enter_again(make: Make) -> None:
    """A memory that did not fit in enters when it is accessed, and the lowest leaves for it."""
    attention = make(capacity=2)
    add_all(attention, memory("t1/a", 60), memory("t1/b", 50), memory("t1/c", 49))

    attention.touch(USER, "t1/c", now=day(0))
    assert attended(attention, 0) == ["t1/a", "t1/b"]

    attention.touch(USER, "t1/c", now=day(0))
    assert attended(attention, 0) == ["t1/a", "t1/c"]


def test_no_room_is_left_empty_for_long(make: Make) -> None:
    """Adding a member again, or accessing it, lets nobody leave."""
    attention = make(capacity=2)
    add_all(attention, memory("t1/a", 60), memory("t1/b", 50), memory("t1/b", 50))

    attention.touch(USER, "t1/a", now=day(0))
    assert attended(attention, 0) == ["t1/a", "t1/b"]


def test_each_user_has_all_of_it(make: Make) -> None:
    """One user's memories take no place of another's."""
    attention = make(capacity=1)
    add_all(attention, memory("t1/a", 60), user="ann")
    add_all(attention, memory("t1/b", 90), user="bob")

    assert attended(attention, 0, "ann") == ["t1/a"]
    assert attended(attention, 0, "bob") == ["t1/b"]


def test_two_hundred_fit_in(attention: Attention) -> None:
    """The usual capacity holds two hundred memories, and not one more."""
    add_all(attention, *(memory(f"t1/{number:03}", 50) for number in range(201)))

    assert attended(attention, 0) == [f"t1/{number:03}" for number in range(200)]


def test_a_smaller_capacity_lets_all_leave_that_do_not_fit(make: Make) -> None:
    """Under a smaller capacity the next to enter makes attention as small."""
    add_all(make(), *(memory(f"t1/{base}", base) for base in (50, 60, 70, 80)))

    add_all(make(capacity=2), memory("t1/75", 75))
    assert attended(make(), 0) == ["t1/80", "t1/75"]
