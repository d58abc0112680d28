"""Entering: a concluded effort is in attention if it is at the threshold or above."""

from dataclasses import replace

import pytest

from ebbtide.memory.attention.law import Attention, Ranked
from tests.memory.attention.conftest import Make
from tests.memory.remembering import USER, access, add_all, attended, day, memory


def test_nothing_is_known_at_first(attention: Attention) -> None:
    """Of a user without memories there is nothing in attention, and nothing to prune."""
    found = attention.top(USER, 10, now=day(0))

    assert found == ()
    assert attention.prune(USER, now=day(0)) == 0


def test_it_enters_when_it_is_added(attention: Attention) -> None:
    """A memory above the threshold is in attention with what it holds."""
    add_all(attention, memory("t1/a", 60))

    assert attention.top(USER, 10, now=day(0)) == (Ranked("t1/a", 60.0),)


@pytest.mark.parametrize(("base", "found"), [(39, []), (40, ["t1/a"]), (0, []), (100, ["t1/a"])])
def test_the_threshold_is_in(attention: Attention, base: int, found: list[str]) -> None:
    """Exactly at the threshold a memory enters, a point below it does not."""
    add_all(attention, memory("t1/a", base))

    assert attended(attention, 0) == found


def test_the_threshold_is_the_instances(make: Make) -> None:
    """Another threshold lets others enter."""
    attention = make(threshold=10.0)
    add_all(attention, memory("t1/a", 10), memory("t1/b", 9))

    assert attended(attention, 0) == ["t1/a"]


def test_it_enters_as_old_as_it_is(attention: Attention) -> None:
    """A memory that is added late counts its days since it was concluded."""
    attention.add(USER, memory("t1/a", 60), now=day(30))
    attention.add(USER, memory("t1/b", 60), now=day(34))

    assert attention.top(USER, 10, now=day(34)) == ()
    assert attention.explain(USER, "t1/b", now=day(34)) is not None


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


def test_concluding_again_takes_the_new_base(attention: Attention) -> None:
    """A memory that is added again with a base below the threshold leaves."""
    add_all(attention, memory("t1/a", 60), memory("t1/a", 20, created=1))

    assert attended(attention, 1) == []


def test_adding_the_same_again_changes_nothing(attention: Attention) -> None:
    """An event that is applied twice leaves what it left once."""
    add_all(attention, memory("t1/a", 60, keywords=["axios"]))
    once = attention.explain(USER, "t1/a", now=day(3))

    attention.add(USER, memory("t1/a", 60, keywords=["axios"]), now=day(3))
    assert attention.explain(USER, "t1/a", now=day(3)) == once
    assert attended(attention, 3) == ["t1/a"]


def test_a_memory_has_no_keywords(attention: Attention) -> None:
    """Keywords may be missing, or say nothing."""
    add_all(attention, memory("t1/a"), memory("t1/b", keywords=["", " ", "the", "\0", "!"]))

    assert attended(attention, 0) == ["t1/a", "t1/b"]


def test_it_never_holds_more_than_all(attention: Attention) -> None:
    """A base above 100 holds 100."""
    add_all(attention, replace(memory("t1/a"), base=130))

    assert attention.top(USER, 10, now=day(0)) == (Ranked("t1/a", 100.0),)
