"""Fading: a read lets those leave that time took below the threshold."""

from datetime import timedelta, timezone

import pytest

from ebbtide.memory.attention.law import Attention, Memory, Ranked
from tests.memory.attention.conftest import Make
from tests.memory.remembering import START, USER, add_all, attended, day, memory


@pytest.mark.parametrize(("base", "fades"), [(50, 21), (70, 43)])
def test_it_fades_on_its_day(attention: Attention, base: int, fades: int) -> None:
    """Without access a memory is in attention on the day before, and not on its day."""
    add_all(attention, memory("t1/a", base))

    assert attended(attention, fades - 1) == ["t1/a"]
    assert attended(attention, fades) == []


def test_prune_counts_those_that_leave(attention: Attention) -> None:
    """Pruning returns how many left, and nothing is left to prune after it."""
    add_all(attention, memory("t1/a", 50), memory("t1/b", 60), memory("t1/c", 50))

    assert attention.prune(USER, now=day(20)) == 0
    assert attention.prune(USER, now=day(21)) == 2
    assert attention.prune(USER, now=day(21)) == 0
    assert attended(attention, 21) == ["t1/b"]


def test_time_zones_do_not_matter(attention: Attention) -> None:
    """Moments are compared as moments, in whatever zone they are given."""
    east, west = timezone(timedelta(hours=9)), timezone(timedelta(hours=-8))
    attention.add(USER, Memory("t1/a", 50, START.astimezone(east)), now=START)

    assert attention.top(USER, 10, now=day(20).astimezone(west)) == (Ranked("t1/a", 40.0),)


def test_it_is_pruned_by_another_instance(make: Make) -> None:
    """What one instance added another one sees, and prunes."""
    add_all(make(), memory("t1/a", 50), memory("t1/b", 60))

    assert make().prune(USER, now=day(21)) == 1
    assert attended(make(), 21) == ["t1/b"]
