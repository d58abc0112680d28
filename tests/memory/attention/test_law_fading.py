"""Fading: a read lets those leave that time took below the threshold."""

from datetime import timedelta, timezone

import pytest

from ebbtide.memory.attention.law import Attention, Memory, Ranked
from tests.memory.attention.conftest import Make
from tests.memory.remembering import START, USER, add_all, attended, day, memory


@pytest.mark.parametrize(("base", "fades"), [(50, 21), (60, 34), (70, 43), (90, 56)])
def test_it_fades_on_its_day(attention: Attention, base: int, fades: int) -> None:
    """Without access a memory is in attention on the day before, and not on its day."""
    add_all(attention, memory("t1/a", base))

    assert attended(attention, fades - 1) == ["t1/a"]
    assert attended(attention, fades) == []


def test_days_are_fractions(attention: Attention) -> None:
    """A base of 50 is at the threshold after 20 days to the minute, and below it a minute later."""
    add_all(attention, memory("t1/a", 50))
    minute = timedelta(minutes=1)

    assert attention.top(USER, 10, now=day(20)) == (Ranked("t1/a", 40.0),)
    assert attention.top(USER, 10, now=day(20) + minute) == ()


def test_prune_counts_those_that_leave(attention: Attention) -> None:
    """Pruning returns how many left, and nothing is left to prune after it."""
    add_all(attention, memory("t1/a", 50), memory("t1/b", 60), memory("t1/c", 50))

    assert attention.prune(USER, now=day(20)) == 0
    assert attention.prune(USER, now=day(21)) == 2
    assert attention.prune(USER, now=day(21)) == 0
    assert attended(attention, 21) == ["t1/b"]


def test_top_prunes_first(attention: Attention) -> None:
    """What leaves because `top` read it is not left for `prune`."""
    add_all(attention, memory("t1/a", 50), memory("t1/b", 60))

    assert attended(attention, 21) == ["t1/b"]
    assert attention.prune(USER, now=day(21)) == 0


def test_top_prunes_beyond_its_limit(attention: Attention) -> None:
    """Those leave as well that a small limit would not have shown."""
    add_all(attention, memory("t1/a", 50), memory("t1/b", 60), memory("t1/c", 70))

    attention.top(USER, 1, now=day(21))
    assert attention.prune(USER, now=day(21)) == 0


def test_what_faded_is_still_known(attention: Attention) -> None:
    """A memory fades from attention, not from what is kept."""
    add_all(attention, memory("t1/a", 50))
    attention.prune(USER, now=day(90))
    found = attention.explain(USER, "t1/a", now=day(90))

    assert found is not None
    assert found.effective == 15.0


def test_a_memory_of_the_future_is_new(attention: Attention) -> None:
    """If the clock was set back behind a memory, it holds all of its base."""
    attention.add(USER, memory("t1/a", 60, created=10), now=day(0))

    assert attention.top(USER, 10, now=day(0)) == (Ranked("t1/a", 60.0),)


def test_an_earlier_moment_is_allowed(attention: Attention) -> None:
    """A clock that went back a little between two calls makes memories younger."""
    add_all(attention, memory("t1/a", 60))
    attention.top(USER, 10, now=day(10))

    assert attention.top(USER, 10, now=day(5)) == (Ranked("t1/a", 57.0),)
    assert attention.prune(USER, now=day(0)) == 0


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
