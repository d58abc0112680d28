"""Entering: a concluded effort is in attention if it is at the threshold or above."""

import pytest

from ebbtide.memory.attention.law import Attention, Ranked
from tests.memory.remembering import USER, access, add_all, attended, day, memory


@pytest.mark.parametrize(("base", "found"), [(39, []), (40, ["t1/a"])])
def test_the_threshold_is_in(attention: Attention, base: int, found: list[str]) -> None:
    """Exactly at the threshold a memory enters, a point below it does not."""
    add_all(attention, memory("t1/a", base))

    assert attended(attention, 0) == found


def test_concluding_again_renews_the_date(attention: Attention) -> None:
    """A memory that faded is in attention again when it is added with a new date."""
    add_all(attention, memory("t1/a", 60))
    attention.prune(USER, now=day(50))

    add_all(attention, memory("t1/a", 60, created=50))
    assert attended(attention, 50) == ["t1/a"]


def test_concluding_again_keeps_the_accesses(attention: Attention) -> None:
    """What was counted before a memory was added again still counts."""
    add_all(attention, memory("t1/a", 50))
    access(attention, "t1/a", 5, 1)

    add_all(attention, memory("t1/a", 60, created=2))
    assert attention.top(USER, 10, now=day(2)) == (Ranked("t1/a", 66.0),)


def test_adding_the_same_again_changes_nothing(attention: Attention) -> None:
    """An event that is applied twice leaves what it left once."""
    add_all(attention, memory("t1/a", 60, keywords=["axios"]))
    once = attention.explain(USER, "t1/a", now=day(3))

    attention.add(USER, memory("t1/a", 60, keywords=["axios"]), now=day(3))
    assert attention.explain(USER, "t1/a", now=day(3)) == once
    assert attended(attention, 3) == ["t1/a"]
