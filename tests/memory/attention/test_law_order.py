"""Order: those that hold most come first, ties newest first, then by id."""

import pytest

from ebbtide.memory.attention.law import Attention
from tests.memory.remembering import USER, add_all, attended, day, ids, memory


def test_most_comes_first(attention: Attention) -> None:
    """What holds most of attention leads."""
    add_all(attention, memory("t1/a", 60), memory("t1/b", 90), memory("t1/c", 75))

    assert attended(attention, 0) == ["t1/b", "t1/c", "t1/a"]


def test_time_changes_the_order(attention: Attention) -> None:
    """An older memory of a higher base falls behind a newer one."""
    add_all(attention, memory("t1/a", 80), memory("t1/b", 70, created=20))

    assert attended(attention, 20) == ["t1/b", "t1/a"]


def test_access_changes_the_order(attention: Attention) -> None:
    """A memory overtakes another by being accessed."""
    add_all(attention, memory("t1/a", 60), memory("t1/b", 61))

    attention.touch(USER, "t1/a", now=day(0))
    assert attended(attention, 0) == ["t1/a", "t1/b"]


def test_of_equals_the_newest_leads(attention: Attention) -> None:
    """Two that hold the same stand newest first."""
    add_all(attention, memory("t1/b", 100), memory("t1/a", 80, created=20))

    assert attended(attention, 20) == ["t1/a", "t1/b"]


def test_of_equals_of_one_moment_the_id_decides(attention: Attention) -> None:
    """Two that hold the same since the same moment stand by their ids."""
    add_all(attention, *(memory(name) for name in ("t2/a", "t1/b", "t1/a", "t10/a")))

    assert attended(attention, 0) == ["t1/a", "t1/b", "t10/a", "t2/a"]


@pytest.mark.parametrize(("limit", "found"), [(2, 2), (3, 3), (9, 3), (0, 0), (-1, 0)])
def test_the_limit_counts_from_the_top(attention: Attention, limit: int, found: int) -> None:
    """No more are returned than asked for, those that hold most."""
    add_all(attention, memory("t1/a", 60), memory("t1/b", 90), memory("t1/c", 75))
    top = attention.top(USER, limit, now=day(0))
    beside = attention.refresh_for_context(USER, "anything", limit, now=day(0))

    assert ids(top) == ids(beside) == ["t1/b", "t1/c", "t1/a"][:found]
